#!/usr/bin/env bash
# motley launch between hosts: from a third host a job is started on two that were profiled; one of them dies, the job
# is planned again for the other, goes on from its checkpoint and ends, all by one command. Its weights are those of
# both plans run by hand, the first one up to that checkpoint.
. "$SOURCE/tests/cli/lib.bash"
. "$SOURCE/tests/cli/hosts.bash"
hosts_can || { echo "needs root, network namespaces and tc"; exit 77; }
[ -f "$(dirname "$MOTLEY")/motley_glpk.so" ] || { echo "needs GLPK to plan again"; exit 77; }
launcher=
ended() {
  [ -z "$launcher" ] || kill -KILL $launcher 2>/dev/null || true
  hosts_down
  rm -rf "$folder"
}
trap ended EXIT
three() { hosts_switch 1gbit/1gbit 1gbit/1gbit 1gbit/1gbit; }

three
a=${HOSTS[0]} b=${HOSTS[1]} c=${HOSTS[2]}
two=$a:1,$b:1
hosts_mpirun --host "$two" -n 2 "$MOTLEY" profile --budget 4 --start-deadline 120 -o "$PWD/cluster.json" >profile.txt 2>&1 ||
  fail "$(cat profile.txt)"
seq 1 9000 >text.txt
model=gpt2:layers=2,heads=2,embed=16,context=16,vocab=256
$MOTLEY plan --cluster cluster.json --model $model --lr 0.001 --batch 6 --steps 200 --use all -o plan.json >said.txt
printf '# who trains\n%s slots=1\n%s slots=2 # one more than needed\n' "$a" "$b" >hostfile

# launched FLAGS...: motley launch, on the third host
launched() {
  "$hosts_agent" "$c" cd "$folder" '&&' exec "$MOTLEY" launch plan.json --hosts hostfile --agent "$hosts_agent" \
    --mca btl=tcp,vader,self --mca btl_tcp_if_include=10.77.0.0/24 --mca oob_tcp_if_include=10.77.0.0/24 "$@"
}
last_step() { # of the checkpoints of a run
  local last
  last=$(ls "$1" | grep '^step-.*safetensors$' | tail -n 1 | tr -dc 0-9)
  echo $((10#$last))
}

# What is written is what is run: ranks where the plan has them, bound to the cores that profile saw.
launched --cluster cluster.json --dry-run -o dry -- --data text.txt >said.txt 2>&1 || fail "$(cat said.txt)"
[ "$(cat dry/hostfile)" = "$a slots=1"$'\n'"$b slots=1" ] || fail "$(cat dry/hostfile)"
core() { sed -n "s/.*\"node\": \"$1\", .*\"mask\": \"\([^\"]*\)\".*/\1/p" cluster.json; }
[ "$(cat dry/rankfile)" = "rank 0=$a slot=$(core "$a")"$'\n'"rank 1=$b slot=$(core "$b")" ] || fail "$(cat dry/rankfile) $(grep mask cluster.json)"
[ ! -e dry/run ] || fail "a dry run has run"

# A host that is killed while the job runs on it: the rank that writes checkpoints stands still when the second one is
# whole, so that nobody has to be quick.
preload=$FAULTS
if sanitized; then preload="$(gcc -print-file-name=libasan.so):$FAULTS"; fi
LD_PRELOAD=$preload MOTLEY_FAULT=0:renamed:HANG MOTLEY_FAULT_FOLDER=$PWD launched --cluster cluster.json --restart 2 -o launch -- --data text.txt --checkpoint-every 20 --out run --start-deadline 120 \
  >run.txt 2>&1 &
launcher=$!
wait_for '[ -e run/step-00000040.safetensors ]'
ip -n "$a" link set "v$a" down
ip netns pids "$a" | xargs kill -KILL 2>/dev/null || true
ip netns delete "$a"
code=0
wait $launcher || code=$?
launcher=
[ $code = 0 ] || fail "code $code: $(cat run.txt)"
grep -q "^motley: launch: .*; $a does not answer$" run.txt || fail "$(cat run.txt)"
grep -q '^motley: launch: restart 1 of 2, by a new plan: from the last checkpoint of run$' run.txt || fail "$(cat run.txt)"
[ "$(grep -c '^motley: launch: restart' run.txt)" = 1 ] || fail "$(cat run.txt)"
from=$(sed -n 's|^motley: resuming from run/.*: step \([0-9]*\), .*|\1|p' run.txt)
[ "$from" = 40 ] || fail "no checkpoint was gone on with: $(cat run.txt)"
[ "$(last_step run)" = 200 ] || fail "$(ls run)"
[ "$(cat launch/restart-1/hostfile)" = "$b slots=1" ] || fail "$(cat launch/restart-1/hostfile)"
! grep -q "\"\(host\|name\|node\)\": \"$a\"" launch/restart-1/plan.json launch/restart-1/cluster.json || fail "the host that is gone is planned for"
$MOTLEY explain launch/restart-1/plan.json --cluster launch/restart-1/cluster.json >said.txt || fail "$(cat said.txt)"
echo "killed after step $from; went on with $(sed -n 's/^parameter hashes //p' run.txt)"

# By hand: both plans, on hosts of the same names.
hosts_down
three
by_hand() { # HOSTS RANKS FLAGS OF TRAIN...
  hosts_mpirun --host "$1" -n "$2" -wdir "$folder" "$MOTLEY" train "${@:3}" --data text.txt --out hand \
    --checkpoint-every 0 --start-deadline 120 >hand.txt 2>&1 || fail "$(cat hand.txt)"
}
by_hand "$two" 2 launch/plan.json --steps "$from"
by_hand "$b:1" 1 launch/restart-1/plan.json --resume hand
for what in "" adamw.m. adamw.v.; do
  "$COMPARE" run/step-00000200.safetensors hand/step-00000200.safetensors 1 0 $what || fail "other weights: $what"
done
