#!/usr/bin/env bash
# motley launch --slurm under real Slurm, of two nodes on this machine: the job is submitted, asked to stop in time,
# saves, is queued again, goes on and ends with the weights of a run that nothing stopped; and Slurm itself asks before
# the end of the time.
. "$SOURCE/tests/cli/lib.bash"
. "$SOURCE/tests/cli/slurm.bash"
slurm_can || { echo "needs root and Slurm (slurmctld, slurmd, munge, slurm-client)"; exit 77; }
trap 'slurm_down; rm -rf "$folder"' EXIT
seq 1 9000 >text.txt
model=gpt2:layers=2,heads=2,embed=16,context=16,vocab=256
make() { $MOTLEY plan --model $model --lr 0.001 --batch 6 --speeds 1,0.5 "$@" >said.txt; }
make --steps 3000 -o here.json
make --steps 3000 --hosts n1,n2 -o plan.json
make --steps 100000000 --hosts n1,n2 -o endless.json
touch run.txt
slurm_up "$folder/slurm"
wait_for slurm_ready || fail "$(slurm_logs)"
network="--mca btl=tcp,self --mca btl_tcp_if_include=lo --mca oob_tcp_if_include=lo"

state_of() { scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\) .*/\1/p'; }
restarts_of() { scontrol show job "$1" | sed -n 's/.* Restarts=\([0-9]*\) .*/\1/p'; }
submitted() { # FOLDER: job.sbatch in it; $job is its number
  job=$(sbatch --parsable "$1/job.sbatch") || fail "$(slurm_logs)"
  rm -f run.txt
  ln -s "$1/job-$job.out" run.txt
}
# hurry: Slurm lets a job that was queued again wait for minutes. Some seconds it needs: what it started before, in the
# same second, it takes for the job that was ended.
hurry() {
  sleep 3
  wait_for 'scontrol update JobId=$job StartTime=now 2>/dev/null || true; ! has "^PENDING\|^COMPLETING" < <(state_of $job)'
}

# Stopped, queued again, resumed, ended.
mpirun -n 2 $MOTLEY train here.json --data text.txt --out straight --checkpoint-every 0 >straight.txt 2>&1 || fail "$(cat straight.txt)"
$MOTLEY launch plan.json --slurm $network -- --data text.txt --log-every 10 --start-deadline 120 >said.txt 2>&1 || fail "$(cat said.txt)"
submitted launch
wait_for "grep -qs '^step 20/' run.txt"
scancel --signal=USR2 --batch "$job"
wait_for '[ "$(restarts_of $job)" = 1 ]'
hurry
grep -q 'asked to stop after step' run.txt || fail "$(cat run.txt)"
grep -q "launch: job $job goes back into the queue" run.txt || fail "$(cat run.txt)"
wait_for '[ "$(state_of $job)" = COMPLETED ] || [ "$(state_of $job)" = FAILED ]'
[ "$(state_of "$job")" = COMPLETED ] && [ "$(restarts_of "$job")" = 1 ] || fail "$(scontrol show job "$job"; cat run.txt)"
from=$(sed -n 's|^motley: resuming from launch/run/.*: step \([0-9]*\), .*|\1|p' run.txt)
[ -n "$from" ] && [ "$from" -ge 20 ] && [ "$from" -lt 3000 ] || fail "resumed from '$from': $(cat run.txt)"
grep -q '"ended": "finished"' launch/run/run.json || fail "$(cat run.txt)"
for what in "" adamw.m. adamw.v.; do
  "$COMPARE" launch/run/step-00003000.safetensors straight/step-00003000.safetensors 1 0 $what || fail "other weights: $what"
done
echo "stopped after step $from, queued again, ended: the weights of a run that nothing stopped"

# Slurm asks, by the script's --signal, before the time is over. Here a described plan, whose nodes find theirs by the
# features that they ask for.
unlike=
if [ -f "$(dirname "$MOTLEY")/motley_glpk.so" ]; then
  unlike=yes
  $MOTLEY plan --cluster "cpu:1 net=10G + cpu-2t:1" --model $model --lr 0.001 --batch 6 --steps 100000000 --use all -o endless.json >said.txt
fi
$MOTLEY launch endless.json --slurm --time 1 --stop-before 30 -o ended $network -- --data text.txt --start-deadline 120 >said.txt 2>&1 ||
  fail "$(cat said.txt)"
submitted ended
wait_for '[ "$(restarts_of $job)" -ge 1 ]'
grep -q 'launch: asked to stop: the job writes a checkpoint and ends' run.txt && ! grep -q 'DUE TO TIME LIMIT' run.txt || fail "$(cat run.txt)"
[ -z "$unlike" ] || grep -qx "motley: launch: of the plan's nodes, node0 is n2, node1 is n1" run.txt || fail "$(cat run.txt)"
ls ended/run/step-*.safetensors >/dev/null || fail "$(cat run.txt)"

# What is cancelled does not go back into the queue.
hurry
wait_for '[ "$(state_of $job)" = RUNNING ] && has "^motley: resuming" run.txt'
before=$(restarts_of "$job")
scancel "$job"
wait_for '[ "$(state_of $job)" = CANCELLED ]'
sleep 3
[ "$(state_of $job)" = CANCELLED ] && [ "$(restarts_of "$job")" = "$before" ] || fail "$(scontrol show job "$job"; cat run.txt)"
