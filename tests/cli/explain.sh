#!/usr/bin/env bash
# motley explain: what binds, by what helps.
. "$SOURCE/tests/cli/lib.bash"
job="--model gpt2:layers=1,heads=2,embed=64,context=64,vocab=64 --batch 24 --steps 6"

# gain TEXT: the percentage in the row of the table of relaxed resources that begins so. saves TEXT: in that of
# bottlenecks.
gain() { sed -n '/^solved again/,$p' said.txt | sed -n "s/^  $1.*  \([-0-9.]*\)%$/\1/p" | head -1; }
saves() { sed -n '/^bottlenecks/,/^$/p' said.txt | sed -n "s/^  $1.*  \([-0-9.]*\)%$/\1/p" | head -1; }
more() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a > b + 0) }'; }
# explain CLUSTER BATCH MODEL [PLAN FLAG ...]
explain() {
  local cluster=$1 batch=$2 model=$3
  shift 3
  $MOTLEY plan --cluster "$cluster" --model "$model" --batch "$batch" --steps 6 "$@" -o plan.json >planned.txt
  $MOTLEY explain plan.json --cluster "$cluster" >said.txt
}
small=gpt2:layers=1,heads=2,embed=64,context=64,vocab=64

# Slow computing, a fast network: devices bind, and the faster class does most of the work.
explain "cpu:2 net=400G + cpu-avx512-4t:1" 24 $small --use all
grep -q '^A step is predicted to take .* tokens a second' said.txt || fail "$(cat said.txt)"
grep -q '^The lower bound is .*%: no plan for this model, .* is faster' said.txt || fail "$(cat said.txt)"
grep -q '^Rank [0-2] (cpu.* on .*) is the one that the others wait for' said.txt || fail "$(cat said.txt)"
grep -q '^The bottleneck is compute of cpu.*: one percent more of it saves' said.txt || fail "$(cat said.txt)"
grep -q '^bottlenecks (.* of [0-9]* resources, [0-9]* were tried)$' said.txt || fail "$(cat said.txt)"
grep -q '^  nothing more, shares solved again' said.txt || fail "$(cat said.txt)"
grep -q '^  10% more compute of cpu (ranks 0-1) ' said.txt || fail "$(cat said.txt)"
grep -q '^  10% more compute of cpu-avx512-4t (rank 2) ' said.txt || fail "$(cat said.txt)"
more "$(gain '10% more compute of cpu-avx512-4t')" 1 || fail "faster devices do not help: $(cat said.txt)"
more "$(gain '10% more compute of cpu-avx512-4t')" "$(gain 'link net')" || fail "the network binds: $(cat said.txt)"
grep -q '^binds      compute of cpu' planned.txt || fail "$(cat planned.txt)"

# The same devices behind a modem: the link binds. Left to itself, the plan does without.
slow="cpu-avx512:2 net=10M"
explain "$slow" 24 $small --use all --strategy data
cp plan.json link.json
more "$(gain 'link net')" 20 || fail "a faster network does not help: $(cat said.txt)"
more "$(gain 'link net')" "$(gain '10% more compute')" || fail "$(cat said.txt)"
more "$(saves 'link net')" 0.4 || fail "$(cat said.txt)"
grep -q '^The bottleneck is link net: one percent more of it saves' said.txt || fail "$(cat said.txt)"
grep -q '^binds      link net: ' planned.txt || fail "$(cat planned.txt)"
explain "$slow" 24 $small
grep -q '^The bottleneck is compute of cpu-avx512 ' said.txt || fail "$(cat said.txt)"
! grep -q 'link net' said.txt || fail "no message crosses the network: $(cat said.txt)"

grep -q '^Rank [01] (cpu-avx512 on node[01]) takes part alone: it computes for .*%)\.$' said.txt || fail "$(cat said.txt)"

# What a person leaves out is not in the space of the plan's bound; explain's is of all devices.
explain "cpu:1 + cpu-avx512-4t:1" 24 $small --use 0
grep -q '^bound .* over any of these devices and overlaps no GEMM, but for those left out by --use, is faster$' planned.txt || fail "$(cat planned.txt)"
grep -q '^The lower bound .* over any of these devices and overlaps no GEMM is faster.$' said.txt || fail "$(cat said.txt)"

# One host sends slowly: that direction of it binds, and more of the link as such helps nothing.
explain "cpu-avx512:1 net=1G egress=10M + cpu-avx512:1" 24 $small --use all --strategy data
grep -q '^The bottleneck is egress of host node0: ' said.txt || fail "$(cat said.txt)"
! more "$(saves 'link net')" 0.05 || fail "the link is named: $(cat said.txt)"

# The network does not bind: from 35G to 110G the step is the same, and it is not named.
for net in 35G 110G; do
  explain "a100-80:1x2 net=$net + v100:1x4 + t4:1x8" 128 gpt2:layers=3,heads=16,embed=1024 --hypothetical
  grep -q '^The bottleneck is compute of ' said.txt || fail "net=$net: $(cat said.txt)"
  grep -q '^binds      compute of ' planned.txt || fail "net=$net: $(cat planned.txt)"
  sed -n 's/.*"step_s": \([0-9.e+-]*\),$/\1/p' plan.json | head -1 >step.$net
done
awk -v a="$(cat step.35G)" -v b="$(cat step.110G)" 'BEGIN { exit !(a / b < 1.02) }' || fail "$(cat step.35G step.110G)"

# told KIND WORD TEXT: the program's row of a kind of layer has that.
told() {
  sed -n '/^what the program does/,/^$/p' said.txt |
    awk -v kind="$1" -v word="$2" '/^  [^ ]/ { name = $0; sub(/^  /, "", name); sub(/  .*/, "", name) }
      name == kind { row = $0; sub(/^  [^ ].*  +divided /, "divided ", row); sub(/^ */, "", row)
        if (index(row, word " ") == 1) { sub(/^[a-z]+ */, "", row); print row } }' |
    has -xF -- "$3" || fail "$1, $2 is not '$3': $(cat said.txt)"
}
beside() { grep -q "^  $1: $2" said.txt || fail "$1 is not '$2': $(cat said.txt)"; }

# What is divided, what moves, where state is. Data parallelism: gradients of 65 KiB of attention, weights everywhere.
explain "$slow" 24 $small --use all --strategy data
told 'attention of 1 layer' divided 'batch over 2 ranks (12 each)'
told 'attention of 1 layer' gradients 'AllReduce over 2 ranks, 65.0 KiB a layer' # (3 + 1) 64 x 64 weights, 4 64 biases, f32
told 'mlp of 1 layer' state 'on every rank'
beside data 'is this program$'
beside zero3 '[0-9.]*% slower (.* ms): gathers of weights over net take [0-9.]* ms more$'
beside tensor '[0-9.]*% faster (.* ms): sums of gradients over net take [0-9.]* ms less$'
# Tensor parallelism, over all ranks: an AllReduce of 128 x 2048 bf16 in each direction.
explain h100:1x4 1 gpt2:layers=3,heads=16,embed=2048,context=128,vocab=1024 --precision bf16 --use all
told 'attention of 3 layers' divided 'heads over 4 ranks (4 each)'
told 'attention of 3 layers' forward 'AllReduce over 4 ranks, 512 KiB a layer'
told 'attention of 3 layers' backward 'AllReduce over 4 ranks, 512 KiB a layer'
told 'mlp of 3 layers' divided 'ffn over 4 ranks (2048 each)'
told 'mlp of 3 layers' forward 'AllReduce over 4 ranks, 512 KiB a layer'
beside zero1 '[0-9.]* times as long (.* ms): sums of gradients over nvlink take [0-9.]* ms more$'
# Hybrid sharding: samples over all, shares within each host, sums over hosts.
explain "h100:2x2 net=100G" 16 gpt2:layers=2,heads=4,embed=256,context=64,vocab=512 --use all --strategy hybrid
told 'mlp of layer 0' divided 'batch over 4 ranks (4 each)'
told 'mlp of layer 0' state 'in shares: ffn over the devices of each host (512 each); in shares: embed over the devices of each host (128 each)'
told 'mlp of layer 0' weights 'AllGather over 2 devices of each host, 4.00 MiB a layer' # 2 x 256 x 1024 in f32, forward and backward
told 'mlp of layer 1' weights 'AllGather over 2 devices of each host, 2.00 MiB a layer' # the last layer's are kept
told 'mlp of layer 0' gradients 'ReduceScatter over 2 devices of each host, 2.00 MiB a layer; AllReduce over 2 hosts, 1.00 MiB a layer'
grep -q '^what the program does (weights .* are gathered for each layer)$' said.txt || fail "$(cat said.txt)"
beside hybrid 'is this program$'
# Memory: who lacks what.
explain cpu:1x4 64 mlp:layers=6,hidden=2048 --memory 260MiB --use all
beside data 'does not fit: rank 0 needs [0-9.]* MiB of 260 MiB$'

# Another cluster's plan, no plan, no cluster.
refused 2 "link.json: cluster_hash: the plan was made for another cluster" $MOTLEY explain link.json --cluster cpu:2
$MOTLEY plan $job --ranks 2 -o speeds.json >said.txt
refused 2 "speeds.json: was made for no cluster" $MOTLEY explain speeds.json --cluster "$slow"
refused 2 "explain what? Name a plan" $MOTLEY explain --cluster "$slow"
refused 2 "--cluster is missing" $MOTLEY explain link.json
refused 2 "one plan at a time" $MOTLEY explain link.json speeds.json --cluster "$slow"
refused 2 "none.json: No such file" $MOTLEY explain none.json --cluster "$slow"
sed 's/"batch": 24/"batch": 25/' link.json >edited.json
refused 2 "edited.json: " $MOTLEY explain edited.json --cluster "$slow"
