#!/usr/bin/env bash
# Ranks that a plan leaves out ("order"): the others train what one rank trains, whichever is idle and in whatever order,
# while an idle rank uses almost no CPU time, is watched, passes signals on and ends as the others do.
. "$SOURCE/tests/cli/lib.bash"
seq 1 1500 | tr '\n' ' ' >text
here=$(hostname)
model=gpt2:layers=2,heads=4,embed=16,context=16,vocab=256,bias=1,tied=1
job="--batch 10 --steps 20 --lr 0.01 --dropout 0.1 --clip 0.5 --warmup 3 --seed 7 --precision f64"

# plan NAME ORDER FLAGS...: a plan with this order, signed.
plan() {
  local name=$1 order=$2
  shift 2
  $MOTLEY plan --model $model "$@" -o $name.json >said.txt
  sed -i "s/^  \"splits\": \[/  \"order\": [$order],\n&/" $name.json
  refused 2 "$name.json: hash: does not fit" $MOTLEY show $name.json
  $MOTLEY plan --check $name.json -o $name.json >said.txt
  grep -q "\"order\": \[$order\]" $name.json || fail "the edit was lost: $(cat said.txt)"
}

# run N PLAN FLAGS...
run() { mpirun --oversubscribe --bind-to none -n "$1" $MOTLEY train "$2.json" --data text "${@:3}"; }
losses() { tr -d '\n' <"$1/run.json" | sed -E 's/.*"losses": \[([^]]*)\].*/\1/' | tr -d ' '; }
hash_of() { grep -o 'parameter hashes equal on [0-9]* ranks\? ([0-9a-f]*)' "$1" | grep -o '([0-9a-f]*)'; }

$MOTLEY plan --model $model $job --ranks 1 -o one.json >said.txt
run 1 one --out one >one.log 2>&1
loss=$(grep -o 'validation loss [0-9.]*' one.log)

# train NAME N: what one rank trains.
train() {
  run "$2" "$1" --out "$1" >"$1.log" 2>&1 || fail "$(cat "$1.log")"
  "$COMPARE" "$1"/step-*.safetensors one/step-*.safetensors 0.2 || fail "$1: parameters"
  paste -d ' ' <(losses "$1" | tr ',' '\n') <(losses one | tr ',' '\n') |
    awk -v name="$1" '{ d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > worst) worst = d; n++ }
      END { printf "%s: %d losses differ by %.2g\n", name, n, worst; exit !(n == 20 && worst <= 1e-11) }' ||
    fail "$1: losses"
  [ "$(grep -o 'validation loss [0-9.]*' "$1.log")" = "$loss" ] || fail "$1: $(cat "$1.log")"
  $MOTLEY sample "$1" --prompt 1 --tokens 5 >sampled.txt || fail "$1: cannot sample"
}

split="--storage split --storage-speeds"
plan first "1, 2" $job --shares 0,7,3 $split 0,1,2
plan last "0, 1" $job --shares 7,3,0 $split 1,2,0
plan middle "4, 0, 2" $job --shares 5,0,3,0,2 $split 1,0,3,0,1 --micro 2
plan alone "1" $job --shares 0,10 --storage-speeds 0,1
train first 3
train last 3
train middle 5
train alone 2
grep -q '^motley: 3 ranks, of which 1 idle, .*; rank 1: cpu' first.log || fail "$(cat first.log)"
# The numbers are those of the plan without the idle ranks, to the bit.
$MOTLEY plan --model $model $job --shares 7,3 $split 1,2 -o two.json >said.txt
run 2 two --out two >two.log 2>&1
for name in first last; do
  [ "$(hash_of $name.log)" = "$(hash_of two.log)" ] || fail "$name: $(cat $name.log two.log)"
  grep -q "\"program_hash\": \"$(sed -n 's/.*"program_hash": "\(.*\)".*/\1/p' two.json)\"" $name.json || fail "$name"
done
# Each rank has its row, in the plan's order.
[ "$(grep '"host"' first/run.json | grep -o '"idle": true\|"samples": [0-9]*' | tr '\n' ' ')" = \
  '"idle": true "samples": 0 "samples": 7 "samples": 3 ' ] || fail "$(cat first/run.json)"
$MOTLEY show first/run.json | tr -s ' ' >shown.txt
grep -q '^ 0 .* idle$' shown.txt && grep -q '^ 1 .* cpu, .* 7 ' shown.txt || fail "$(cat shown.txt)"

# In two parts, on another plan, on the plan without idle ranks; with idle ranks again.
run 3 first --out parts --steps 9 >parts.log 2>&1
run 3 last --resume parts --steps 15 >parts.log 2>&1
run 5 middle --resume parts >parts.log 2>&1
"$COMPARE" parts/step-00000020.safetensors one/step-*.safetensors 0.2 || fail "parts: $(cat parts.log)"
run 3 first --init one/step-00000020.safetensors --eval-only >init.log 2>&1
[ "$(grep -o 'validation loss [0-9.]*' init.log)" = "$loss" ] || fail "$(cat init.log)"
# Emulated speeds are those of the plan's ranks; a trace names them.
run 3 first --emulate speed=0.5,1,0.25 --steps 3 --out emulated --trace trace.json >emulated.log 2>&1 || fail "$(cat emulated.log)"
[ "$(grep -o '"emulated": [0-9.]*' emulated/run.json | tr '\n' ' ')" = '"emulated": 1 "emulated": 1 "emulated": 0.25 ' ] ||
  fail "$(cat emulated/run.json)"
[ "$(grep -o '"rank [0-9] on' trace.json | sort -u | tr -d '\n')" = '"rank 1 on"rank 2 on' ] || fail "$(head -20 trace.json)"

# A failure of those that take part ends all, with one code and one message, though rank 0 is idle.
refused 2 "motley: none: No such file" run 3 first --data none
[ "$(grep -c '^motley: ' err.txt)" = 1 ] || fail "$(cat err.txt)"
plan wild "1, 2" $job --lr 1e30 --clip 0 --shares 0,7,3 $split 0,1,1
refused 7 "training has diverged" run 3 wild --out wild
[ "$(grep -c '^motley: .*diverged' err.txt)" = 1 ] || fail "said twice: $(cat err.txt)"
grep -q '"ended": "diverged"' wild/run.json || fail "$(cat wild/run.json)"
$MOTLEY verify first.json >said.txt || fail "$(cat said.txt)"

# The first rank that takes part reads and writes files; rank 0 has the plan alone.
mkdir -p apart/a apart/b
cp first.json apart/a && cp first.json text apart/b
(cd apart && mpirun --oversubscribe --bind-to none -n 1 -wdir a $MOTLEY train first.json --data text --out run : \
  -n 2 -wdir b $MOTLEY train first.json --data text --out run) >apart.log 2>&1 || fail "$(cat apart.log)"
[ ! -e apart/a/run ] && [ "$(hash_of apart.log)" = "$(hash_of two.log)" ] || fail "$(cat apart.log)"
(cd apart && mpirun --oversubscribe --bind-to none -n 1 -wdir a $MOTLEY doctor first.json --data text --out run : \
  -n 2 -wdir b $MOTLEY doctor first.json --data text --out run) >doctor.txt || fail "$(cat doctor.txt)"
grep -q '^ok *plan .* fits the ranks and hosts, and leaves 1 of 3 ranks idle' doctor.txt || fail "$(cat doctor.txt)"
grep -q "^ok *data .* on every rank that takes part" doctor.txt || fail "$(cat doctor.txt)"
grep -q "^ok *out .* rank 1's own, which is enough" doctor.txt || fail "$(cat doctor.txt)"

# The program is that of the places; a rank of the plan may have none.
$MOTLEY show program middle.json --rank 4 >said.txt
[ "$(head -n 1 said.txt)" = "rank 0 of the program is rank 4 of the plan" ] || fail "$(head -n 2 said.txt)"
refused 2 "--rank: rank 1 is idle in middle.json" $MOTLEY show program middle.json --rank 1
$MOTLEY show program middle.json --rank 2 --lowered >said.txt || fail "$(cat said.txt)"
$MOTLEY show middle.json | tr -s ' ' >shown.txt
grep -q '^ 1 1 0 0.0% idle 0 B 0 B$' shown.txt || fail "$(cat shown.txt)"
grep -q '^ order of the ranks in the program: 4 0 2$' shown.txt || fail "$(cat shown.txt)"
$MOTLEY diff first.json last.json >said.txt && fail "two plans are one: $(cat said.txt)"
tr -s ' ' <said.txt | has -x 'rank 0: place in the program idle 0' || fail "$(cat said.txt)"
refused 2 "is for 2 ranks that take part, but 3 processes" mpirun --oversubscribe -n 3 $MOTLEY tune first.json --device cpu
grep -q 'hint: start it with `mpirun -n 2`: idle ranks have nothing to tune' err.txt || fail "$(cat err.txt)"
refused 2 "is for 1 rank that takes part, but 2 processes" mpirun --oversubscribe -n 2 $MOTLEY tune alone.json --device cpu
refused 2 "the plan is for 3 ranks, but 2 processes" run 2 first

# For the ranks that are left: the same program, order and bits.
$MOTLEY plan --check middle.json --without-idle -o fewer.json >said.txt
grep -q '^left out   2 idle ranks: start it with `mpirun -n 3`$' said.txt || fail "$(cat said.txt)"
grep -q '"order": \[2, 0, 1\]' fewer.json || fail "$(cat fewer.json)"
cmp <(grep program_hash fewer.json) <(grep program_hash middle.json)
run 3 fewer --out fewer >fewer.log 2>&1 || fail "$(cat fewer.log)"
[ "$(hash_of fewer.log)" = "$(hash_of middle.log)" ] || fail "$(cat fewer.log)"
$MOTLEY plan --check two.json --without-idle -o same.json >said.txt
cmp two.json same.json || fail "nobody was idle"

# One rank alone has no collectives: rows that fix their algorithms are refused, with what to do.
$MOTLEY plan --model $model --batch 10 --shares 10,0 --storage-speeds 1,0 --algorithm AllReduce=ring -o single.json >said.txt
sed -i 's/^  "splits": \[/  "order": [0],\n&/' single.json
refused 2 'hint: remove the rows of AllReduce from "collectives"' $MOTLEY plan --check single.json -o single.json
sed -i '/"kind": "AllReduce"/d' single.json
$MOTLEY plan --check single.json -o single.json >said.txt || fail "$(cat said.txt)"

# Replanned by the speeds that were seen, idle ranks stay idle.
sed -i 's/"step_s": [0-9.e-]*/"step_s": 0.25/' middle/run.json
awk '/"step_compute_s"/ && !/"idle": true/ {
  sub(/"step_compute_s": [0-9.e-]+/, "\"step_compute_s\": " (n++ ? 0.1 : 0.2)) } 1' middle/run.json >new.json
mv new.json middle/run.json # 5 samples in 0.2 s, 3 and 2 in 0.1 s
$MOTLEY plan --from middle -o again.json >said.txt
grep -q '"order": \[4, 0, 2\]' again.json || fail "$(cat again.json)"
shows ' {"name": "batch", "label": "batch", "align": 1, "sizes": [3, 0, 4, 0, 3]},' again.json
$MOTLEY verify again.json >said.txt || fail "$(cat said.txt)"

# On a cluster an edit that leaves ranks out is priced, explained and said.
if [ -f "$(dirname "$MOTLEY")/motley_glpk.so" ]; then
  cluster="cpu:1 net=10M + cpu:2 net=10G"
  $MOTLEY plan --cluster "$cluster" --model $model --batch 12 --shares 4,4,4 --storage-shares embed=8,8,0 -o three.json >said.txt
  sed '/"splits": \[/i "order": [2, 1],' three.json | sed 's/"sizes": \[4, 4, 4\]/"sizes": [0, 6, 6]/
    s/"micro_batch": .*/"micro_batch": [0, 6, 6],/; /"name": "storage:/s/"sizes": \[\([0-9]*\), \([0-9]*\), \([0-9]*\)\]/"sizes": [0, \1+\2, \3]/' |
    awk '{ while (match($0, /[0-9]+\+[0-9]+/)) { split(substr($0, RSTART, RLENGTH), t, "+")
      $0 = substr($0, 1, RSTART - 1) (t[1] + t[2]) substr($0, RSTART + RLENGTH) } print }' >edited.json
  $MOTLEY plan --check edited.json --cluster "$cluster" -o edited.json >said.txt || fail "$(cat edited.json)"
  $MOTLEY show edited.json | tr -s ' ' >shown.txt
  grep -q '^ 0 left out by an edit -' shown.txt || fail "$(cat shown.txt)"
  grep -q '^ 0 idle$' shown.txt || fail "$(cat shown.txt)"
  $MOTLEY explain edited.json --cluster "$cluster" >said.txt
  grep -q '^Rank [12] ' said.txt || fail "an idle rank is waited for: $(cat said.txt)"
  $MOTLEY plan --check edited.json --without-idle -o fewer.json >said.txt
  grep -q 'mpirun -n 2` on the hosts that it names' said.txt || fail "$(cat said.txt)"
  cmp <(sed -n '/"step_s"/p' edited.json) <(sed -n '/"step_s"/p' fewer.json) || fail "the prediction is lost"
  # By a run's speeds the search decides again who takes part.
  sed "s/\"host\": \"[^\"]*\"/\"host\": \"$here\"/" edited.json >here.json
  $MOTLEY plan --check here.json --cluster "$cluster" -o here.json >said.txt
  grep -q '^idle       rank 0: left out by an edit$' said.txt || fail "$(cat said.txt)"
  run 3 here --steps 4 --out here >here.log 2>&1 || fail "$(cat here.log)"
  $MOTLEY plan --from here --cluster "$cluster" --cluster-out seen.json -o next.json >said.txt || fail "$(cat said.txt)"
  tr -s ' ' <said.txt | grep -q '^ *0 .* 0 0 [0-9]* 1$' || fail "$(cat said.txt)"
  $MOTLEY verify --no-numeric next.json >said.txt || fail "$(cat said.txt)"
  # When the device of rank 1 is gone: on those that are left, from the last checkpoint.
  $MOTLEY plan --from here --cluster "$cluster" --cluster-out seen.json --use 0,2 --without-idle -o left.json >said.txt ||
    fail "$(cat said.txt)"
  n=$(sed -n 's/^left out   [12] idle ranks*: start it with `mpirun -n \([12]\)`.*/\1/p' said.txt) # by the speeds seen
  [ -n "$n" ] || fail "$(cat said.txt)"
  sed -i "s/\"host\": \"[^\"]*\"/\"host\": \"$here\"/" left.json
  $MOTLEY plan --check left.json -o left.json >said.txt
  run "$n" left --resume here --steps 6 >here.log 2>&1 || fail "$(cat here.log)"
  grep -q 'resuming from here/.*: step 4, ' here.log || fail "$(cat here.log)"
  refused 2 "--use: names rank 3, but the ranks of the cluster are 0 to 2" $MOTLEY plan --from here --cluster "$cluster" \
    --use 0,3 -o x.json
  refused 2 "--use: has no use without --cluster" $MOTLEY plan --from here --use 0,2 -o x.json
  refused 2 "edit the file, and leave out --use" $MOTLEY plan --check edited.json --cluster "$cluster" --use all -o x.json
  refused 2 "fewer.json: ranks: has 2, but its cluster has 3 devices" $MOTLEY explain fewer.json --cluster "$cluster"
fi

# ---- signals, kills, CPU time ----

job="--lr 0.001 --batch 6 --steps 1000000"
plan far "1, 2" $job --shares 0,4,2 $split 0,1,1
plan near "1, 0" $job --shares 4,2,0 $split 1,1,0

pid_of() { # RANK of the job
  local pid
  for pid in $(pgrep -P $running -f 'motley train'); do
    if tr '\0' '\n' <"/proc/$pid/environ" | has -x "OMPI_COMM_WORLD_RANK=$1"; then echo "$pid"; fi
  done
}

start() { # PLAN FLAGS...
  rm -rf run run.txt
  mpirun --oversubscribe -n 3 $MOTLEY train "$1.json" --data text --out run "${@:2}" >run.txt 2>&1 &
  running=$!
  wait_for "grep -q '^step 20/' run.txt"
}

ended() { # CODE: 0, or another
  local code=0
  wait $running || code=$?
  [ $((code != 0)) = $(($1 != 0)) ] || fail "code $code: $(cat run.txt)"
}

# CPU time of process PID in hundredths of a second.
used() { sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'; }

# Three seconds are more than the deadline of a rank that has to make progress.
start far --deadline 1
idle=$(pid_of 0)
before=$(used "$idle") from=$(cut -d ' ' -f 1 /proc/uptime)
sleep 3
after=$(used "$idle") to=$(cut -d ' ' -f 1 /proc/uptime)
awk -v used=$((after - before)) -v hz="$(getconf CLK_TCK)" -v s="$from $to" 'BEGIN {
  split(s, t, " "); part = used / hz / (t[2] - t[1])
  printf "an idle rank used %.2f%% of a core for %.1f s\n", 100 * part, t[2] - t[1]; exit !(part < 0.03) }' ||
  fail "an idle rank is busy"
# One request to all ranks is one checkpoint; to the idle one alone it is another.
kill -USR1 $running
wait_for "ls run/step-*.safetensors >/dev/null 2>&1"
sleep 2.5
[ "$(ls run/step-*.safetensors | wc -l)" = 1 ] || fail "one request, but these checkpoints: $(ls run)"
kill -USR1 "$idle"
wait_for '[ "$(ls run/step-*.safetensors | wc -l)" = 2 ]'
kill -USR2 "$idle"
ended 0
grep -q 'asked to stop after step' run.txt || fail "$(cat run.txt)"
grep -q '"ended": "stopped by a signal"' run/run.json || fail "$(cat run/run.json)"

# lost PLAN RANK SIGNAL WHERE: the rank is named, all end, and the run can go on.
lost() {
  start "$1" --heartbeat 2.5 --checkpoint-every 10
  kill -"$3" "$(pid_of "$2")"
  ended 1
  grep -q "^motley: rank $2 on $here has .*was last in .*$4" run.txt || fail "rank $2 is not named: $(cat run.txt)"
  [ "$(grep -c "^motley: rank" run.txt)" = 1 ] || fail "more than one line: $(cat run.txt)"
  $MOTLEY sample run --tokens 1 >sampled.txt 2>&1 || fail "no checkpoint: $(cat sampled.txt)"
}
lost far 0 KILL "the wait of an idle rank"
lost near 2 STOP "the wait of an idle rank"
lost far 2 KILL step
lost near 0 KILL step

# A rank that stands still is named by those that wait for it, not those that are idle.
start far --deadline 2
kill -STOP "$(pid_of 2)"
ended 1
grep -q 'rank 2 on .* was last in step\|rank 2 on .* has not been heard of' run.txt || fail "$(cat run.txt)"
! grep -q 'rank 0 on .* has made no progress' run.txt || fail "an idle rank is named: $(cat run.txt)"
grep -q 'it waits for rank 2\|no answer from the other ranks' run.txt || fail "$(cat run.txt)"
