#!/usr/bin/env bash
# motley tune: what it refuses; a CPU has nothing to tune; on a machine with a GPU the second time finds everything, and a
# cache that cannot be written to, a damaged one, and MOTLEY_TUNE=off are taken as they are.
. "$SOURCE/tests/cli/lib.bash"
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=64,context=32,vocab=256 --ranks 2 --batch 8 --steps 2 -o plan.json
refused 2 'tune what' $MOTLEY tune
refused 2 'nothing.json: No such file' $MOTLEY tune nothing.json --device cpu
refused 2 'one plan at a time' $MOTLEY tune plan.json plan.json
refused 2 '"abacus" is not a kind of device' $MOTLEY tune plan.json --device abacus
echo '{"format": "motley-run"}' >other.json
refused 2 'other.json' $MOTLEY tune other.json --device cpu
refused 2 'the plan is for 2 ranks, but 3 processes' mpirun --oversubscribe -n 3 $MOTLEY tune plan.json --device cpu
for n in 1 2; do
  mpirun --oversubscribe -n $n $MOTLEY tune plan.json --device cpu >out.txt 2>&1 || fail "$(cat out.txt)"
  has 'nothing to tune' out.txt || fail "$(cat out.txt)"
done

export MOTLEY_CACHE=$PWD/cache/deeper
code=0
$MOTLEY tune plan.json >out.txt 2>&1 || code=$?
if [ $code != 0 ]; then
  [ $code = 3 ] && has 'device cuda' out.txt && has '^  hint: ' out.txt || fail "code $code: $(cat out.txt)"
  exit 0
fi
has 'measured here' out.txt || fail "$(cat out.txt)"
grep -q '"motley-tuning"' cache/deeper/tuning.json || fail 'no tuning file'
cp cache/deeper/tuning.json kept.json
$MOTLEY tune plan.json >again.txt 2>&1 || fail "$(cat again.txt)"
cmp kept.json cache/deeper/tuning.json || fail 'the second time measured again'
head -c 1000 kept.json >cache/deeper/tuning.json
$MOTLEY tune plan.json >out.txt 2>&1 || fail "$(cat out.txt)"
has 'the tuning file is ignored' out.txt || fail "$(cat out.txt)"
MOTLEY_TUNE=off $MOTLEY tune plan.json >out.txt 2>&1 || fail "$(cat out.txt)"
MOTLEY_TUNE=perhaps refused 2 'must be on or off' $MOTLEY tune plan.json
echo file >not-a-folder
MOTLEY_CACHE=$PWD/not-a-folder/x $MOTLEY tune plan.json >out.txt 2>&1 || fail "$(cat out.txt)"
has 'no cache folder' out.txt || fail "$(cat out.txt)"
