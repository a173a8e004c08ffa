#!/usr/bin/env bash
# --device: what it refuses; on a machine with a GPU the losses are the CPU's, without one it says what is missing.
. "$SOURCE/tests/cli/lib.bash"
seq 1 9000 >text.txt
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=64,context=32,vocab=256 --ranks 1 --batch 8 --steps 6 --dropout 0.1 -o plan.json
train="$MOTLEY train plan.json --data text.txt --val-fraction 0"
refused 2 '--device: "abacus" is not a kind of device (cpu, cuda)' $train --device abacus
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1/run.json" | tr -d ' ' | tr , '\n'; }

$train --device cpu --out cpu >out.txt 2>&1 || fail "$(cat out.txt)"
code=0
$train --device cuda --out gpu >out.txt 2>&1 || code=$?
if [ $code = 0 ]; then
  paste <(losses cpu) <(losses gpu) | awk '{ d = $1 / $2 - 1; if (d * d > 1e-10) exit 1 } END { exit NR != 6 }' ||
    fail "losses differ: $(losses cpu) and $(losses gpu)"
else
  [ $code = 3 ] && has 'device cuda' out.txt && has '^  hint: ' out.txt || fail "code $code: $(cat out.txt)"
fi
