#!/usr/bin/env bash
# motley sample: a model that has learned a pattern writes it, past its context; choices follow the seed.
. "$SOURCE/tests/cli/lib.bash"
# 13 characters, so that windows of 32 begin at any of them
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "hello, %s\n", "world" }' >text.txt
$MOTLEY plan --model gpt2:layers=1,heads=2,embed=32,context=32,vocab=256 --ranks 1 --batch 8 --steps 150 --lr 0.01 \
  --warmup 5 -o plan.json
$MOTLEY train plan.json --data text.txt --out run >train.txt 2>&1
$MOTLEY sample run --prompt hello --tokens 100 --temperature 0 >said.txt
head -c 105 text.txt >want.txt
head -c 105 said.txt | cmp - want.txt || fail "$(cat said.txt)"
[ "$(wc -c <said.txt)" = 106 ] || fail "$(wc -c <said.txt) bytes"
$MOTLEY sample run/step-00000150.safetensors --prompt w --tokens 5 --temperature 0.5 --top-k 1 >said.txt
[ "$(head -n 1 said.txt)" = world ] || fail "$(cat said.txt)"

# A hot temperature makes choices: the seed decides them.
hot="sample run --prompt h --tokens 30 --temperature 30"
$MOTLEY $hot --seed 7 >a.txt && $MOTLEY $hot --seed 7 >b.txt && $MOTLEY $hot --seed 8 >c.txt
cmp a.txt b.txt
! cmp -s a.txt c.txt || fail "two seeds, one text"

# A window model, and a vocabulary that is not bytes.
$MOTLEY plan --model mlp:context=6,embed=16,hidden=64 --ranks 1 --batch 64 --steps 150 --lr 0.01 -o mlp.json
$MOTLEY train mlp.json --data text.txt --out mlp >train.txt 2>&1
$MOTLEY sample mlp --prompt "hello, w" --tokens 40 --temperature 0 >said.txt
head -c 48 said.txt | cmp - <(head -c 48 text.txt) || fail "$(cat said.txt)"
$MOTLEY plan --model gpt2:layers=1,heads=2,embed=16,context=8,vocab=300 --ranks 1 --batch 4 --steps 1 -o big.json
$MOTLEY train big.json --data text.txt --out big >train.txt 2>&1
$MOTLEY sample big --prompt 104,101 --tokens 4 >said.txt
grep -q '^104 101 [0-9]* [0-9]* [0-9]* [0-9]* $' said.txt || fail "$(cat said.txt)"

refused 2 "this model's tokens are numbers from 0 to 299" $MOTLEY sample big --prompt hello
refused 2 "sample from what?" $MOTLEY sample
refused 2 "--temperature: must not be negative" $MOTLEY sample run --temperature -1
refused 2 "No such file" $MOTLEY sample no/such
refused 2 "no safetensors file" $MOTLEY sample text.txt
refused 2 "plan.json: no safetensors file, but JSON" $MOTLEY sample plan.json
# A prompt with spaces, without quotes.
refused 2 '"the" is an extra word' $MOTLEY sample run --prompt In the beginning
refused 2 'a prompt with spaces needs quotes' $MOTLEY sample run --prompt In the beginning
refused 2 'a prompt with spaces needs quotes' $MOTLEY sample --prompt In the
