#!/usr/bin/env bash
# Llamas end to end: plans by name and by parameters, with what they say of the model; three uneven ranks that divide
# query heads of which all share one head of keys train as one rank does; and a model that has learned a pattern
# writes it.
. "$SOURCE/tests/cli/lib.bash"
seq 1 1500 | tr '\n' ' ' >text
numbers() { tr -d '\n ' <"$2/run.json" | grep -o "\"$1\":\[[^]]*\]" | grep -o '[0-9.e-]*' | grep '[0-9]'; }

$MOTLEY plan --model llama3-8b,layers=2 --cluster h100:1x4 --seq 512 --batch 8 --precision bf16 -o big.json >said.txt 2>&1 ||
  fail "$(cat said.txt)"
$MOTLEY show big.json >said.txt 2>&1 || fail "$(cat said.txt)"
grep -q '^model *llama:layers=2,heads=32,kv_heads=8,embed=4096,headsize=128,ffn=14336,' said.txt || fail "$(cat said.txt)"
$MOTLEY verify big.json --small --steps 1 >said.txt 2>&1 || fail "$(cat said.txt)"
$MOTLEY plan --models >said.txt
for size in llama2-7b llama3-70b llama3.2-1b tinyllama-1.1b mistral-7b qwen2-0.5b; do
  grep -q "^  $size  *layers=" said.txt || fail "no $size: $(cat said.txt)"
done

# One head of keys for five query heads, over three ranks: tensors, and by samples, against one rank.
model=llama:layers=2,heads=5,kv_heads=1,embed=20,headsize=4,ffn=40,context=16,vocab=256,window=6,qkv_bias=1,eps=1e-6
job="--batch 6 --steps 4 --lr 0.01 --clip 0.5 --seed 7 --precision f64"
$MOTLEY plan --model $model $job -n 1 -o alone.json >/dev/null
$MOTLEY train alone.json --data text --out alone >said.txt 2>&1 || fail "$(cat said.txt)"
for strategy in tensor zero3; do
  $MOTLEY plan --cluster cpu:1x3 --model $model $job --strategy $strategy --use all -o made.json >said.txt 2>&1 ||
    fail "$strategy: $(cat said.txt)"
  sed "s/\"node0\"/\"$(hostname)\"/" made.json >$strategy.json
  $MOTLEY plan --check $strategy.json -o $strategy.json >said.txt 2>&1 || fail "$strategy: $(cat said.txt)"
  $MOTLEY verify $strategy.json --steps 2 >said.txt 2>&1 || fail "$strategy: $(cat said.txt)"
  mpirun -n 3 $MOTLEY train $strategy.json --data text --out $strategy >said.txt 2>&1 || fail "$strategy: $(cat said.txt)"
  grep -q "parameter hashes equal on 3 ranks" said.txt || fail "$strategy: $(cat said.txt)"
  "$COMPARE" $strategy/step-00000004.safetensors alone/step-00000004.safetensors 0.2 >said.txt ||
    fail "$strategy: $(cat said.txt)"
  paste -d ' ' <(numbers losses $strategy) <(numbers losses alone) | awk '
    { d = ($1 - $2) / $2; if (d < 0) d = -d; if (!(d < 1e-11)) { print; bad = 1 } } END { exit bad || !NR }' ||
    fail "$strategy: other losses than one rank"
done
$MOTLEY show tensor.json >said.txt || fail "$(cat said.txt)"
grep -q 'self_attn\* *split by queries' said.txt || fail "query heads are not divided: $(cat said.txt)"

# 13 characters, so that windows of 32 begin at any of them; the model writes past its context.
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "hello, %s\n", "world" }' >text.txt
$MOTLEY plan --model llama:layers=1,heads=4,kv_heads=2,embed=32,ffn=64,context=32,vocab=256 --ranks 1 --batch 8 \
  --steps 150 --lr 0.01 --warmup 5 -o plan.json >/dev/null
$MOTLEY train plan.json --data text.txt --out run >train.txt 2>&1 || fail "$(cat train.txt)"
$MOTLEY sample run --prompt hello --tokens 100 --temperature 0 >said.txt
head -c 105 said.txt | cmp - <(head -c 105 text.txt) || fail "$(cat said.txt)"
