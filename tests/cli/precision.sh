#!/usr/bin/env bash
# Precisions: f16 with a scaled loss that overflows, recovers, and decides equally on any ranks; tf32; any order; what
# is refused.
. "$SOURCE/tests/cli/lib.bash"
model="--model gpt2:layers=2,heads=2,embed=32,context=8,vocab=256"
job="$model --batch 8 --steps 30 --lr 0.003 --warmup 3"
seq 1 2500 >text.txt # a short one: each run ends with the validation part
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1" | tr -d ' ' | tr , '\n'; }
member() { sed -n "s/^ *\"$2\": \([0-9.e+-]*\),\$/\1/p" "$1"; }
hash_of() { grep -o 'parameter hashes equal on [0-9]* ranks\? ([0-9a-f]*)' "$1" | grep -o '([0-9a-f]*)'; }
# run NAME RANKS FLAGS...: plan and train
run() {
  local name=$1 n=$2
  shift 2
  $MOTLEY plan $job --ranks "$n" "$@" -o "$name.json" >said.txt
  mpirun -n "$n" $MOTLEY train "$name.json" --data text.txt --out "$name" >"$name.txt" 2>"$name.err" || fail "$(cat "$name.err")"
}
# near A B TOLERANCE: the losses of two runs, relative
near() {
  paste <(losses "$1/run.json") <(losses "$2/run.json") |
    awk -v tol="$3" '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > worst) worst = d; n++ }
      END { exit !(n == 30 && worst <= tol) }' || fail "losses of $1 and $2 differ by more than $3"
}

# Losses: f16 nearer to f32 than bf16's 8 bits would be, tf32 nearer still, but not the same.
run f32 2 --shares 5,3
run tf32 2 --shares 5,3 --precision tf32
run bf16 2 --shares 5,3 --precision bf16
run f16 2 --shares 5,3 --precision f16
near f32 tf32 1e-3
near f32 f16 2e-3
near bf16 f16 2e-2
[ "$(hash_of tf32.txt)" != "$(hash_of f32.txt)" ] || fail "tf32 rounds nothing"
[ "$(member f16/run.json loss_scale)" = 1024 ] && [ "$(member f16/run.json skipped_steps)" = 0 ] ||
  fail "$(grep -e scale -e skipped f16/run.json)"
! grep -q loss_scale f32/run.json || fail "f32 has a loss scale"

# Any order, where the job allows it, which the plan says: CPUs add up in their own order all the same.
run any 2 --shares 5,3 --any-order
[ "$(hash_of any.txt)" = "$(hash_of f32.txt)" ] || fail "$(cat any.txt f32.txt)"
grep -q '"any_order": true' any.json && ! grep -q any_order f32.json || fail "$(grep order any.json f32.json)"
$MOTLEY show any.json | has "^job .*, attention's gradients in any order$" || fail "$($MOTLEY show any.json)"
$MOTLEY diff f32.json any.json >out.txt || true
shows 'gradients of attention the same bits each run in any order' out.txt
$MOTLEY show graph any.json >graph.txt
[ "$(grep -c any_order=1 graph.txt)" = 2 ] && ! grep any_order=1 graph.txt | has -v attention_grad || fail "$(cat graph.txt)"
[ "$(grep model_hash any.json)" != "$(grep model_hash f32.json)" ] || fail "another graph, but the same hash"
$MOTLEY verify any.json >out.txt || fail "$(cat out.txt)"
sed 's/"any_order": true,//' any.json >edited.json
refused 2 "edited.json: hash: does not fit" $MOTLEY verify edited.json

# A power of two changes nothing where there is room for it.
run f64 2 --precision f64 --clip 0.2
run scaled64 2 --precision f64 --clip 0.2 --loss-scale 1024 --loss-scale-interval 7
[ "$(hash_of f64.txt)" = "$(hash_of scaled64.txt)" ] || fail "$(cat f64.txt scaled64.txt)"
[ "$(member scaled64/run.json loss_scale)" = 16384 ] || fail "$(grep -e scale -e skipped scaled64/run.json)"

# Far too large at first: the steps that overflow are skipped, equally on one rank and on two and with gradients
# sent in f16; then it learns, and the scale grows until it overflows again.
big="--precision f16 --loss-scale 16777216 --loss-scale-interval 6"
run one 1 $big
run two 2 $big --shares 3,5 --storage split
run wire 2 $big --shares 3,5 --gradient-wire f16
for name in one two wire; do
  grep -o '^step [0-9]* skipped.*' $name.txt >$name.skipped || fail "$name: nothing overflowed"
  first=$(sed -n '1s/^step \([0-9]*\) .*/\1/p' $name.skipped)
  [ "$first" = 1 ] || fail "$name: step 1 did not overflow: $(cat $name.skipped)"
  [ "$(member $name/run.json skipped_steps)" = "$(wc -l <$name.skipped)" ] || fail "$name: $(cat $name.skipped)"
  [ "$(losses $name/run.json | sed -n 2p | cut -c1-4)" != "$(losses $name/run.json | tail -n 1 | cut -c1-4)" ] ||
    fail "$name: it does not learn: $(losses $name/run.json)"
done
cmp one.skipped two.skipped || fail "other steps were skipped on two ranks"
near one two 2e-3
count=$(wc -l <one.skipped)
[ "$count" -ge 8 ] && [ "$count" -lt 20 ] || fail "$count steps were skipped: $(cat one.skipped)"
sed -n 's/^step \([0-9]*\) .*/\1/p' one.skipped | awk 'NR > 1 && $1 > last + 3 { grew = 1 } { last = $1 } END { exit !grew }' ||
  fail "the scale did not grow: $(cat one.skipped)"
$MOTLEY show one/run.json | grep -q "^loss scale [0-9]*, $count steps skipped" || fail "$($MOTLEY show one/run.json)"

# A skipped step leaves all parameters as they were; and going on from amid skipped steps is exact.
mpirun -n 2 $MOTLEY train two.json --data text.txt --out none --steps 3 >none.txt 2>&1
mpirun -n 2 $MOTLEY train two.json --data text.txt --out started --steps 1 >started.txt 2>&1
[ "$(hash_of none.txt)" = "$(hash_of started.txt)" ] || fail "skipped steps changed parameters"
mpirun -n 2 $MOTLEY train two.json --data text.txt --resume none >rest.txt 2>&1
[ "$(hash_of rest.txt)" = "$(hash_of two.txt)" ] || fail "resumed: $(cat rest.txt)"
cmp <(losses none/run.json) <(losses two/run.json) || fail "resumed: other losses"
[ "$(member none/run.json skipped_steps)" = "$count" ] || fail "resumed: $(grep skipped none/run.json)"

# From f32 to f16 and back.
$MOTLEY plan $job --ranks 1 --precision f32 -o alone32.json >said.txt
$MOTLEY plan $job --ranks 1 --precision f16 -o alone16.json >said.txt
$MOTLEY train alone32.json --data text.txt --out moved --steps 10 >moved.txt 2>&1
$MOTLEY train alone16.json --data text.txt --resume moved --steps 20 >moved.txt 2>&1 || fail "$(cat moved.txt)"
grep -q 'has no loss_scale; it is initialised' moved.txt || fail "$(cat moved.txt)"
$MOTLEY train alone32.json --data text.txt --resume moved >moved.txt 2>&1 || fail "$(cat moved.txt)"
near f32 moved 2e-3

# Weights beyond f16: no scale helps, the smallest one is reached and the run ends.
$MOTLEY plan $model --batch 4 --steps 40 --lr 1e6 --lr-min 1e6 --clip 0 --ranks 1 --precision f16 --loss-scale 0.001953125 \
  -o burst.json >said.txt
code=0
$MOTLEY train burst.json --data text.txt >burst.txt 2>burst.err || code=$?
[ $code = 7 ] && grep -q 'the loss is -\?nan at step 6: training has diverged' burst.err || fail "$code: $(cat burst.err)"
[ "$(grep -c '^step [2-6] skipped' burst.txt)" = 5 ] || fail "$(cat burst.txt)"

# By what the devices can: all have bf16; one has only f16; CPUs have neither.
for row in "h100:1x2 bf16" "t4:1x1 + h100:1x1 f16" "cpu:1x2 f32"; do
  $MOTLEY plan $model --batch 8 --cluster "${row% *}" --precision auto -o auto.json >said.txt 2>&1 || fail "$(cat said.txt)"
  grep -q "\"precision\": \"${row##* }\"" auto.json || fail "$row: $(grep precision auto.json)"
done
refused 2 "auto depends on the devices, and there is no --cluster" $MOTLEY plan $job --ranks 2 --precision auto -o no.json

# Refusals.
refused 2 "--precision: \"fp16\" is none of: f64, f32, tf32, bf16 or f16" $MOTLEY plan $job --ranks 1 --precision fp16 -o no.json
refused 2 "loss_scale: is 1000, but must be a power of two" $MOTLEY plan $job --ranks 1 --loss-scale 1000 -o no.json
refused 2 "--loss-scale-interval: has no use without --loss-scale" \
  $MOTLEY plan $job --ranks 1 --loss-scale-interval 5 -o no.json
refused 2 "sums in f16 overflow unless the loss is scaled" $MOTLEY plan $job --ranks 2 --gradient-wire f16 -o no.json
sed 's/"loss_scale.*//' one.json | grep -v '^ *$' >no.json
refused 2 "f16 has no room for small gradients" $MOTLEY plan --check no.json -o no2.json
