#!/usr/bin/env bash
# What a run keeps when it is not told to: the first free folder, checkpoints by time, metrics; and that nothing half
# written is left when it is interrupted.
. "$SOURCE/tests/cli/lib.bash"
model="--model gpt2:layers=2,heads=2,embed=16,context=16,vocab=256"
seq 1 9000 >text.txt
preload=$FAULTS
if sanitized; then preload="$(gcc -print-file-name=libasan.so):$FAULTS"; fi
whole() { ! find "$1" -name '*.part' -o -name '*.tmp' -o -name '*#*' | has . || fail "$1 has $(ls "$1")"; }

# The first free folder, also beside a file; --no-out keeps nothing.
$MOTLEY plan $model --shares 4,2 --batch 6 --steps 30 --lr 0.01 -o plan.json
train() { mpirun -n 2 $MOTLEY train plan.json --data text.txt "$@" >run.txt 2>&1; }
train --eval-every 10 || fail "$(cat run.txt)"
grep -q 'are written to run; --out names another folder' run.txt || fail "$(cat run.txt)"
touch run-2
train --steps 3 || fail "$(cat run.txt)"
grep -q 'are written to run-3;' run.txt && [ -e run-3/step-00000003.safetensors ] || fail "$(cat run.txt)"
train --no-out --steps 3 || fail "$(cat run.txt)"
train --eval-only || fail "$(cat run.txt)"
[ ! -e run-4 ] || fail "--no-out or --eval-only made a folder"
train --resume run --steps 30 && [ ! -e run-4 ] || fail "--resume goes on in its folder: $(cat run.txt)"
refused 2 "--no-out: there is no folder for checkpoints" $MOTLEY train plan.json --data text.txt --no-out --checkpoint-every 2
refused 2 "--no-out: there is no folder" $MOTLEY train plan.json --data text.txt --no-out --out x
refused 2 "--checkpoint-minutes: must not be negative" $MOTLEY train plan.json --data text.txt --checkpoint-minutes -1
refused 2 "--checkpoint-minutes: must be a number" $MOTLEY train plan.json --data text.txt --checkpoint-minutes often
if [ "$(id -u)" != 0 ]; then
  mkdir locked && chmod a-w locked
  (cd locked && refused 2 "a folder for checkpoints cannot be made" $MOTLEY train ../plan.json --data ../text.txt)
fi
# A run that cannot begin leaves no folder.
printf 'no weights' >bad.safetensors
! train --init bad.safetensors && [ ! -e run-4 ] || fail "a run that did not begin has left a folder: $(cat run.txt)"

# Metrics: a row a step, with the losses of run.json; and an event file.
[ "$(wc -l <run/metrics.csv)" = 31 ] || fail "$(cat run/metrics.csv)"
[ "$(awk -F, 'NR > 1 && $4 != "" { print $1 }' run/metrics.csv | paste -sd,)" = 10,20,30 ] || fail "$(cat run/metrics.csv)"
awk -F, 'NR > 1 { print $3 }' run/metrics.csv >csv.txt
sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' run/run.json | tr -d ' ' | tr , '\n' >json.txt
paste csv.txt json.txt | awk '{ d = $1 / $2 - 1; if (d * d > 1e-16) exit 1 } END { exit NR != 30 }' || fail "other losses: $(cat run/metrics.csv)"
awk -F, 'NR == 31 { exit !($1 == 30 && $2 == 30 * 6 * 16 && $6 > 0 && $7 > 0) }' run/metrics.csv || fail "$(tail -n 1 run/metrics.csv)"
[ "$(ls run/events.out.tfevents.* | wc -l)" = 2 ] || fail "one event file for each start: $(ls run)" # and one of --resume
grep -qa 'brain.Event:2' run/events.out.tfevents.* && grep -qa 'validation_loss' run/events.out.tfevents.* || fail "no events"
# Steps that are made again have one row.
rm run/step-00000030.safetensors
mv run/run.json old.json && train --resume run-3 --out again --steps 20 && train --resume run-3 --out again2 --steps 12 || fail "$(cat run.txt)"
[ "$(awk -F, '{ print $1 }' again/metrics.csv | paste -sd,)" = "step,$(seq -s, 4 20)" ] || fail "$(cat again/metrics.csv)"

# Checkpoints by time: those of two moments, at steps that no flag names; then the end of Ctrl-C on a lone rank.
$MOTLEY plan $model --ranks 1 --batch 2 --steps 100000000 -o long.json
$MOTLEY train long.json --data text.txt --out timed --checkpoint-minutes 0.005 --keep 1000 >run.txt 2>&1 &
job=$!
wait_for '[ "$(ls timed/step-*.safetensors 2>/dev/null | wc -l)" -ge 3 ]'
kill -INT $job
code=0
wait $job || code=$?
[ $code = 0 ] && grep -q 'asked to stop after step' run.txt || fail "code $code: $(cat run.txt)"
whole timed
$MOTLEY train long.json --data text.txt --resume timed --eval-only >run.txt 2>&1 || fail "$(cat run.txt)"

# Twice Ctrl-C in the middle of writing the second checkpoint: the first is there, and nothing of the second.
code=0
mpirun -x LD_PRELOAD="$preload" -x MOTLEY_FAULT=0:checkpoint:INT -n 1 $MOTLEY train long.json --data text.txt --out twice \
  --checkpoint-every 20 --heartbeat 0 >run.txt 2>&1 || code=$?
[ $code != 0 ] || fail "it was interrupted twice, and ended well: $(cat run.txt)"
[ "$(cd twice && echo step-*)" = step-00000020.safetensors ] || fail "$(ls twice)"
whole twice

# Ctrl-C to mpirun while checkpoints are written all the time, at any moment.
$MOTLEY plan --model gpt2:layers=4,heads=4,embed=128,context=16,vocab=256 --shares 4,2 --batch 6 --steps 1000000 -o big.json
for pause in 0.01 0.05 0.12 0.2; do
  rm -rf cut run.txt
  mpirun -n 2 $MOTLEY train big.json --data text.txt --out cut --checkpoint-every 1 --log-every 1 >run.txt 2>&1 &
  job=$!
  wait_for "ls cut/step-*.safetensors >/dev/null 2>&1"
  sleep $pause
  kill -INT $job
  wait $job || true
  whole cut
  mpirun -n 2 $MOTLEY train big.json --data text.txt --resume cut --eval-only >run.txt 2>&1 || fail "$(cat run.txt)"
  ! grep -q 'trying the previous' run.txt || fail "a damaged checkpoint: $(cat run.txt)"
done
