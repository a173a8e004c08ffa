#!/usr/bin/env bash
# What `cmake --install` puts into a folder works from there: the program with its modules, the manual, completions, the
# example. The manual has every flag, and passes mandoc's lint where that is installed.
. "$SOURCE/tests/cli/lib.bash"
build=$(dirname "$MOTLEY")
[ -e "$build/pages.stamp" ] || { echo "the manual was not built"; exit 77; }
cmake --install "$build" --prefix "$folder/to" >installed.txt
unset MOTLEY_MODULES
motley=$folder/to/bin/motley
[ "$($motley --version)" = "$($MOTLEY --version)" ] || fail "version"

# The modules are those that were installed.
if [ -e "$build/motley_glpk.so" ]; then
  $motley plan --cluster cpu:1x2 --model mlp:tiny --batch 8 -o plan.json >said.txt
  mv to/lib/motley/motley_glpk.so away.so
  refused 3 "motley_glpk.so was not found in $folder/to/bin, $folder/to/bin/../lib/motley" \
    $motley plan --cluster cpu:1x2 --model mlp:tiny --batch 8 -o no.json
  mv away.so to/lib/motley/motley_glpk.so
fi
if [ -e "$build/motley_onednn.so" ]; then
  $motley plan --model mlp:tiny --ranks 1 --steps 2 -o one.json >said.txt
  seq 1 2000 >text.txt
  $motley train one.json --data text.txt --no-out 2>&1 | has "oneDNN" || fail "oneDNN was not found"
fi

# A page for each command, with its flags; a table of exit codes.
manual=to/share/man/man1
plain() { sed 's/\\&//g; s/\\-/-/g' "$1"; }
for command in $(sed -n 's/^MT_COMMAND(\([a-z]*\),.*/\1/p' "$SOURCE/launcher/commands/commands.def"); do
  page=$manual/motley-$command.1
  [ -s "$page" ] || fail "no page of $command"
  has "^\.It Xr motley-$command 1$" $manual/motley.1 || fail "$command is not in motley(1)"
  for flag in $($motley "$command" --help | grep -oE '^ {2,6}(-[a-zA-Z], )?--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+'); do
    plain "$page" | has -E "^\.It (Fl . , )?Fl ${flag#-}( |$)" || fail "$page has no $flag"
  done
done
for code in 0 1 2 3 4 5 6 7; do has -x "\.It $code" $manual/motley.1 || fail "exit code $code is not in motley(1)"; done
for variable in $(cd "$SOURCE" && grep -rhoE '(getenv\(")MOTLEY_[A-Z_]+' --include=*.c kernels profiler synth planner launcher | sed 's/.*"//' | sort -u); do
  plain $manual/motley.1 | has "^\.It Ev $variable$" || fail "$variable, which is read, is not in motley(1)"
done
if command -v mandoc >/dev/null; then
  mandoc -T lint -W warning $manual/*.1 >lint.txt || fail "$(cat lint.txt)"
  shown() { mandoc -T ascii "$manual/$1" | sed 's/.\x08//g' | has -F -- "$2" || fail "$1 has no $2"; }
  shown motley-plan.1 "--cluster=FILE"
  shown motley-show.1 "--json[=FILE]" # a value that may be left out
fi

for file in bash-completion/completions/motley zsh/site-functions/_motley fish/vendor_completions.d/motley.fish \
  doc/motley/README.md doc/motley/LICENSE; do
  [ -s "to/share/$file" ] || fail "$file is not installed"
done

# The example, of the installed program, with a text of ours.
if [ -e "$build/motley_glpk.so" ] && ! sanitized; then
  PATH=$folder/to/bin:$PATH TEXT=$SOURCE/LICENSE STEPS=60 BUDGET=2 WORK=quick to/share/doc/motley/examples/quickstart.sh \
    >quick.txt 2>&1 || fail "quickstart: $(tail -n 20 quick.txt)"
  [ -s quick/run/run.json ] && has "parameter hashes equal on 2 ranks" quick.txt || fail "$(cat quick.txt)"
fi
