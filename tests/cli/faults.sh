#!/usr/bin/env bash
# A rank that is killed or stopped, in each phase of a run: named with host and what it did, and every process of the job
# ends by itself, with the last checkpoint whole. A job that is stopped as a whole goes on.
# By default a few cases that cover the ways to notice; all of them with MOTLEY_ALL_FAULTS=1.
. "$SOURCE/tests/cli/lib.bash"
seq 1 9000 >text.txt
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=16,context=16,vocab=256 --lr 0.001 --batch 6 --speeds 1,0.5 \
  --storage split --steps 1000000 -o plan.json
here=$(hostname)
preload=$FAULTS
if sanitized; then preload="$(gcc -print-file-name=libasan.so):$FAULTS"; fi

# fault RANK PHASE SIGNAL "WHERE": what the rank was last heard to do.
fault() {
  local code=0 other=$((1 - $1))
  rm -rf run run.txt pid.* reached
  timeout -k 1 600 mpirun -x LD_PRELOAD="$preload" -x MOTLEY_FAULT="$1:$2:$3" -n 2 $MOTLEY train plan.json \
    --data text.txt --out run --checkpoint-every 20 --steps 60 --heartbeat "$heartbeat" >run.txt 2>&1 || code=$?
  [ $code != 0 ] && [ $code != 124 ] || fail "rank $1, $2, signal $3: code $code: $(cat run.txt)"
  ranks_end 300 "rank $1, $2, signal $3"
  grep -q "^motley: rank $1 on $here has .*was last in .*$4" run.txt || fail "rank $1 is not named: $(cat run.txt)"
  [ "$(grep -c "^motley: rank" run.txt)" = 1 ] || fail "more than one line: $(cat run.txt)"
  ! grep -q "^motley: rank $other on $here has" run.txt || fail "rank $other is named: $(cat run.txt)"
  case $2 in
    checkpoint | end | exit) $MOTLEY sample run --tokens 1 >sampled.txt 2>&1 || fail "no checkpoint: $(cat sampled.txt)" ;;
  esac
}

heartbeat=2.5
if [ -n "${MOTLEY_ALL_FAULTS:-}" ]; then
  heartbeat=5
  for signal in KILL STOP; do
    for rank in 0 1; do
      fault $rank start $signal "the start"
      fault $rank init $signal "the start"
      fault $rank forward $signal ""
      fault $rank collective $signal ""
      fault $rank checkpoint $signal "the checkpoint of step 40"
      fault $rank end $signal ""
      fault $rank exit $signal ""
    done
  done
else
  fault 0 start KILL "the start"
  fault 1 forward KILL ""
  fault 0 collective STOP ""
  fault 1 checkpoint STOP "the checkpoint of step 40"
  fault 0 end KILL ""
fi

# A rank that lives and gets nowhere: in an operator, while the other waits for it; and in a file.
hang() { # RANK PHASE DEADLINE TEXT
  local code=0
  rm -rf run run.txt pid.*
  timeout -k 1 600 mpirun -x LD_PRELOAD="$preload" -x MOTLEY_FAULT="$1:$2:HANG" -n 2 $MOTLEY train plan.json \
    --data text.txt --out run --checkpoint-every 20 --steps 60 --deadline "$3" >run.txt 2>&1 || code=$?
  [ $code = 4 ] || fail "rank $1 hangs, $2: code $code: $(cat run.txt)"
  ranks_end 300 "rank $1 hangs, $2"
  grep -q "^motley: rank $1 on $here has made no progress for .* s, in $4" run.txt || fail "$2: $(cat run.txt)"
}
hang 1 forward 2 "step [0-9]*, [a-z]" # an operator; collectives' names begin otherwise
grep -q "^motley: rank 0 on $here: step [0-9]*: .* waits for rank 1$" run.txt || fail "$(cat run.txt)"
[ -z "${MOTLEY_ALL_FAULTS:-}" ] || hang 0 checkpoint 1 "the checkpoint of step 40"

# Between steps, and nobody watches: the deadline holds there as well.
rm -rf run run.txt pid.*
code=0
timeout -k 1 600 mpirun -x LD_PRELOAD="$preload" -x MOTLEY_FAULT=1:between:STOP -n 2 $MOTLEY train plan.json \
  --data text.txt --out run --steps 60 --heartbeat 0 --deadline 1 >run.txt 2>&1 || code=$?
[ $code = 4 ] || fail "rank 1, between, not watched: code $code: $(cat run.txt)"
ranks_end 300 "rank 1, between, not watched"
grep -q "^motley: rank 0 on $here: step [0-9]*: cpu.*: no answer from the other ranks for .* s$" run.txt || fail "$(cat run.txt)"

# A rank of which nothing is heard after the last step, until it exits as it should, while rank 0 looks for it.
rm -rf run run.txt pid.* reached
code=0
timeout -k 1 600 mpirun -x LD_PRELOAD="$preload" -x MOTLEY_FAULT=1:left:NONE -n 2 $MOTLEY train plan.json \
  --data text.txt --out run --steps 20 --heartbeat 2 >run.txt 2>&1 || code=$?
[ $code = 0 ] || fail "rank 1 exits late: code $code: $(cat run.txt)"
[ -e reached ] || echo "rank 1 exits late: rank 0 did not look for it"

# The whole job, stopped for longer than any silence that is allowed, goes on.
rm -rf run run.txt pid.*
mpirun -x LD_PRELOAD="$preload" -x MOTLEY_FAULT=0:none:KILL -n 2 $MOTLEY train plan.json --data text.txt --out run \
  --heartbeat 2 --deadline 3 >run.txt 2>&1 &
job=$!
for _ in $(seq 3000); do
  if grep -q '^step 20/' run.txt; then break; fi
  sleep 0.1
done
pids=$(cat pid.*)
kill -STOP $pids
sleep 5
kill -CONT $pids
before=$(grep -c '^step' run.txt || true)
for _ in $(seq 3000); do
  if [ "$(grep -c '^step' run.txt)" -gt $((before + 20)) ] || ! kill -0 $job 2>/dev/null; then break; fi
  sleep 0.1
done
kill -USR2 $job
code=0
wait $job || code=$?
[ $code = 0 ] || fail "a job that was stopped and went on ended with $code: $(cat run.txt)"
grep -q 'asked to stop after step' run.txt || fail "$(cat run.txt)"

# Flags.
refused 2 "--heartbeat: must be 0, or at least 2" $MOTLEY train plan.json --data text.txt --heartbeat 1
refused 2 "--start-deadline: must be more than 0" $MOTLEY train plan.json --data text.txt --start-deadline 0
