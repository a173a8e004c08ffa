#!/usr/bin/env bash
# Signals to a running job: USR1 writes a checkpoint and goes on, USR2 and TERM write one and end with 0; and a run that
# was stopped anywhere goes on as if it had not been.
. "$SOURCE/tests/cli/lib.bash"
seq 1 9000 >text.txt
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=16,context=16,vocab=256 --lr 0.001 --batch 6 --speeds 1,0.5 \
  --steps 1000000 -o plan.json
hash_of() { grep -o 'equal on 2 ranks ([0-9a-f]*)' "$1"; }

start() {
  rm -rf run run.txt
  mpirun -n 2 $MOTLEY train plan.json --data text.txt --out run >run.txt 2>&1 &
  job=$!
  wait_for "grep -q '^step 20/' run.txt"
}

stopped_well() {
  local code=0
  wait $job || code=$?
  [ $code = 0 ] || fail "code $code: $(cat run.txt)"
  grep -q 'asked to stop after step' run.txt || fail "$(cat run.txt)"
  grep -q '"ended": "stopped by a signal"' run/run.json || fail "$(cat run/run.json)"
}

# To mpirun, which passes them on. Until the run ends the folder is that run's.
start
refused 2 "--out run: another run is writing to it" mpirun -n 2 $MOTLEY train plan.json --data text.txt --out run
kill -USR1 $job
wait_for "ls run/step-*.safetensors >/dev/null 2>&1"
sleep 1
first=$(ls run | grep '^step.*tensors$')
[ "$(wc -w <<<"$first")" = 1 ] || fail "one request, but these checkpoints: $first"
kill -USR2 $job
stopped_well
last=$(ls run | grep '^step.*tensors$' | tail -n 1)
[ "$first" != "$last" ] || fail "it did not go on after USR1: $(cat run.txt)"

# The same number of steps without interruption has the same weights; so has the first checkpoint, gone on with.
steps=$((10#$(tr -dc 0-9 <<<"${last%.safetensors}")))
mpirun -n 2 $MOTLEY train plan.json --data text.txt --steps $steps >straight.txt 2>&1
[ -n "$(hash_of run.txt)" ] && [ "$(hash_of run.txt)" = "$(hash_of straight.txt)" ] || fail "stopping changed weights"
mpirun -n 2 $MOTLEY train plan.json --data text.txt --resume run/$first --steps $steps >again.txt 2>&1 || fail "$(cat again.txt)"
[ "$(hash_of again.txt)" = "$(hash_of straight.txt)" ] || fail "$(cat again.txt)"

# To one rank that is not the first.
start
rank=$(pgrep -P $job -f 'motley train' | tail -n 1)
kill -TERM "$rank"
stopped_well
ls run/step-*.safetensors >/dev/null || fail "no checkpoint after TERM"

# To mpirun, which says SIGCONT, a second later SIGTERM, a second later SIGKILL, and ends with 1 whatever its ranks do:
# the step in flight is the last, and is saved, before they are killed.
for signal in INT TERM; do
  start
  kill -$signal $job
  code=0
  wait $job || code=$?
  [ $code = 1 ] || fail "mpirun ended with $code after $signal: $(cat run.txt)"
  has '"ended": "stopped by a signal"' <run/run.json || fail "$signal: $(cat run.txt)"
  last=$(ls run | grep '^step.*tensors$' | tail -n 1)
  steps=$(sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' run/run.json | tr , '\n' | wc -l)
  [ $((10#$(tr -dc 0-9 <<<"${last%.safetensors}"))) = "$steps" ] || fail "$signal: $last after $steps steps"
  ! ls run | has part || fail "$(ls run)"
  mpirun -n 2 $MOTLEY train plan.json --data text.txt --resume run --eval-only >again.txt 2>&1 || fail "$(cat again.txt)"
done

# SIGCONT is no request when others than mpirun send it, or when it ends a stop.
rm -rf run run.txt
mpirun -n 2 --mca orte_forward_job_control 1 $MOTLEY train plan.json --data text.txt --out run >run.txt 2>&1 &
job=$!
wait_for "grep -q '^step 20/' run.txt"
rank=$(pgrep -P $job -f 'motley train' | tail -n 1)
kill -CONT "$rank"
sleep 0.5
for pause in 1.5 0.5 0.25 0.1 0.01; do # also shorter than the watch looks around
  kill -TSTP $job
  wait_for '[ "$(cut -d" " -f3 /proc/$rank/stat)" = T ]'
  sleep $pause
  kill -CONT $job
  wait_for '[ "$(cut -d" " -f3 /proc/$rank/stat)" != T ]'
  sleep 0.2
  ! grep -q 'asked to stop' run.txt || fail "the end of a stop of $pause s has ended the run: $(cat run.txt)"
done
sleep 1
before=$(grep -c '^step' run.txt)
wait_for "[ \$(grep -c '^step' run.txt) -gt $((before + 20)) ]"
! grep -q 'asked to stop' run.txt || fail "SIGCONT has ended the run: $(cat run.txt)"
kill -USR2 $job
stopped_well

# A rank that is killed ends the job.
start
rank=$(pgrep -P $job -f 'motley train' | tail -n 1)
kill -KILL "$rank"
code=0
wait $job || code=$?
[ $code != 0 ] || fail "a rank was killed, and all is well?"

# A rank that stands still is noticed, and named, by the others: in a collective, or between two steps.
rm -rf run run.txt
mpirun -n 2 $MOTLEY train plan.json --data text.txt --out run --deadline 2 >run.txt 2>&1 &
job=$!
wait_for "grep -q '^step 20/' run.txt"
rank=$(pgrep -P $job -f 'motley train' | tail -n 1)
kill -STOP "$rank"
stall='no progress for 2 s; it waits for rank 1\|no answer from the other ranks'
wait_for "grep -q 'rank 0 on $(hostname): step.* \($stall\)' run.txt"
code=0
wait $job || code=$?
[ $code != 0 ] || fail "a rank stood still, and all is well?"
grep -q 'rank 1 on .* was last in step' run.txt || fail "the stall does not say where its peer is: $(cat run.txt)"
