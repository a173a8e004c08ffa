#!/usr/bin/env bash
# Two hosts with working folders of their own: training goes through; and when the link between them is cut, each side
# names the other and all ranks end, with the last checkpoint whole. By default in one phase; all with
# MOTLEY_ALL_FAULTS=1.
. "$SOURCE/tests/cli/lib.bash"
. "$SOURCE/tests/cli/hosts.bash"
hosts_can || { echo "needs root and network namespaces"; exit 77; }
trap 'hosts_down; rm -rf "$folder"' EXIT
seq 1 9000 >text.txt
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=16,context=16,vocab=256 --lr 0.001 --batch 6 --speeds 1,0.5 \
  --storage split --steps 60 -o plan.json
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=16,context=16,vocab=256 --lr 0.001 --batch 6 --speeds 1,0.5 \
  --storage split --steps 1000000 -o long.json
mkdir own
hosts_up "" "$folder/own"
preload=$FAULTS
if sanitized; then preload="$(gcc -print-file-name=libasan.so):$FAULTS"; fi
# The shared part of the machine is what both have; own/ is each host's.
both="cp $folder/text.txt $folder/plan.json $folder/long.json $folder/own && cd $folder/own"
cat >rank.sh <<EOF
#!/bin/sh
$both || exit 1
LD_PRELOAD=\$FAULTS_PRELOAD "\$@"
code=\$?
ls "$folder/own" | grep -v pid >"$folder/ls.\$OMPI_COMM_WORLD_RANK"
[ \$OMPI_COMM_WORLD_RANK != 0 ] || cp -r "$folder/own/run" "$folder/kept" 2>/dev/null
touch "$folder/left.\$OMPI_COMM_WORLD_RANK"
exit \$code
EOF
chmod +x rank.sh

# The same weights as on one host; only rank 0 has the run's folder.
mpirun -n 2 $MOTLEY train plan.json --data text.txt >here.txt 2>&1
code=0
on_hosts -n 2 "$folder/rank.sh" $MOTLEY train plan.json --data text.txt --out run --checkpoint-every 20 \
  >hosts.txt 2>&1 || code=$?
[ $code = 0 ] || fail "two hosts: code $code: $(cat hosts.txt)"
want=$(grep -o 'equal on 2 ranks ([0-9a-f]*)' here.txt)
grep -qF "$want" hosts.txt || fail "other weights on two hosts: $(cat here.txt hosts.txt)"
grep -qx run ls.0 && ! grep -qx run ls.1 || fail "$(head ls.0 ls.1)"
rm -rf kept

# cut PHASE RANK: the link goes down when RANK is in PHASE.
cut() {
  rm -f reached pid.* left.* run.txt
  rm -rf kept
  hosts_down # a link that was cut takes its time to be back
  hosts_up "" "$folder/own"
  on_hosts -x FAULTS_PRELOAD="$preload" -x MOTLEY_FAULT="$2:$1:NONE" -x MOTLEY_FAULT_FOLDER="$folder" -n 2 \
    "$folder/rank.sh" $MOTLEY train long.json --data text.txt --out run --checkpoint-every 20 --steps 60 >run.txt 2>&1 &
  local job=$!
  for _ in $(seq 6000); do
    if [ -e reached ]; then break; fi
    sleep 0.05
  done
  [ -e reached ] || fail "phase $1 was not reached: $(cat run.txt)"
  ip -n $HOST_A link set v$HOST_A down
  ranks_end 300 "$1, rank $2"
  for _ in $(seq 3000); do # mpirun may wait for the other host's daemon; what rank 0 says must be there by then
    if [ -e left.0 ] && grep -q "^motley: rank 1 on $HOST_B has .*was last in" run.txt; then break; fi
    sleep 0.1
  done
  kill -KILL $job 2>/dev/null || true
  wait $job 2>/dev/null || true
  grep -q "^motley: rank 1 on $HOST_B has .*was last in" run.txt || fail "$1: not named: $(cat run.txt)"
  case $1 in
    checkpoint | end | exit) $MOTLEY sample kept --tokens 1 >sampled.txt 2>&1 || fail "$1: $(cat sampled.txt)" ;;
  esac
}

phases=checkpoint
if [ -n "${MOTLEY_ALL_FAULTS:-}" ]; then phases="start init forward collective checkpoint end exit"; fi
for phase in $phases; do
  cut $phase 0
  [ -z "${MOTLEY_ALL_FAULTS:-}" ] || cut $phase 1
done
