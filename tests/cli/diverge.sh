#!/usr/bin/env bash
# What is not finite: a loss, a parameter, optimizer state. The run ends with a code of its own, says so in run.json, and
# never saves such a state over a good one. A skipped step of fp16 is no such thing.
. "$SOURCE/tests/cli/lib.bash"
small="--model gpt2:layers=1,heads=2,embed=16,context=16,vocab=256 --batch 4 --steps 20 --ranks 1"
seq 1 9000 >text.txt
ended() { sed -n 's/^ *"ended": "\(.*\)",$/\1/p' "$1/run.json"; }

# Rates that the type of updates does not have are refused by name; fp64 has more.
refused 2 "optimizer.lr: is 1e+39, but must be from 1.18e-38 to 3.4e+38, the range of f32" \
  $MOTLEY plan $small --lr 1e39 --clip 0 -o no.json
refused 2 "optimizer.eps: is 1e-50" $MOTLEY plan $small --eps 1e-50 -o no.json
refused 2 "optimizer.clip: is 1e+300" $MOTLEY plan $small --precision bf16 --clip 1e300 -o no.json
refused 2 "must be a number, not \"nan\"" $MOTLEY plan $small --lr nan -o no.json
$MOTLEY plan $small --precision f64 --lr 1e39 -o wide.json

# The last step's loss is that before its update: parameters of NaN are found when they are saved, and when they are not.
$MOTLEY plan $small --lr 3e38 --lr-min 3e38 --clip 0 --weight-decay 3e38 -o wild.json
for out in "--out wild" ""; do
  code=0
  $MOTLEY train wild.json --data text.txt --steps 1 $out >wild.txt 2>&1 || code=$?
  [ $code = 7 ] || fail "parameters that are not finite: code $code: $(cat wild.txt)"
  grep -q ': element [0-9]* is .*: training has diverged$' wild.txt || fail "$(cat wild.txt)"
  grep -q 'hint: plan with a lower --lr' wild.txt || fail "$(cat wild.txt)"
done
[ "$(ended wild)" = diverged ] || fail "$(cat wild/run.json)"
! ls wild | has step- || fail "a state that is not finite was saved: $(ls wild)"

# Sharded over two ranks: both end with the code, which mpirun passes on.
$MOTLEY plan ${small% --ranks 1} --speeds 1,1 --storage split --lr 3e38 --lr-min 3e38 --clip 0 --weight-decay 3e38 -o two.json
code=0
mpirun -n 2 $MOTLEY train two.json --data text.txt --steps 1 --out two >two.txt 2>&1 || code=$?
[ $code = 7 ] || fail "two ranks: code $code: $(cat two.txt)"
[ "$(grep -c 'training has diverged' two.txt)" = 1 ] && [ "$(ended two)" = diverged ] || fail "$(cat two.txt)"

# A good checkpoint stays the last one, whether the bad state is due by --checkpoint-every or at the end.
$MOTLEY plan $small --lr 0.001 -o good.json
$MOTLEY train good.json --data text.txt --steps 3 --out good >good.txt 2>&1
cp -r good every
before=$(cd good && sha256sum step-00000003.safetensors)
for run in "good --steps 4" "every --checkpoint-every 1 --keep 1"; do
  set -- $run
  folder_of=$1
  shift
  code=0
  $MOTLEY train wild.json --data text.txt --resume $folder_of "$@" >wild.txt 2>&1 || code=$?
  [ $code = 7 ] || fail "$folder_of: code $code: $(cat wild.txt)"
  [ "$(ended $folder_of)" = diverged ] || fail "$(cat $folder_of/run.json)"
  [ "$(cd $folder_of && sha256sum step-*)" = "$before" ] || fail "$(ls $folder_of)"
  $MOTLEY sample $folder_of --tokens 1 >sampled.txt
done

# Losses that are not finite are null, which show and a later run can read.
$MOTLEY plan $small --lr 3e38 --lr-min 3e38 --warmup 0 --clip 0 -o loud.json
code=0
$MOTLEY train loud.json --data text.txt --out loud >loud.txt 2>&1 || code=$?
[ $code = 7 ] || fail "a loss that is not finite: code $code: $(cat loud.txt)"
grep -Eq 'the loss is (-?nan|inf) at step [0-9]*: training has diverged' loud.txt || fail "$(cat loud.txt)"
grep -Eq '"losses": \[[0-9.]+(, [0-9.e+]+)*, null\]' loud/run.json || fail "$(cat loud/run.json)"
$MOTLEY show loud/run.json | has '^run  *diverged' || fail "$($MOTLEY show loud/run.json)"

# fp16 that overflows at first: steps are skipped, and the run finishes.
$MOTLEY plan $small --precision f16 --loss-scale 16777216 --lr 0.001 -o half.json
$MOTLEY train half.json --data text.txt --out half --checkpoint-every 1 >half.txt 2>&1 || fail "$(cat half.txt)"
grep -q 'step 1 skipped: a gradient overflowed' half.txt || fail "no step was skipped: $(cat half.txt)"
[ "$(ended half)" = finished ] || fail "$(cat half/run.json)"
