#!/usr/bin/env bash
# Gradients of weights from gathered factors: by rows written by hand, whole and in shares, training has the losses of
# reduced gradients, and replicas stay equal to the last bit; devices of two classes are refused for replicas, in the plan
# and when a job starts; the search gathers where samples are few.
. "$SOURCE/tests/cli/lib.bash"
seq 1 1500 | tr '\n' ' ' >text.txt
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1" | tr -d ' ' | tr , '\n'; }
train() { mpirun --oversubscribe --bind-to none -n 3 $MOTLEY train "$1.json" --data text.txt --out "$1" --hash-every 2 >said.txt 2>&1 ||
  fail "$1: $(cat said.txt)"; }
job="--model mlp:context=8,embed=16,hidden=48,layers=3,vocab=256 --batch 12 --steps 6 --lr 0.01 --precision f64"

$MOTLEY plan $job --ranks 3 --shares 7,0,5 -o reduced.json >said.txt
train reduced
losses reduced/run.json >want.txt
[ "$(wc -l <want.txt)" = 6 ] || fail "no losses: $(cat said.txt)"

# gathered NAME ROWS CLASSES STORAGE: a plan with rows for gradients' products, and classes of devices
gathered() {
  $MOTLEY plan $job --ranks 3 --shares 7,0,5 --storage "$4" -o base.json >said.txt
  awk -v rows="$2" -v classes="$3" 'BEGIN { split(classes, class, ",") }
    /"class": ""/ { sub(/"class": ""/, "\"class\": \"" class[++n] "\"") }
    /^  "rules": \[/ { $0 = $0 rows } { print }' base.json >"$1-edited.json"
}
whole='{"pattern": "*/grad_w", "rule": "replicate"},'
shares='{"pattern": "hidden.*/grad_w", "rule": "split", "split": "storage:hidden"},
  {"pattern": "head/grad_w", "rule": "split", "split": "storage:hidden"},
  {"pattern": "embed/grad_w", "rule": "split", "split": "storage:vocab"},'
gathered whole "$whole" a,a,a replicated
gathered shares "$shares" a,b,a split
for name in whole shares; do
  $MOTLEY plan --check $name-edited.json -o $name.json >said.txt || fail "$name: $(cat said.txt)"
  $MOTLEY verify $name.json --steps 1 >said.txt || fail "$name: $(cat said.txt)"
  $MOTLEY show program $name.json >program.txt
  if has 'Broadcast' <program.txt || sed -n '/ReduceScatter\|AllReduce/,/^  [^ ]/p' program.txt | has grad_w; then
    fail "$name: reduces or broadcasts gradients of weights: $(cat program.txt)"
  fi
  has 'AllGather: [0-9]* values' <program.txt || fail "$name: factors share no message: $(cat program.txt)"
  train $name
  has 'hashes equal on 3 ranks' <said.txt || fail "$name: $(cat said.txt)"
  losses $name/run.json | paste - want.txt | awk -v OFMT=%.17g '
    { d = ($1 - $2) / $2; if (d < 0) d = -d; if (!(d < 1e-11)) { print; bad = 1 } } END { exit bad || NR != 6 }' ||
    fail "$name: other losses than with reduced gradients"
done

# An emulated speed only stretches time: ranks of one class stay alike, and doctor and train agree on it.
run=(env -u OMP_NUM_THREADS mpirun --oversubscribe --bind-to none -n 3 taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[^0-9].*//')")
"${run[@]}" $MOTLEY doctor whole.json --data text.txt >said.txt || fail "$(cat said.txt)"
has 'ok *plan .*fits the ranks' <said.txt || fail "$(cat said.txt)"
"${run[@]}" $MOTLEY train whole.json --data text.txt --no-out --hash-every 2 --emulate speed=1,0.5,0.4 >said.txt 2>&1 ||
  fail "$(cat said.txt)"
has 'hashes equal on 3 ranks' <said.txt || fail "$(cat said.txt)"

# Each stores a replica and computes its gradient, on devices of two classes.
gathered mixed "$whole" a,a,b replicated
refused 2 'head/grad_w' $MOTLEY plan --check mixed-edited.json -o mixed.json
grep -q 'of different classes' err.txt && grep -q 'hint: store head.weight in shares' err.txt || fail "$(cat err.txt)"

# Ranks of one class in the plan have devices that differ.
mapfile -t cores < <(taskset -cp $$ | sed 's/.*: //' | awk -F , '{ for (i = 1; i <= NF; i++) { n = split($i, e, "-")
  for (c = e[1] + 0; c <= e[n] + 0; c++) print c } }')
if [ ${#cores[@]} -gt 1 ]; then
  run=(env -u OMP_NUM_THREADS mpirun --oversubscribe --bind-to none)
  doctor=("${run[@]}")
  for mask in "${cores[0]}" "${cores[0]}" "${cores[0]},${cores[1]}"; do
    run+=(-n 1 taskset -c "$mask" $MOTLEY train whole.json --data text.txt --out unlike :)
    doctor+=(-n 1 taskset -c "$mask" $MOTLEY doctor whole.json :)
  done
  unset 'run[-1]' 'doctor[-1]'
  refused 2 'are of one class in the plan' "${run[@]}"
  "${doctor[@]}" >said.txt && fail "doctor finds nothing: $(cat said.txt)"
  has 'FAILURE *plan .*are of one class in the plan' <said.txt || fail "$(cat said.txt)"
fi

# The search: of few samples factors are gathered, of many gradients are reduced, or widths divided.
wide="--model mlp:layers=8,hidden=1024 --precision bf16 --use all"
$MOTLEY plan --cluster "h100:4x1 net=100G" $wide --batch 16 -o few.json >said.txt
grep -q '"hidden.\*/grad_w", "rule": "replicate"' few.json || fail "few samples: $(cat few.json)"
$MOTLEY plan --cluster "h100:4x1 net=100G" $wide --batch 4096 -o many.json >said.txt
if grep -q 'grad_w' many.json; then fail "many samples: $(cat many.json)"; fi
$MOTLEY plan --cluster "a100-40:1x2 net=25G + a10:1x2" $wide --batch 16 --strategy factors -o classes.json >said.txt
grep -q 'grad_w", "rule": "split"' classes.json || fail "two classes: $(cat classes.json)"
if grep -q 'grad_w", "rule": "replicate"' classes.json; then fail "two classes: $(cat classes.json)"; fi
