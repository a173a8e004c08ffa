#!/usr/bin/env bash
# motley plan --memory: a cap of 60% of what ZeRO-3 takes without recomputation, where most of that is activations. The
# plan fits, the run allocates what the plan says, and trains as one rank does.
. "$SOURCE/tests/cli/lib.bash"
job="--model gpt2:layers=4,heads=2,embed=32,context=32,vocab=256 --precision f32 --batch 48 --steps 20"

if [ ! -f "$(dirname "$MOTLEY")/motley_glpk.so" ]; then
  echo "skipped: built without GLPK"
  exit 77
fi
# figures FILE KEY: the numbers of that key, a line each
figures() { grep -o "\"$2\": [0-9]*" "$1" | grep -o '[0-9]*$'; }
losses() { sed -n 's/.*"losses": \[\(.*\)\].*/\1/p' "$1" | tr -d ' ' | tr ',' '\n'; }

mpirun --bind-to none --oversubscribe -n 2 "$MOTLEY" profile --budget 4 --emulate speed=1,0.5 -o cluster.json >profile.txt 2>&1 ||
  fail "$(cat profile.txt)"
$MOTLEY plan --cluster cluster.json $job --use all --strategy zero3 --recompute none -o zero3.json >said.txt || fail "$(cat said.txt)"
paste <(figures zero3.json state_bytes) <(figures zero3.json arena_bytes) |
  awk '{ n++; if ($2 - $1 < 0.6 * $2) exit 2 } END { exit n != 2 }' || fail "activations are not 60%: $(cat zero3.json)"
caps=$(figures zero3.json arena_bytes | awk '{ printf "%s%d", (NR > 1 ? "," : ""), 0.6 * $1 }')

$MOTLEY plan --cluster cluster.json $job --use all --memory "$caps" -o capped.json >said.txt || fail "$(cat said.txt)"
paste <(figures capped.json arena_bytes) <(tr ',' '\n' <<<"$caps") | awk '{ n++; if ($1 > $2) exit 2 } END { exit n != 2 }' ||
  fail "above $caps: $(cat capped.json)"
head -c 20000 "$SOURCE/README.md" | tr -c '\0-\177' '?' >data.txt
mpirun --bind-to none --oversubscribe -n 2 "$MOTLEY" train capped.json --emulate speed=1,0.5 --data data.txt --out two >run.txt 2>&1 ||
  fail "$(cat run.txt)"
diff <(figures capped.json arena_bytes) <(figures two/run.json arena_bytes) || fail "allocated otherwise than planned"

$MOTLEY plan $job --ranks 1 -o one.json >said.txt
$MOTLEY train one.json --data data.txt --out one >run.txt 2>&1 || fail "$(cat run.txt)"
paste <(losses one/run.json) <(losses two/run.json) | awk '{ n++; d = $1 - $2; if (d * d > 1e-10 * $1 * $1) exit 2 } END { exit n != 20 }' ||
  fail "losses differ: $(losses one/run.json | tr '\n' ' ') and $(losses two/run.json | tr '\n' ' ')"
