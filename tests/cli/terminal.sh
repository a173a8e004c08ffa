#!/usr/bin/env bash
# What people see on terminals: colours there only, the line of progress there only and gone at the end; large jobs and
# clusters on few lines. `script` gives the commands a terminal.
. "$SOURCE/tests/cli/lib.bash"
command -v script >/dev/null || { echo "needs script (bsdutils)"; exit 77; }
unset NO_COLOR
export TERM=xterm
esc=$(printf '\033')
# What stands still is named, long before CTest ends the test.
terminal() { timeout 1800 script -qec "$*" /dev/null </dev/null >seen.txt || fail "$*: code $?: $(cat -v seen.txt)"; }
colours() { grep -c "$esc\[[0-9]*m" "$1" || true; } # lines with some
small="--model gpt2:layers=1,heads=2,embed=16,context=8,vocab=40"
$MOTLEY plan $small --ranks 2 --batch 8 -o plan.json >/dev/null

# Colours.
terminal $MOTLEY show plan.json
[ "$(colours seen.txt)" -ge 3 ] || fail "no colours on a terminal: $(cat -v seen.txt)"
sed "s/$esc\[[0-9]*m//g" seen.txt | tr -d '\r' >plain.txt
$MOTLEY show plan.json >file.txt
cmp plain.txt file.txt || fail "another text on a terminal"
[ "$(colours file.txt)" = 0 ] || fail "colours in a file"
$MOTLEY show plan.json --color always >always.txt
[ "$(colours always.txt)" -ge 3 ] || fail "--color always"
sed "s/$esc\[[0-9]*m//g" always.txt | cmp - file.txt || fail "--color always has another text"
terminal $MOTLEY show plan.json --color never
[ "$(colours seen.txt)" = 0 ] || fail "--color never"
NO_COLOR=1 terminal $MOTLEY show plan.json
[ "$(colours seen.txt)" = 0 ] || fail "NO_COLOR"
NO_COLOR= terminal $MOTLEY show plan.json
[ "$(colours seen.txt)" -ge 3 ] || fail "an empty NO_COLOR is none"
TERM=dumb terminal $MOTLEY show plan.json
[ "$(colours seen.txt)" = 0 ] || fail "TERM=dumb"
terminal $MOTLEY show plan.json --json
[ "$(colours seen.txt)" = 0 ] || fail "colours in JSON"
refused 2 '--color: "blue" is not known here' $MOTLEY show plan.json --color blue
[ "$(colours err.txt)" = 0 ] || fail "colours of an error in a file: $(cat -v err.txt)"
script -qec "$MOTLEY show nothing.json" /dev/null </dev/null >seen.txt && fail "shows nothing.json"
grep -q "^$esc\[31mmotley:$esc\[0m nothing.json: " seen.txt || fail "an error without colour: $(cat -v seen.txt)"

# Progress: over a second of planning says so on a terminal, in a line that is erased; elsewhere nothing.
job="--model gpt2:1558m --batch 512 --precision bf16"
plan_slowly="$MOTLEY plan --cluster 'h100:8x8 net=400G nvlink=450G + a100-80:8x8' $job --limit 2 -o slow.json"
terminal "$plan_slowly"
tr '\r' '\n' <seen.txt | has "^$esc\[Kplanning for [0-9]* s; [0-9]* plans* predicted.*, at most [0-9]* s left" ||
  fail "no progress on a terminal: $(cat -v seen.txt)"
tr '\r' '\n' <seen.txt | grep "slow.json: " | has "^$esc\[K" || fail "the line is not erased before the result: $(cat -v seen.txt)"
sh -c "$plan_slowly" >out.txt 2>err.txt || fail "$(cat err.txt)"
[ ! -s err.txt ] || fail "progress in a file: $(cat -v err.txt)"
terminal "$MOTLEY whatif --cluster 'h100:4x8 net=400G nvlink=450G + a100-80:4x8' $job --limit 2 --set link.net=200G --set link.net=100G"
tr '\r' '\n' <seen.txt | has "^$esc\[Kwhat if: [0-9]*%, [0-9]* s left; set link.net" || fail "no time left: $(cat -v seen.txt)"

# On a narrow terminal lines of progress are cut, as longer ones could not be rewritten; a warning has its own line.
$MOTLEY plan --model gpt2:layers=1,heads=2,embed=16,context=8,vocab=256 --ranks 1 --batch 8 --steps 1000000 -o alone.json >/dev/null
head -c 4000 "$SOURCE/tests/cli/terminal.sh" >text.txt
cat >narrow.sh <<EOF
stty cols 50
echo \$\$ >pid
exec $MOTLEY train alone.json --data text.txt --no-out
EOF
script -qec "bash narrow.sh" /dev/null </dev/null >run.txt 2>&1 &
job=$!
wait_for 'grep -q loss run.txt'
kill -USR1 "$(cat pid)"
wait_for 'grep -q "no checkpoint was written" run.txt'
kill -INT "$(cat pid)"
wait $job || fail "code $?: $(cat -v run.txt)"
tr '\r' '\n' <run.txt | sed "s/$esc\[[0-9]*[mK]//g" >plain.txt
grep '^step' plain.txt >steps.txt || fail "no steps: $(cat -v run.txt)"
[ "$(wc -L <steps.txt)" = 49 ] || fail "lines of $(wc -L <steps.txt) columns on 50: $(cat steps.txt)"
grep -q '^motley:.*no checkpoint was written' plain.txt || fail "a warning on the line of a step: $(cat -v run.txt)"

# A plan for 512 equal ranks is read on two screens, compared on one.
$MOTLEY plan $small --ranks 512 --batch 512 --storage split -o many.json >/dev/null
$MOTLEY plan $small --ranks 512 --batch 1024 --storage split -o more.json >/dev/null
lines() { wc -l <"$1"; }
$MOTLEY show many.json >shown.txt
[ "$(lines shown.txt)" -le 60 ] || fail "$(lines shown.txt) lines: $(cat shown.txt)"
$MOTLEY diff many.json more.json >shown.txt && fail "are different"
[ "$(lines shown.txt)" -le 40 ] || fail "$(lines shown.txt) lines: $(cat shown.txt)"
$MOTLEY verify many.json --no-numeric >shown.txt
[ "$(lines shown.txt)" -le 10 ] || fail "$(cat shown.txt)"
if ! sanitized; then
  cluster="h100:16x8 net=400G nvlink=450G"
  $MOTLEY plan --cluster "$cluster" --model gpt2:layers=2,heads=8,embed=512,context=64,vocab=512 --batch 2048 --use all --limit 3 \
    -o large.json >shown.txt
  [ "$(lines shown.txt)" -le 10 ] || fail "$(cat shown.txt)"
  for command in "show large.json" "explain large.json --cluster"; do
    case $command in explain*) $MOTLEY $command "$cluster" >shown.txt ;; *) $MOTLEY $command >shown.txt ;; esac
    [ "$(lines shown.txt)" -le 80 ] || fail "$command: $(lines shown.txt) lines: $(cat shown.txt)"
  done
fi

# Of plans for other numbers of ranks, too.
$MOTLEY diff many.json plan.json >shown.txt && fail "are different"
[ "$(lines shown.txt)" -le 40 ] || fail "$(lines shown.txt) lines: $(cat shown.txt)"

# Two clusters of 64 hosts on one screen, 80 by 40.
$MOTLEY profile --describe "h100:64x8 net=400G nvlink=450G" -o a.json >shown.txt
[ "$(lines shown.txt)" -le 40 ] || fail "$(cat shown.txt)"
$MOTLEY profile --describe "h100:32x8 net=200G nvlink=450G + a100-80:32x8 egress=1G" -o b.json >/dev/null
$MOTLEY diff a.json b.json >shown.txt && fail "are different"
[ "$(lines shown.txt)" -le 40 ] && [ "$(wc -L <shown.txt)" -le 80 ] || fail "no screen: $(cat shown.txt)"
