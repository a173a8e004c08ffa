#!/usr/bin/env bash
# motley launch on this host: what it runs is what train runs; exit codes and signals as train's; ranks that die, and an
# mpirun that does not end; what is written for described clusters, and what is refused.
. "$SOURCE/tests/cli/lib.bash"
seq 1 9000 >text.txt
model=gpt2:layers=2,heads=2,embed=16,context=16,vocab=256
make() { $MOTLEY plan --model $model --lr 0.001 --batch 6 --speeds 1,0.5 "$@" >said.txt; }
make --steps 60 -o plan.json
make --steps 100 -o long.json
make --steps 1000000 -o endless.json
echo "localhost slots=2" >hosts
hash_of() { grep -o "equal on $2 ranks* ([0-9a-f]*)" "$1"; }
children() { pgrep -P "$1" "${@:2}"; }
rank_pid() { # LAUNCH RANK
  local mpirun pid
  mpirun=$(children "$1" mpirun)
  for pid in $(children "$mpirun" -f 'motley train'); do
    if tr '\0' '\n' <"/proc/$pid/environ" | has -x "OMPI_COMM_WORLD_RANK=$2"; then echo "$pid"; fi
  done
}

# By launch, by its script, and by hand: one result; data and folders by names that a shell must not see.
cp text.txt "a b's.txt"
mpirun -n 2 $MOTLEY train plan.json --data text.txt --no-out >straight.txt 2>&1
$MOTLEY launch plan.json --hosts hosts -o "the files" -- --data "a b's.txt" --checkpoint-every 20 >run.txt 2>&1 || fail "$(cat run.txt)"
[ "$(hash_of run.txt 2)" = "$(hash_of straight.txt 2)" ] || fail "$(cat run.txt)"
[ -e "the files/run/step-00000060.safetensors" ] || fail "$(find .)"
rm -r "the files/run"
sh "the files/mpirun.sh" >run.txt 2>&1 || fail "$(cat run.txt)"
[ "$(hash_of run.txt 2)" = "$(hash_of straight.txt 2)" ] || fail "$(cat run.txt)"
cmp plan.json "the files/plan.json"

# What train refuses, launch ends with; what it can know beforehand, it refuses itself.
code=0
$MOTLEY launch plan.json --hosts hosts -- --data none >out.txt 2>err.txt || code=$?
[ $code = 2 ] && grep -q '^motley: none: No such file' err.txt || fail "$code: $(cat err.txt)"
! grep -q 'restart' err.txt || fail "$(cat err.txt)"
refused 2 "flags of train, after --: --data is missing" $MOTLEY launch plan.json --hosts hosts
refused 2 "after -- are flags of train alone" $MOTLEY launch plan.json --hosts hosts -- other.json --data text.txt
refused 2 "--hosts FILE or --slurm is missing" $MOTLEY launch plan.json -- --data text.txt
refused 2 "a run that writes nothing cannot be gone on with" $MOTLEY launch plan.json --hosts hosts --restart 1 -- --data text.txt --no-out
refused 2 "--partition: has no use without --slurm" $MOTLEY launch plan.json --hosts hosts --partition x -- --data text.txt
refused 2 "SLURM_JOB_NODELIST is not set" env -u SLURM_JOB_NODELIST $MOTLEY launch plan.json --slurm-job -- --data text.txt
refused 2 "the plan is for 2 ranks, but the hosts have 1 slots" $MOTLEY launch plan.json --hosts <(echo localhost slots=1) -- --data text.txt
refused 3 "nowhere does not answer: no way" $MOTLEY launch plan.json --hosts <(echo nowhere) \
  --agent "sh -c echo\${IFS}no\${IFS}way;exit\${IFS}1" -- --data text.txt

# A folder that looks like a flag; another run's checkpoints, which a restart would go on with; what a host sees is its own.
CUDA_VISIBLE_DEVICES=7 $MOTLEY launch plan.json --hosts hosts -o -x -- --data text.txt --steps 4 >run.txt 2>&1 || fail "$(cat run.txt)"
! grep -q VISIBLE ./-x/mpirun.sh || fail "$(cat ./-x/mpirun.sh)"
refused 2 "--out ./-x/run: holds checkpoints of another run" $MOTLEY launch plan.json --hosts hosts -o -x --restart 1 -- --data text.txt

# A shell alone, without mpirun.
mkdir empty
ln -s "$(command -v sh)" empty/sh
refused 3 "mpirun was not found" env PATH="$PWD/empty" $MOTLEY launch plan.json --hosts hosts -- --data text.txt

# Ctrl-C, and SIGTERM.
for signal in INT TERM USR2; do
  rm -rf launch
  $MOTLEY launch endless.json --hosts hosts --restart 3 -- --data text.txt >run.txt 2>&1 &
  job=$!
  wait_for "grep -q '^step 20/' run.txt"
  kill -$signal $job
  code=0
  wait $job || code=$?
  [ $code = 0 ] && grep -q '"ended": "stopped by a signal"' launch/run/run.json || fail "$signal: $code: $(cat run.txt)"
  ls launch/run/step-*.safetensors >/dev/null && ! grep -q 'restart' run.txt || fail "$signal: $(cat run.txt)"
done

# Ctrl-C before the ranks are there; two in one folder; a launch that is killed leaves nothing behind.
rm -rf launch
$MOTLEY launch endless.json --hosts hosts -- --data text.txt >run.txt 2>&1 &
job=$!
wait_for 'children $job mpirun >mpirun.txt'
kill -INT $job
code=0
wait $job || code=$?
[ $code = 0 ] && ! kill -0 "$(cat mpirun.txt)" 2>/dev/null || fail "$code: $(cat run.txt)"

# A rank that is asked before it can answer, which mpirun says of it: there was nothing to save.
mkdir early
cat >early/mpirun <<'E'
#!/usr/bin/env -S --default-signal=USR2 sh
trap 'echo "mpirun noticed that process rank 1 with PID 0 on node x exited on signal 12 (User defined signal 2)." >&2; exit 140' USR2
touch started
while :; do sleep 0.1; done
E
chmod +x early/mpirun
rm -rf launch
PATH="$PWD/early:$PATH" $MOTLEY launch endless.json --hosts hosts --restart 2 -- --data text.txt >run.txt 2>&1 &
job=$!
wait_for '[ -e started ]'
kill -INT $job
code=0
wait $job || code=$?
[ $code = 0 ] && grep -q 'stopped before it had begun' run.txt && ! grep -q restart run.txt || fail "$code: $(cat run.txt)"

for signal in KILL HUP; do
  rm -rf launch
  (trap - HUP && exec $MOTLEY launch endless.json --hosts hosts -- --data text.txt) >run.txt 2>&1 &
  job=$!
  wait_for "grep -q '^step 20/' run.txt"
  refused 2 "--out launch: another \`motley launch\` runs there" $MOTLEY launch plan.json --hosts hosts -- --data text.txt
  children $job mpirun >mpirun.txt
  rank_pid $job 1 >rank.txt
  kill -$signal $job
  code=0
  wait $job 2>/dev/null || code=$?
  wait_for '! kill -0 "$(cat mpirun.txt)" 2>/dev/null && ! kill -0 "$(cat rank.txt)" 2>/dev/null'
  [ $signal = KILL ] || { [ $code = 0 ] && grep -q '"ended": "stopped by a signal"' launch/run/run.json; } || fail "$code: $(cat run.txt)"
done

# A rank that is killed when a checkpoint is whole: the same plan again, from there; killed twice, it is left out, and the
# others go on.
killed_at() { # STEPS RESTARTS; into $code
  local preload=$FAULTS
  if sanitized; then preload="$(gcc -print-file-name=libasan.so):$FAULTS"; fi
  rm -rf launch
  code=0
  LD_PRELOAD=$preload MOTLEY_FAULT=1:renamed:KILL MOTLEY_FAULT_STEPS=$1 MOTLEY_FAULT_FOLDER=$PWD $MOTLEY launch long.json \
    --hosts hosts --restart "$2" -- --data text.txt --checkpoint-every 20 --heartbeat 60 >run.txt 2>&1 || code=$?
}
mpirun -n 2 $MOTLEY train long.json --data text.txt --no-out >straight.txt 2>&1
killed_at 40 1
[ $code = 0 ] || fail "code $code: $(cat run.txt)"
grep -q 'launch: restart 1 of 1, by the same plan: from the last checkpoint of launch/run' run.txt || fail "$(cat run.txt)"
[ -n "$(hash_of run.txt 2)" ] && [ "$(hash_of run.txt 2)" = "$(hash_of straight.txt 2)" ] || fail "$(cat run.txt)"
killed_at "40 80" 3
[ $code = 0 ] || fail "code $code: $(cat run.txt)"
grep -q '^motley: launch: .*; all hosts answer, but rank 1 died twice$' run.txt || fail "$(cat run.txt)"
grep -q 'launch: restart 2 of 3, by a new plan' run.txt && [ -n "$(hash_of run.txt 1)" ] || fail "$(cat run.txt)"
# The run's folder keeps what happened, and its report shows it.
grep -q '^motley: resuming from launch/run/.*: step 80, ' run.txt || fail "$(cat run.txt)"
[ "$(sed 1d launch/run/restarts.csv | wc -l)" = 2 ] || fail "$(cat launch/run/restarts.csv)"
grep -qE '^[1-9][0-9]*,"restart 2 of 3, by a new plan: rank 1 on .*; all hosts answer, but rank 1 died twice"$' launch/run/restarts.csv ||
  fail "$(cat launch/run/restarts.csv)"
$MOTLEY report launch/run -o run.html
step=$(sed -n 's/^\([0-9]*\),.*restart 2 .*/\1/p' launch/run/restarts.csv)
has "<td class=\"r\">$step</td><td[^>]*>restart 2 of 3, by a new plan: rank 1 on .*died twice</td>" <run.html || fail "no event"
[ "$(grep -cE '>restart [12]</text>' run.html)" -ge 2 ] || fail "restarts are not in the picture"
# Without a restart left: train's code.
rm -rf launch
$MOTLEY launch endless.json --hosts hosts -- --data text.txt --checkpoint-every 20 >run.txt 2>&1 &
job=$!
wait_for '[ "$(ls launch/run 2>/dev/null | grep -c "^step-.*safetensors$")" -ge 1 ] && [ -n "$(rank_pid $job 1)" ]'
kill -KILL "$(rank_pid $job 1)"
code=0
wait $job || code=$?
[ $code = 4 ] || fail "code $code: $(cat run.txt)"

# An mpirun that does not end when its job has.
real=$(command -v mpirun)
mkdir bin
printf '#!/bin/sh\n%s "$@"\necho "$$" >hangs\nsleep 1000\n' "$real" >bin/mpirun
chmod +x bin/mpirun
rm -rf launch
PATH=$PWD/bin:$PATH $MOTLEY launch plan.json --hosts hosts --end-deadline 2 -- --data text.txt >run.txt 2>&1 || fail "$(cat run.txt)"
grep -q 'mpirun did not end within 2 s of its job, and was killed' run.txt || fail "$(cat run.txt)"
! kill -0 "$(cat hangs)" 2>/dev/null || fail "it still hangs"
printf '#!/bin/sh\necho "motley: rank 1 on x has exited without a message: was it killed?; it was" >&2\nsleep 1000\n' >bin/mpirun
rm -rf launch
code=0
PATH=$PWD/bin:$PATH $MOTLEY launch plan.json --hosts hosts --end-deadline 1 --restart 1 -- --data text.txt >run.txt 2>&1 || code=$?
[ $code = 4 ] || fail "code $code: $(cat run.txt)"
grep -q '^motley: launch: rank 1 on x has exited without a message: was it killed?; all hosts answer$' run.txt || fail "$(cat run.txt)"
grep -q 'restart 1 of 1, by the same plan: from the beginning: there is no checkpoint yet' run.txt || fail "$(cat run.txt)"
# What a rank ended with counts, also if mpirun hangs then: it is not tried again.
printf '#!/bin/sh\nprintf "mpirun detected that one or more processes exited\\n  Exit code:    2\\n" >&2\nsleep 1000\n' >bin/mpirun
rm -rf launch
code=0
PATH=$PWD/bin:$PATH $MOTLEY launch plan.json --hosts hosts --end-deadline 1 --restart 3 -- --data text.txt >run.txt 2>&1 || code=$?
[ $code = 2 ] && ! grep -q 'restart' run.txt || fail "code $code: $(cat run.txt)"

# Daemons that do not reach mpirun: of two hosts that answer, one's hangs, and is named; mpirun is ended, and the hosts are
# asked again.
cat >agent <<'AGENT'
#!/bin/sh
case $1:$2 in
slow:uname) echo slow ;;
slow:cat) echo "  0: 0100007F:0016 0100007F:0016 01 no connection to mpirun" ;;
slow:*) echo $$ >>slow; exec sleep 1000 ;;
*) shift; exec sh -c "$*" ;;
esac
AGENT
chmod +x agent
$MOTLEY plan --model $model --batch 6 --ranks 3 --steps 60 -o three.json >said.txt
printf 'localhost slots=1\nquick slots=1\nslow slots=1\n' >daemons
rm -rf launch
code=0
$MOTLEY launch three.json --hosts daemons --agent "$PWD/agent" --daemon-deadline 4 --restart 1 -- --data text.txt >run.txt 2>&1 || code=$?
[ $code = 4 ] || fail "$code: $(cat run.txt)"
said='mpirun has started no rank within 4 s, and is ended: slow: its daemon has no connection to mpirun$'
[ "$(grep -c "launch: $said" run.txt)" = 2 ] && grep -q 'restart 1 of 1, by the same plan' run.txt || fail "$(cat run.txt)"
for agent in $(cat slow); do wait_for '! kill -0 $agent 2>/dev/null'; done

# Ctrl-C between two attempts, while a host is asked that does not answer any more.
cat >agent <<'AGENT'
#!/bin/sh
case $1:$2 in
gone:uname) [ ! -e asked ] || exec sleep 1000; touch asked; echo gone ;;
gone:*) exit 1 ;;
esac
AGENT
echo 'gone slots=2' >daemons
rm -rf launch
$MOTLEY launch plan.json --hosts daemons --agent "$PWD/agent" --answer-deadline 500 --restart 1 -- --data text.txt >run.txt 2>&1 &
job=$!
wait_for 'pgrep -P $job sleep >asked.txt'
kill -INT $job
code=0
wait $job || code=$?
[ $code = 4 ] && ! grep -q restart run.txt || fail "$code: $(cat run.txt)"
! kill -0 "$(cat asked.txt)" 2>/dev/null || fail "it is still asked"

# For Slurm: a time that leaves none to train would be queued again for ever.
refused 2 "--time 2: the job would be asked to stop 120 s before the end of its 120 s" $MOTLEY launch plan.json --slurm --time 2 -- --data text.txt
refused 2 '--time: "1-" is no time of Slurm' $MOTLEY launch plan.json --slurm --time 1- -- --data text.txt
for time in 3 2:01 0:02:01 1-0 0-0:03 UNLIMITED; do $MOTLEY launch plan.json --slurm --time $time -- --data text.txt >said.txt; done
refused 2 "--out: \"50%\" has characters" $MOTLEY launch plan.json --slurm -o 50% -- --data text.txt
refused 2 "--agent: has no use with Slurm" $MOTLEY launch plan.json --slurm --agent ssh -- --data text.txt

# Described clusters: nodes find hosts by what a profile says (here a description too, under other names).
[ -f "$(dirname "$MOTLEY")/motley_glpk.so" ] || exit 0
was="cpu:1x2 + cpu-2t:1 net=10G"
$MOTLEY plan --cluster "$was" --model $model --batch 12 --use all -o described.json >said.txt
printf 'node0\nnode1\n' >swapped
sed 's/node0/x/; s/node1/y/' described.json >renamed.json
$MOTLEY plan --check renamed.json -o renamed.json >said.txt
refused 2 "the plan does not fit the hosts" $MOTLEY launch renamed.json --hosts swapped --dry-run -- --data text.txt
grep -q 'hint: the plan.s nodes have other names: --cluster PROFILE' err.txt || fail "$(cat err.txt)"
$MOTLEY launch renamed.json --hosts swapped --cluster "cpu-2t:1 + cpu:1x2 net=10G" --dry-run -o new -- --data text.txt >said.txt 2>&1 ||
  fail "$(cat said.txt)"
grep -q "^motley: launch: of the plan's nodes, x is node1, y is node0$" said.txt || fail "$(cat said.txt)"
[ "$(cat new/hostfile)" = "node0 slots=1"$'\n'"node1 slots=2" ] || fail "$(cat new/hostfile)"
shows ' 2 node0 cpu-2t not bound - 0' said.txt
$MOTLEY launch renamed.json --hosts swapped --cluster "cpu-2t:1 + cpu:1x2 net=10G" --dry-run --json -o new -- --data text.txt >said.txt 2>err.txt
grep -q '{"rank": 2, "host": "node0", "class": "cpu-2t", "cores": "not bound", "gpu": null, "device": 0}' said.txt || fail "$(cat said.txt)"
$MOTLEY show new/plan.json >said.txt || fail "$(cat said.txt)"
refused 2 "1 of the plan's 2 nodes matches no host" $MOTLEY launch renamed.json --hosts swapped --cluster "cpu-2t:1 + cpu:1 net=10G" \
  --dry-run -- --data text.txt
grep -q '^x *2 cpu .*1 of 2 cpu' err.txt || fail "$(cat err.txt)"

# For Slurm: nodes by what the plan wants of them, or by name.
slurm() { $MOTLEY launch "$@" >said.txt 2>&1 || fail "$(cat said.txt)"; }
line() { grep -qxF -- "$1" launch/job.sbatch || fail "no '$1' in $(cat launch/job.sbatch)"; }
rm -rf launch
slurm described.json --slurm --partition gpu --account me --time 4:00:00 --stop-before 90 -- --data text.txt
for want in --nodes=2 --ntasks-per-node=2 --exclusive --mem=0 "--output=$PWD/launch/job-%j.out" '--constraint="[cpu*1&cpu-2t*1]"' --partition=gpu --account=me \
  --time=4:00:00 --signal=B:USR2@90 --requeue; do
  line "#SBATCH $want"
done
grep -q "^exec $MOTLEY launch launch/plan.json --slurm-job --requeue .* -- --data=text.txt --out=launch/run$" launch/job.sbatch ||
  fail "$(cat launch/job.sbatch)"
$MOTLEY plan --cluster "a10:1x4 + a10:1x2" --model $model --batch 12 --use all -o gpus.json >said.txt
slurm gpus.json --slurm --hosts swapped -- --data text.txt
for want in --nodes=2 --ntasks-per-node=4 --gres=gpu:2 --nodelist=node0,node1; do line "#SBATCH $want"; done
refused 2 "--partition: \"a b\" has characters" $MOTLEY launch gpus.json --slurm --partition "a b" -- --data text.txt
