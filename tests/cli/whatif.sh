#!/usr/bin/env bash
# motley whatif on clusters whose answers are known.
. "$SOURCE/tests/cli/lib.bash"
small="gpt2:layers=1,heads=2,embed=64,context=64,vocab=256"

# row N: of the first model's rows in table.json, as one line. ratio N: its tokens a second over those of the first.
row() { grep '{"what"' table.json | sed -n "$(($1 + 1))p"; }
number() { sed -n "s/.*\"$2\": \([0-9.e+-]*\).*/\1/p" <<<"$(row "$1")"; }
between() { # what, value, least, most
  awk -v v="$2" -v a="$3" -v b="$4" 'BEGIN {exit !(v >= a && v <= b)}' || fail "$1 is $2, not from $3 to $4: $(cat table.txt)"
}
ratio() { awk -v a="$(number "$1" tokens_per_s)" -v b="$(number 0 tokens_per_s)" 'BEGIN {print a / b}'; }

# Bound by computing: twice the devices are nearly twice as fast, and half of them half as fast; devices at half speed
# count half. The time of tokens follows, and so do the costs, which the price list gives.
printf 'class,price_per_hour\r\ncpu,0.25\r\nt4,1\r\n' >prices.csv
$MOTLEY whatif --cluster "cpu:1x2 memory=1T" --model $small --batch 64 --add 2xcpu@node0 --remove rank:0 \
  --set class.cpu.speed=0.5 --change "add 2xcpu@node0, set class.cpu.speed=0.5" --add t4@node0 --tokens 3.6M \
  --prices prices.csv --json=table.json >table.txt
between "twice the devices" "$(ratio 1)" 1.8 2.02
between "half the devices" "$(ratio 2)" 0.49 0.56
between "half the speed" "$(ratio 3)" 0.49 0.56
between "twice the devices at half the speed" "$(ratio 4)" 0.9 1.05
between "a GPU" "$(ratio 5)" 5 1000
for i in 0 1 2 3 4 5; do
  between "step" "$(number $i step_s)" "$(awk -v t="$(number $i tokens_per_s)" 'BEGIN {print 64 * 64 / t * 0.9999}')" \
    "$(awk -v t="$(number $i tokens_per_s)" 'BEGIN {print 64 * 64 / t * 1.0001}')"
  between "time" "$(number $i time_s)" "$(awk -v t="$(number $i tokens_per_s)" 'BEGIN {print 3.6e6 / t * 0.9999}')" \
    "$(awk -v t="$(number $i tokens_per_s)" 'BEGIN {print 3.6e6 / t * 1.0001}')"
done
[ "$(number 0 cost_per_hour) $(number 1 cost_per_hour) $(number 2 cost_per_hour) $(number 5 cost_per_hour)" = "0.5 1 0.25 1.5" ] ||
  fail "costs per hour: $(cat table.json)"
between "cost" "$(number 1 cost)" "$(awk -v t="$(number 1 time_s)" 'BEGIN {print t / 3600 * 0.9999}')" \
  "$(awk -v t="$(number 1 time_s)" 'BEGIN {print t / 3600 * 1.0001}')"
grep -q '^ *add 2xcpu@node0 *4 .* nominal ' table.txt || fail "$(cat table.txt)"

# Bound by the network: ten times the bandwidth is nearly ten times as fast.
$MOTLEY whatif --cluster "h100:2 net=1G" --model gpt2:layers=1,heads=2,embed=512,context=32,vocab=4096 --batch 4 --use all \
  --set link.net=10G --json=table.json >table.txt
between "ten times the network" "$(ratio 1)" 6 10.1
grep -q 'as it is .* link net' table.txt || fail "does not wait for the network: $(cat table.txt)"

# A device that the plan leaves out is not worth its price: it is counted as idle.
$MOTLEY whatif --cluster "h100:2 net=1M" --model $small --batch 4 --remove rank:1 --json=table.json >table.txt
grep -q '^ *as it is *2 *1 ' table.txt || fail "$(cat table.txt)"
grep -q '^ *remove rank:1 *1 *0 ' table.txt || fail "$(cat table.txt)"
[ "$(number 0 idle) $(number 1 idle)" = "1 " ] || fail "$(cat table.json)"

# Rows share their errors: a difference of 1% is a tie, one of 10% is none, though both bands are wider. A row that ties
# with an earlier one names it.
$MOTLEY whatif --cluster "cpu:1x2 memory=1T" --model $small --batch 64 --set class.cpu.speed=1.005 \
  --set class.cpu.speed=1.1 --set class.cpu.speed=1.102 --json=table.json >table.txt
grep -q '^ *set class.cpu.speed=1.005 .* tie with row 1 ' table.txt || fail "$(cat table.txt)"
! grep -q '^ *set class.cpu.speed=1.1 .* tie' table.txt || fail "$(cat table.txt)"
grep -q '^ *set class.cpu.speed=1.102 .* tie with row 3 ' table.txt || fail "$(cat table.txt)"
[ "$(number 1 tie) $(number 2 tie) $(number 3 tie)" = "1  3" ] || fail "$(cat table.json)"
between "error" "$(number 0 error)" 0.1 1
between "error_below" "$(number 0 error_below)" 0 "$(number 0 error)"

# What does not fit says so in its row; where nothing fits, that is an error. Two models, a table each.
big="gpt2:layers=1,heads=2,embed=512,context=64,vocab=8192"
$MOTLEY whatif --cluster "cpu:1x2" --model $small --model $big --batch 8 --set class.cpu.memory=64MiB \
  --json=table.json >table.txt
[ "$(grep -c 'as it is' table.txt)" = 2 ] || fail "$(cat table.txt)"
grep -q '^ *set class.cpu.memory=64MiB *2 *none: see \[1\]$' table.txt || fail "$(cat table.txt)"
grep -q '^ *\[1\] .*fit into ' table.txt || fail "$(cat table.txt)"
grep -q '"refused": ".*memory' table.json || fail "$(cat table.json)"
[ "$(grep -c '"step_s"' table.json)" = 3 ] || fail "all of the small model and one of the big: $(cat table.json)"
$MOTLEY profile --describe cpu -o one.json >/dev/null
refused 2 "fit into " $MOTLEY whatif --cluster one.json --model gpt2:1558m --batch 8

# Of a plan: its model and job.
$MOTLEY plan --model $small --batch 12 --speeds 1,1 --seq 32 -o plan.json >/dev/null
$MOTLEY whatif --cluster cpu:1x2 --plan plan.json --add cpu >table.txt
grep -q '^gpt2:.*, 12 samples of 32 a step, f32$' table.txt || fail "$(cat table.txt)"

# Figures of a measured cluster are measured; of what is thought of, not; and of what was never measured, nominal.
$MOTLEY whatif --cluster "$SOURCE/tests/fuzz/corpus/cluster/slow_rank.json" --model $small --batch 8 --add class0 \
  --add t4 --json=table.json >table.txt
grep -q '"figures": "measured"' <<<"$(row 0)" || fail "$(cat table.json)"
grep -q '"figures": "thought of"' <<<"$(row 1)" || fail "$(cat table.json)"
grep -q '"figures": "nominal"' <<<"$(row 2)" || fail "$(cat table.json)"

# Refusals, before anything is planned.
ask="$MOTLEY whatif --cluster cpu:1x2 --model $small"
refused 2 "--cluster is missing" $MOTLEY whatif --model $small
refused 2 "what would it train? Name a model" $MOTLEY whatif --cluster cpu:1x2
refused 2 "--plan excludes --model" $ask --plan plan.json
refused 2 "there is no such file, and as a description of a cluster: \"cpv:2\": column 1" $MOTLEY whatif --cluster cpv:2 --model $small
refused 2 'add "2xgpu": "gpu" is neither a class of the cluster nor known hardware' $ask --add 2xgpu
refused 2 'remove "rank:2": "2" must be a rank, from 0 to 1' $ask --remove rank:2
refused 2 'set "link.net=1G": there is no link "net"' $ask --set link.net=1G
refused 2 '"swap cpu" is not understood' $ask --change "add cpu, swap cpu"
refused 2 '" " is not understood' $ask --change ""
refused 2 "--tokens: must be a number, as 300G, not \"many\"" $ask --tokens many
refused 2 "--limit: must be above 0" $ask --limit 0
refused 2 "there is no model" $MOTLEY whatif --cluster cpu:1x2 --model gpt9
price() { printf "$1" >wrong.csv; refused 2 "$2" $ask --prices wrong.csv; }
price 'class,price\ncpu,1\n' 'wrong.csv:1: the first line must be "class,price_per_hour"'
price 'class,price_per_hour\ncpu;1\n' 'wrong.csv:2: must be CLASS,PRICE, not "cpu;1"'
price 'class,price_per_hour\nt4,1\ncpu,1,2\n' 'wrong.csv:3: must be CLASS,PRICE'
price 'class,price_per_hour\ncpu,-1\n' 'wrong.csv:2: the price must be a number from 0 to 1e12, not "-1"'
price 'class,price_per_hour\ncpu,1\ncpu,2\n' 'wrong.csv:3: "cpu" has a price already'
price 'class,price_per_hour\n,1\n' 'wrong.csv:2: the class is empty'
price 'class,price_per_hour\n' 'wrong.csv: has no price'
price 'class,price_per_hour\nt4,1\n' 'wrong.csv: has no price for the class "cpu"'

# A rank that hurts is left out: without it, and without another that does, a step is no shorter.
$MOTLEY whatif --cluster "a10:1 net=1G + h100:1 + l4:1" --model gpt2:layers=4,heads=8,embed=512,context=256,vocab=1024 \
  --batch 8 --change "remove rank:2, remove rank:0" --json=table.json >table.txt
between "without what hurts" "$(ratio 1)" 0.999 1.001

# Clusters side by side: rows in their order, the first for the changes; the same hardware spelt otherwise is a tie.
$MOTLEY whatif --cluster "h100:1x2" --cluster "H100:2x2 net=400Gbps" --cluster "H100:1x2 nvlink=450GB/s" --model $small \
  --batch 64 --precision f16 --add h100 --json=table.json >table.txt
[ "$(grep -c '{"what"' table.json)" -eq 4 ] || fail "$(cat table.json)"
grep -q '^ *h100:1x2 *2 ' table.txt || fail "$(cat table.txt)"
grep -q '^ *H100:2x2 net=400Gbps *4 ' table.txt || fail "$(cat table.txt)"
[ "$(number 2 step_s) $(number 2 tie)" = "$(number 0 step_s) 1" ] || fail "$(cat table.json)"
grep -q '^ *add h100 *3 ' table.txt || fail "$(cat table.txt)"
refused 2 'a100-40 or a100-80?' $MOTLEY whatif --cluster "h100:1x2" --cluster "a100:2" --model $small --batch 64

# f32 where nobody said a precision: GPUs are much faster in others.
$MOTLEY whatif --cluster a10:1x2 --model $small --batch 8 >said.txt
has "^precision  f32, as none was given: in bf16 (--precision auto)" said.txt || fail "$(cat said.txt)"
