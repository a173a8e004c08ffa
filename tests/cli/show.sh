#!/usr/bin/env bash
# motley show: a plan's tables, its program for one rank and all, and graphs.
. "$SOURCE/tests/cli/lib.bash"
small="--model gpt2:layers=1,heads=2,embed=16,context=8,vocab=40"
$MOTLEY plan $small --speeds 2,1 --hosts big,small --batch 6 --micro 2 --storage split --memory 1GiB -o plan.json >/dev/null

$MOTLEY show plan.json | tr -s ' ' >plan.txt
grep -q '^ 0 big 2 4 66.7% 2 x 2 .* 1.00 GiB$' plan.txt || fail "$(cat plan.txt)"
grep -q '^ 1 small 1 2 33.3% 1 x 2 ' plan.txt || fail "$(cat plan.txt)"
grep -q '^ all 40 100.0%' plan.txt || fail "$(cat plan.txt)"
grep -q '^ ReduceScatter auto gradients as f32, summed in f32$' plan.txt || fail "$(cat plan.txt)"

# The program: whole, of one rank, and as the rank's device runs it.
$MOTLEY show program plan.json >program.txt
for word in ReduceScatter AllGather h.0.mlp.c_fc h.0.attn.c_attn/grad adamw; do
  grep -qi -- "$word" program.txt || fail "no $word in the program"
done
$MOTLEY show program plan.json --rank 1 >one.txt
! cmp -s program.txt one.txt || fail "one rank is all ranks"
$MOTLEY show program plan.json --rank 1 --lowered >lowered.txt
grep -q 'ReduceScatter' lowered.txt || fail "no ReduceScatter in the lowered program"
# Addresses are those that the plan counts on: a plan for GPUs is lowered for GPUs.
$MOTLEY plan $small --speeds 2,1 --batch 6 --precision bf16 --device cuda -o gpus.json >/dev/null
$MOTLEY show program gpus.json --lowered >lowered.txt
[ "$(grep -o ' arena [0-9]*' lowered.txt | grep -o '[0-9]*')" = "$(grep -o '"arena_bytes": [0-9]*' gpus.json | grep -o '[0-9]*$')" ] ||
  fail "not the plan's memory: $(grep arena lowered.txt gpus.json)"

# Of many ranks, equal ones share a section.
ones=$(printf '1,%.0s' {1..39})
$MOTLEY plan $small --speeds "${ones}0.5" --batch 79 -o many.json >/dev/null
$MOTLEY show program many.json --lowered >lowered.txt
grep instructions lowered.txt | awk '{ n += $1 == "rank" ? 1 : $1 } END { exit !(n == 40 && NR < 10) }' || fail "$(grep instructions lowered.txt)"
grep -q '^[0-9]* ranks, [0-9 -]*, whose values have the same sizes; addresses are those of rank 0: [0-9]* instr' lowered.txt ||
  fail "$(grep instructions lowered.txt)"
grep -q '^rank 39: [0-9]* instr' lowered.txt || fail "$(grep instructions lowered.txt)"
$MOTLEY show program many.json --rank 7 --lowered | has '^rank 7: ' || fail "rank 7"

refused 2 "--rank: is 2, but the plan's ranks are 0 to 1" $MOTLEY show program plan.json --rank 2

# The graph of a plan is the graph of its model and job.
$MOTLEY show graph plan.json >graph.txt
$MOTLEY show graph $small --batch 6 --seq 8 >same.txt
cmp graph.txt same.txt

# Layouts by kind of layer: what is divided over what, equal layers once, and what collectives move of each.
layered="--model gpt2:layers=3,heads=2,embed=16,context=8,vocab=40 --batch 8"
$MOTLEY plan $layered --hosts a,a,b,b --shares 3,2,2,1 --storage 'h.1.*=replicated' --storage split -o layers.json >said.txt
$MOTLEY show layouts layers.json | tr -s ' ' >layouts.txt
for line in 'wte embedding' 'h.0,2.attn attention, 2 layers' 'h.1.attn attention' 'h.0,2.mlp mlp, 2 layers' 'ln_f norm' 'lm_head head' \
  ' c_fc.weight [embed | ffn/4] [embed | ffn] [embed | ffn] sum/4' ' c_fc.weight [embed | ffn] [embed | ffn] [embed | ffn] sum/4' \
  ' attn activation [batch/4~ | seq | heads | headsize]' ' AllGather of weights: 4 ranks (all), 8.31 KiB a layer'; do
  shows "$line" layouts.txt
done
# The bytes are those of the program's collectives.
$MOTLEY show program layers.json >program.txt
awk 'FNR == NR { if ($0 ~ /^  (AllGather|ReduceScatter|AllReduce)/) all += $(/ sum:/ ? 5 : 4); next }
  /^[a-z]/ { layers = match($0, /, [0-9]+ layers/) ? substr($0, RSTART + 2) + 0 : 1 }
  /^ (AllGather|ReduceScatter|AllReduce) of/ { unit = $0 ~ /KiB/ ? 1024 : $0 ~ /MiB/ ? 1048576 : 1
    match($0, /[0-9.]+ [KM]?i?B/); sum += layers * unit * substr($0, RSTART) }
  END { off = sum / all - 1; print sum " bytes, not " all; exit !(all > 0 && off * off < 1e-4) }' program.txt layouts.txt ||
  fail "$(cat layouts.txt)"
refused 2 "--rank and --lowered are for" $MOTLEY show layouts layers.json --rank 1

refused 2 "show what? Name a file" $MOTLEY show
refused 2 "nothing.json: No such file or directory" $MOTLEY show nothing.json
echo '{"format": "recipe"}' >other.json
refused 2 "other.json: is a \"recipe\", which is not known here" $MOTLEY show other.json
echo '{"format": "motley-plan", "format": "x"}' >twice.json
refused 2 "twice.json:1:" $MOTLEY show twice.json
refused 2 "--rank and --lowered are for" $MOTLEY show plan.json --rank 1
refused 2 "--model and the job's flags are for" $MOTLEY show plan.json --batch 3

# Too little memory for a document is said.
if ! sanitized; then
  awk 'BEGIN { print "{\"format\": \"motley-plan\", \"x\": ["; for (i = 0; i < 3000000; i++) print "[1, 2],"; print "0]}" }' >large.json
  code=0
  (ulimit -v 400000; exec $MOTLEY show large.json) >out.txt 2>err.txt || code=$?
  [ $code = 1 ] || fail "code $code: $(cat err.txt)"
  grep -q '^motley: out of memory' err.txt || fail "out of memory is said as: $(cat err.txt)"
fi
