#!/usr/bin/env bash
# Completion in shells: bash always; zsh and fish where they are installed. Commands, flags, their values, documents.
. "$SOURCE/tests/cli/lib.bash"
share=$(dirname "$MOTLEY")/share
[ -d "$share" ] || { echo "the manual and completions were not built"; exit 77; }
touch cluster.json plan.json other.txt
mkdir run

# What is typed, and all that it may become, sorted; "!" before a word: not that.
cases="motley pl|plan
motley plan --strat|--strategy
motley plan --strategy z|zero1 zero3
motley plan --precision b|bf16
motley plan --cluster |cluster.json plan.json run/
motley show g|graph
motley show |cluster.json graph layouts plan.json program run/
motley diff p|plan.json
motley train plan.json --data o|other.txt
motley train plan.json --checkpoint-e|--checkpoint-every
motley bench plans --al|--alone
motley bench overlap --sh|--shape --shares
motley verify --no|--no-numeric
motley show --json p|plan.json program
motley help expl|explain"

# bash_replies LINE: one a line.
bash_replies() {
  bash --norc -c '. "$1"; COMP_LINE=$2 COMP_POINT=${#2}; _motley; printf "%s\n" "${COMPREPLY[@]}"' - \
    "$share/bash-completion/completions/motley" "$1"
}
fish_replies() {
  fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$share/fish/vendor_completions.d/motley.fish" "$1" | cut -f1
}

check() { # SHELL LINE WANTED
  local got
  got=$("$1_replies" "$2" | sort | paste -sd " ")
  [ "$got" = "$3" ] || fail "$1: '$2' became '$got', not '$3'"
}
shells=bash
if command -v fish >/dev/null; then shells+=" fish"; fi
for shell in $shells; do
  while IFS='|' read -r line wanted; do check $shell "$line" "$wanted"; done <<<"$cases"
  check $shell "motley verify --numeric=" ""
done
check bash "motley plan --strategy=z" "zero1 zero3"
check bash "motley show --json=o" "other.txt" # its value may be left out: a word of its own is none
check bash "motley plan --model gpt2:12" "124m" # bash has divided off what is before the colon
! bash_replies "motley plan --" | has -vE '^--[a-z0-9-]+$' || fail "$(bash_replies "motley plan --")"

# Every flag of every command's help, and no other.
for command in $(sed -n 's/^MT_COMMAND(\([a-z]*\),.*/\1/p' "$SOURCE/launcher/commands/commands.def"); do
  "$MOTLEY" "$command" --help | grep -oE '^ {2,6}(-[a-zA-Z], )?--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+' | sort >flags.txt
  bash_replies "motley $command --" | sort | cmp - flags.txt || fail "flags of $command"
  bash_replies "motley " | has -x "$command" || fail "no $command"
done

# zsh draws what it completes, on a terminal of its own: for each case, until the line has the first of the words.
if command -v zsh >/dev/null && zsh -f -c 'zmodload zsh/zpty' 2>/dev/null; then
  cat >complete.zsh <<'END'
zmodload zsh/zpty
zpty shell "TERM=dumb zsh -f -i"
zpty -w shell "PS1= fpath=($1 \$fpath); autoload -U compinit; compinit -u -D; setopt no_beep no_list_ambiguous zle; print started"
zpty -r -m shell seen '*started*started*'
zpty -w -n shell "$2"$'\t'
for (( i = 0; i < 300; i++ )) {
  sleep 0.1
  while zpty -r -t shell more 2>/dev/null; do seen+=$more; done
  [[ $seen == *"$2"*"$3"* || $seen == *"$4"* ]] && exit 0
}
print -r -- "zsh: '$2' did not become '$4': ${(qqqq)seen}"
exit 1
END
  while IFS='|' read -r line wanted; do
    first=${wanted%% *}
    whole="${line% *} $first" # as the line is drawn again; of several words, a list with the first
    rest=${first#"${line##* }"}
    timeout 100 zsh -f complete.zsh "$share/zsh/site-functions" "$line" "$rest" "$whole" || fail "zsh: $line"
  done <<<"$cases"
fi
echo "completed in: $shells$(command -v zsh >/dev/null && echo " zsh")"
