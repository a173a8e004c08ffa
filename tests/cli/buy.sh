#!/usr/bin/env bash
# motley buy: a purchase is printed, written, shown and compared; its best cluster can be planned; refusals name the flag.
. "$SOURCE/tests/cli/lib.bash"
job="model=gpt2:layers=1,heads=8,embed=1024,context=128,vocab=2048 batch=64 steps=500 precision=f16"
printf 'name,based_on,devices,price,net\nbig,H100,2,60k,100Gbps\nsmall,l4,1,3000,25G\nt4,,1,,\n' >catalogue.csv

$MOTLEY buy --catalogue catalogue.csv --job "$job" --budget 70k --threads 1 -o purchase.json --write-cluster best.json \
  --json=tables.json >buy.txt
grep -q '^left out *t4: it has no price' buy.txt || fail "$(cat buy.txt)"
grep -q '^left out *p100, .*: known hardware, without a price' buy.txt || fail "$(cat buy.txt)"
grep -q 'NVIDIA H100 data sheet: SXM, max TDP 700 W' buy.txt || fail "no source of power: $(cat buy.txt)"
grep -qE '^planned *[0-9]+ of [0-9]+ configurations within the limits' buy.txt || fail "$(cat buy.txt)"
grep -q '^network *net=25.0 Gbit/s, as nothing else is given' buy.txt || fail "$(cat buy.txt)"
grep -q '^with more money' buy.txt || fail "$(cat buy.txt)"

# The document says what was printed, and nothing depends on the number of threads.
$MOTLEY show purchase.json >shown.txt
cmp buy.txt shown.txt || fail "show differs: $(diff buy.txt shown.txt)"
$MOTLEY buy --catalogue catalogue.csv --job "$job" --budget 70k --threads 3 -o again.json >/dev/null
cmp purchase.json again.json || fail "threads make a difference"

# The best is in the line, in the written cluster, and a plan for it takes as long as its row says.
line=$(sed -n 's/^plan it *motley plan --cluster "\(.*\)"$/\1/p' buy.txt)
[ -n "$line" ] || fail "no line: $(cat buy.txt)"
for cluster in "$line" best.json; do
  $MOTLEY plan --cluster "$cluster" --model gpt2:layers=1,heads=8,embed=1024,context=128,vocab=2048 --batch 64 \
    --precision f16 -o plan.json >plan.txt
done
step=$(sed -n 's/.*"step_s": \([0-9.e-]*\).*/\1/p' purchase.json | head -1)
planned=$(sed -n 's/.*"step_s": \([0-9.e-]*\).*/\1/p' plan.json | head -1)
awk -v a="$step" -v b="$planned" 'BEGIN {exit !(b <= a * 1.01 && b > a * 0.5)}' || fail "planned $planned, judged $step"

# With more money nothing is worse; a document that was changed is refused.
$MOTLEY buy --catalogue catalogue.csv --job "$job" --budget 130k -o more.json >/dev/null
first() { grep -o '"time_s": [0-9.e-]*' "$1" | head -1 | cut -d' ' -f2; }
awk -v a="$(first purchase.json)" -v b="$(first more.json)" 'BEGIN {exit !(b <= a)}' || fail "more money is slower"
code=0
$MOTLEY diff purchase.json more.json >diff.txt || code=$?
[ $code -eq 1 ] || fail "diff ended with $code"
grep -q '^ *budget *70000.00 *130000.00' diff.txt || fail "$(cat diff.txt)"
sed 's/"budget": 70000/"budget": 80000/' purchase.json >changed.json
refused 2 'hash: does not fit' $MOTLEY show changed.json

# What is owned is there for nothing, and may be as good as anything.
$MOTLEY buy --own "l4:1x2" --catalogue catalogue.csv --job "$job" --budget 3k >own.txt
grep -q '^owned *l4:1x2 (2 devices on 1 node)' own.txt || fail "$(cat own.txt)"
grep -q ' what is owned ' own.txt || fail "$(cat own.txt)"

# Where rack units are limited, what does not say its own is left out; what has none says 0.
racks=(buy --job "model=mlp:tiny batch=8 steps=10 precision=f32" --item "name=big based_on=h100 price=2 rack_units=4"
  --item "name=unknown based_on=a100-40 price=1" --item "name=l4 price=1 rack_units=0" --budget 8)
$MOTLEY "${racks[@]}" --rack-units 8 >racks.txt
grep -q '^left out *unknown: rack units are limited, and its rack_units are not known' racks.txt || fail "$(cat racks.txt)"
! grep -q 'left out *l4:' racks.txt || fail "$(cat racks.txt)"
$MOTLEY "${racks[@]}" | has '^left out *unknown:' && fail "rack units are not limited, and it is left out"
refused 2 'unknown: rack units are limited, and its rack_units are not known' $MOTLEY buy --job "model=mlp:tiny batch=8 steps=10" \
  --item "name=unknown based_on=l4 price=1" --budget 8 --rack-units 8
grep -q 'hint: give what is missing' err.txt || fail "$(cat err.txt)"

refused 2 'what would it train?' $MOTLEY buy --catalogue catalogue.csv
refused 2 'the catalogue is empty, and known hardware has no prices' $MOTLEY buy --job "$job" --budget 1k
refused 2 '--budget: is -5, but must be above 0' $MOTLEY buy --catalogue catalogue.csv --job "$job" --budget -5
refused 2 'price: must be 0 or more, not "-1"' $MOTLEY buy --item "name=l4 price=-1" --job "$job"
refused 2 '--max-devices:' $MOTLEY buy --catalogue catalogue.csv --job "$job" --max-devices 8000
refused 2 'no configuration is within the limits' $MOTLEY buy --catalogue catalogue.csv --job "$job" --budget 10
refused 2 'nothing of the catalogue is bought' $MOTLEY buy --item "name=l4 per_hour=1" --job "$job" --budget 2M
refused 2 'more than 4096 devices' $MOTLEY buy --own "h100:10000x8" --job "$job"
$MOTLEY buy --help | tr -s ' \n' '  ' >help.txt
grep -q 'at most 4096 \[512\]' help.txt || fail "limits: $(cat help.txt)"
grep -q 'net=RATE is in bits a second' help.txt || fail "the network's grammar: $(cat help.txt)"

# Rows have the steps that plan and whatif give their clusters, which leave out devices that slow the step: more devices
# make no job slower, and the row says which are idle.
job="gpt2:layers=2,heads=12,embed=768,context=1024,vocab=1024"
$MOTLEY buy --item "name=h100 devices=2 price=75k" --item "name=a10 devices=2 price=4k" --budget 160k --net 25G --max-nodes 2 \
  --next 1k --job "model=$job batch=12 steps=100 precision=bf16" -o idle.json >idle.txt
sed -n 's/^ *"cluster": "\(.*\)",$/\1/p' idle.json >lines.txt
sed -n 's/^ *{"step_s": \([0-9.e-]*\),.*/\1/p' idle.json | paste - lines.txt >rows.txt
[ "$(wc -l <rows.txt)" = 6 ] || fail "not five rows, and one for more money: $(cat idle.json)"
while IFS=$'\t' read -r step line; do
  $MOTLEY plan --cluster "$line" --model $job --batch 12 --precision bf16 -o row.json >row.txt
  awk -v a="$step" -v b="$(sed -n 's/.*"step_s": \([0-9.e-]*\),$/\1/p' row.json | head -1)" 'BEGIN { exit !(a == b) }' ||
    fail "$line: a step of $step, and by its plan: $(cat row.txt)"
done <rows.txt
grep -q '2 h100 .* tie with 1, 2 idle' idle.txt || fail "nothing is idle: $(cat idle.txt)"
