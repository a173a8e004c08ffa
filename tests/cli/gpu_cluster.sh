#!/usr/bin/env bash
# GPUs without GPUs: a measured cluster is shown, planned for, changed and compared where there is neither CUDA nor a GPU.
. "$SOURCE/tests/cli/lib.bash"
cluster=$SOURCE/tests/fuzz/corpus/cluster/h100_pair.json # the second with 72 of its 132 multiprocessors
job=(--model gpt2:124m,vocab=50304 --batch 56 --steps 10 --precision bf16)

$MOTLEY show "$cluster" >shown.txt
shows "nodes (network: -; NCCL 2.28.9)" shown.txt
grep -qE '^ *a +2 +32 +252 GiB +nvlink +580' shown.txt || fail "no driver: $(cat shown.txt)"
shows " rank node class speed +- emulated memory" shown.txt
grep -qE '^ *1 +0000:00:07.0 +9.0 .* 1.98 GHz +1.98 GHz +2.62 GHz +2.62 GHz' shown.txt || fail "no clocks: $(cat shown.txt)"
grep -qE '^ *h100-72sm +cuda +NVIDIA H100 80GB HBM3 +72 ' shown.txt || fail "no class: $(cat shown.txt)"
grep -qE '^ *nvlink .* 389 GB/s +measured' shown.txt || fail "no copy engines: $(cat shown.txt)"

# The plan says what it is for; it is predicted from the job's own layers, and uneven.
$MOTLEY plan --cluster "$cluster" "${job[@]}" -o plan.json >planned.txt
grep -q '"device": "cuda"' plan.json || fail "a plan for no GPU: $(cat plan.json)"
step=$(grep -o '"step_s": [0-9.e-]*' plan.json | head -n 1 | cut -d' ' -f2)
awk -v s="$step" 'BEGIN { exit !(s > 0.060 && s < 0.080) }' || fail "a step of $step s"
$MOTLEY show plan.json >plan.txt
shows "devices cuda" plan.txt
grep -q 'full buckets start with attention' plan.txt || fail "$(cat plan.txt)"
$MOTLEY verify --small plan.json >verified.txt || fail "$(cat verified.txt)"
grep -qE '^ *0 +a +h100 .* 3[2-6] +[56][0-9]\.[0-9]%' plan.txt || fail "$(cat plan.txt)"
grep -qE '^ *even shares +[78][0-9].*slower' plan.txt || fail "$(cat plan.txt)"
! grep -qE 'AllReduce +(direct|tree)' plan.txt || fail "the plan chose algorithms for NCCL: $(cat plan.txt)"
$MOTLEY explain plan.json --cluster "$cluster" >explained.txt
grep -q 'compute of h100' explained.txt || fail "$(cat explained.txt)"

# Memory is planned as GPUs' operators want it: with cuBLASLt's workspace, whether a cluster is known or not.
$MOTLEY plan --device cuda --ranks 1 --model gpt2:124m,vocab=50304 --batch 32 --precision bf16 -o alone.json >/dev/null
bytes=$(grep -o '"arena_bytes": [0-9]*' alone.json | cut -d' ' -f2) # trained so on a GPU, with 14857 MiB in use
awk -v b="$bytes" 'BEGIN { exit !(b > 14e9 && b < 16e9) }' || fail "$bytes bytes"
refused 2 '--device: --cluster says that' $MOTLEY plan --device cuda --cluster "$cluster" "${job[@]}" -o no.json
refused 2 '--device: "abacus" is not a kind of device (cpu, cuda)' $MOTLEY plan --device abacus --ranks 1 "${job[@]}" -o no.json

# Training takes the kind from the plan, and a cluster's plan goes nowhere else.
seq 1 100000 >text.txt
refused 2 "--device cpu: plan.json was made for a cluster of kind cuda" $MOTLEY train plan.json --device cpu --data text.txt
if ! $MOTLEY train alone.json --steps 0 --data text.txt >out.txt 2>err.txt; then
  grep -q -- '--device cuda: ' err.txt || fail "training did not look for a GPU: $(cat err.txt)"
fi

# More of them, described ones with them, and CPUs, which no job can mix with them.
$MOTLEY whatif --cluster "$cluster" "${job[@]:0:4}" --precision bf16 --add 2xh100@a --json=table.json >table.txt
grep -q 'add 2xh100@a *4 ' table.txt || fail "$(cat table.txt)"
refused 2 'rank 1 of h100:1 + cpu:1 net=10G is of kind cpu, but rank 0 of kind cuda' \
  $MOTLEY plan --cluster "h100:1 + cpu:1 net=10G" "${job[@]}" -o no.json
$MOTLEY diff "$cluster" "$cluster" >same.txt
grep -q 'say the same' same.txt || fail "$(cat same.txt)"
refused 2 '--device: "abacus" is not a kind of device' $MOTLEY profile --device abacus
