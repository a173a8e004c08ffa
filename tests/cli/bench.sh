#!/usr/bin/env bash
# motley bench: what it refuses; all benchmarks on CPUs, alone and with two ranks; the JSON has what is printed.
. "$SOURCE/tests/cli/lib.bash"
model=gpt2:layers=1,heads=2,embed=32,context=16,vocab=64
bench="$MOTLEY bench --seconds 0.002 --model $model"
# The rows of one table of the JSON, a line each; a number of a row, in awk.
rows() { sed -n "/^  \"$2\": \[/,/^  \]/p" "$1" | grep '^    {'; }
get='function get(key) { match($0, "\"" key "\": [^,}]*"); return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) + 0 }'

refused 2 'benchmark: "everything" is not known here' $MOTLEY bench everything
has 'operators, attention, collectives, step' err.txt || fail "$(cat err.txt)"
refused 2 'batch: is 0' $bench step --batch 0
refused 2 'is not a kind of device' $bench --device abacus
refused 2 'nowhere/b.json' $bench step --json=nowhere/b.json
refused 2 'seconds' $bench --seconds 0
refused 2 'gpt3' $MOTLEY bench step --model gpt3

$bench operators step --batch 4 --json=one.json >out.txt 2>&1 || fail "$(cat out.txt)"
has 'fused_matmul' out.txt && has 'training step' out.txt || fail "$(cat out.txt)"
rows one.json operators >ops.txt
for kind in matmul fused_matmul attention attention_grad adamw layer_norm_grad; do
  has "\"operator\": \"$kind\"" ops.txt || fail "no $kind: $(cat ops.txt)"
done
# A GEMM's rate is that of 2 m n k operations.
awk "$get"'/"operator": "matmul"/ {
  n++; off = get("flops") * get("time_s") / (2 * get("rows") * get("dim0") * get("dim1")) - 1
  if (off * off > 1e-12) exit 1 } END { exit !n }' ops.txt || fail "$(cat ops.txt)"
rows one.json step | awk "$get"'{ exit !(get("batch") == 4 && (get("tokens_per_s") * get("step_s") - 64) ^ 2 < 1e-9) }' ||
  fail "$(cat one.json)"
has '"collectives"\|"attention": \[' one.json && fail 'it ran what was not asked for'

mpirun --oversubscribe -n 2 $bench collectives step --json=two.json >out.txt 2>&1 || fail "$(cat out.txt)"
has 'AllReduce' out.txt || fail "$(cat out.txt)"
rows two.json collectives >colls.txt
# What a rank of two must send of a message.
awk "$get"'BEGIN { p["AllReduce"] = 1; p["ReduceScatter"] = p["AllGather"] = 0.5; p["Broadcast"] = 1; p["AllToAll"] = 0.25 }
  { for (kind in p) if ($0 ~ "\"kind\": \"" kind "\"") { seen[kind]++; off = get("bus_Bps") / get("bandwidth_Bps") - p[kind]
      if (off * off > 1e-12) exit 1 } }
  END { for (kind in p) if (!seen[kind]) exit 1 }' colls.txt || fail "$(cat colls.txt)"
rows two.json step | awk "$get"'{ exit !(get("ranks") == 2 && get("batch") == 16) }' || fail "$(cat two.json)"
refused 2 'collectives: there is one rank, and nothing to communicate' $bench collectives
refused 2 'hint: `mpirun -n N motley bench collectives` has several' $bench step collectives
$bench >out.txt 2>&1 || fail "$(cat out.txt)"
has 'there is one rank' out.txt || fail "$(cat out.txt)"
$MOTLEY bench --help | tr -s ' \n' ' ' | has -F -- '--batch=B samples per step, over all ranks [16 for each GPU, 8 for each rank on CPUs]' || fail "--batch"
