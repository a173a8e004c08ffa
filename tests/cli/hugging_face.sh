#!/usr/bin/env bash
# Models and weights in Hugging Face folders, in and out. tests/cli/folders/ has tiny models that transformers 5.23 wrote,
# with random weights in f32, bf16 and f16, and the loss that it computes in f64 for the bytes of `seq 1 300`, in windows
# of 16; but its norms and angles of Llamas are in f32 always.
. "$SOURCE/tests/cli/lib.bash"
folders=$SOURCE/tests/cli/folders
seq 1 300 >text.txt
loss_of() { sed -n "s/^ *{\"step\": $2, \"loss\": \(.*\)}.*/\1/p" "$1/run.json"; }
near() { awk -v a="$1" -v b="$2" -v tol="$3" 'BEGIN { d = a / b - 1; exit !(a != "" && b > 0 && d * d < tol * tol) }'; }

# The loss is that of transformers, on three uneven ranks; the run's folder has the same loss after --init, though not the
# optimizer's state; and its config.json is of the same model.
for model in "$folders"/*/; do
  name=$(basename "$model")
  $MOTLEY plan --model "$model" --seq 16 --shares 5,0,3 --batch 8 --precision f64 --dropout 0 --steps 20 --lr 0.01 \
    --storage split -o "$name.json" 2>plan.txt || fail "$name: $(cat plan.txt)"
  train() { mpirun -n 3 $MOTLEY train "$name.json" --data text.txt --val text.txt "$@" >out.txt 2>&1 || fail "$name: $(cat out.txt)"; }
  train --init "$model" --steps 0 --out "$name.0"
  near "$(loss_of "$name.0" 0)" "$(cat "$model/expected_loss")" $([ "$name" = gpt2 ] && echo 1e-12 || echo 1e-6) ||
    fail "$name: loss $(loss_of "$name.0" 0), but transformers computes $(cat "$model/expected_loss")"
  train --init "$model" --out "$name.20"
  train --init "$name.20" --steps 0 --out "$name.again"
  near "$(loss_of "$name.again" 0)" "$(loss_of "$name.20" 20)" 1e-13 || fail "$name: another loss after --init of the run"
  $MOTLEY plan --model "$name.20/" --seq 16 --shares 5,0,3 --batch 8 --precision f64 --dropout 0 --steps 20 --lr 0.01 \
    --storage split -o - 2>plan.txt | cmp - "$name.json" || fail "$name: its own config.json is of another plan: $(cat plan.txt)"
done

# Text from a folder: the tokens that transformers finds likeliest after "123".
for model in "$folders"/*/; do
  $MOTLEY sample "$model" --prompt 123 --tokens 12 --temperature 0 >sample.txt || fail "$model"
  [ "$(head -c 15 sample.txt | od -An -v -tu1 | xargs)" = "$(cat "$model/greedy")" ] || fail "$model: other tokens: $(od -tu1 sample.txt)"
done

# Text ends with the token that config.json says.
cp -r "$folders/llama" ends && chmod -R u+w ends
read -ra ids <ends/greedy
sed -i "s/\"eos_token_id\": [0-9]*/\"eos_token_id\": [255, ${ids[5]}]/" ends/config.json
$MOTLEY sample ends --prompt 123 --tokens 12 --temperature 0 >sample.txt || fail "$(cat sample.txt)"
for i in "${!ids[@]}"; do [ "$i" -gt 2 ] && [ "${ids[i]}" = "${ids[5]}" ] && break; done
[ "$(od -An -v -tu1 sample.txt | xargs)" = "${ids[*]:0:i} 10" ] || fail "$(od -An -v -tu1 sample.txt), not ${ids[*]:0:i} and the end"

# A folder with a name that is a model's as well.
cp -r "$folders/llama" tiny
refused 2 '--model tiny: is a known model, and a folder' $MOTLEY plan --model tiny --ranks 1 --batch 2 --seq 16 -o both.json
$MOTLEY plan --model ./tiny --ranks 1 --batch 2 --seq 16 -o both.json >said.txt 2>&1 || fail "$(cat said.txt)"

# What is loaded besides, of another model, or not there.
gpt2=$folders/gpt2
cp -r "$gpt2" mine && chmod -R u+w mine
plan() { $MOTLEY plan --ranks 1 --batch 2 --seq 16 --steps 1 -o plan.json "$@" >said.txt 2>&1; }
plan --model mine/ || fail "$(cat said.txt)"
grep -qF 'mine/ is gpt2:layers=2,heads=2,embed=12,context=16,vocab=256,ffn=48,bias=1,tied=1, with a dropout of 0.1' said.txt ||
  fail "$(cat said.txt)"
grep -q '"dropout": 0.1' plan.json || fail "the plan has not the folder's dropout"
plan --model mine/config.json --dropout 0.3 && grep -q '"dropout": 0.3' plan.json || fail "--dropout is above the folder"
refused 2 "folders/gpt2: there is no checkpoint" $MOTLEY train plan.json --data text.txt --resume "$folders/gpt2"
grep -q "it is a model's folder: --init" err.txt || fail "$(cat err.txt)"

# The tokenizer's files and ids go along; what is there already stays.
printf '{"model": "one"}' >mine/added_tokens.json
printf 'a b' >mine/merges.txt
sed -i 's/"eos_token_id": 0/"eos_token_id": [7, 9]/' mine/config.json
mkdir kept && printf 'c d' >kept/merges.txt
$MOTLEY train plan.json --data text.txt --init mine --out kept >out.txt 2>&1 || fail "$(cat out.txt)"
cmp mine/added_tokens.json kept/added_tokens.json && [ "$(cat kept/merges.txt)" = "c d" ] || fail "$(ls kept)"
grep -qF '"eos_token_id": [7, 9],' kept/config.json && grep -qF '"bos_token_id": 0,' kept/config.json || fail "$(cat kept/config.json)"
[ ! -e kept/vocab.json ] || fail "$(ls kept)"

# Checkpoints are not written among a model's own weights, whole or in shards, which would hide them or be hidden.
before=$(cd mine && sha256sum *)
refused 2 "--out mine: holds the weights of another model (model.safetensors.index.json)" \
  $MOTLEY train plan.json --data text.txt --init mine --out mine
[ "$(cd mine && sha256sum *)" = "$before" ] || fail "a refused run has changed the model's folder"
refused 2 "--out tiny: holds the weights of another model (model.safetensors)" \
  $MOTLEY train plan.json --data text.txt --init mine --out tiny

sed -i 's/"n_head": 2/"n_head": 3/' mine/config.json
refused 2 "--init mine: is a gpt2:layers=2,heads=3,embed=12" $MOTLEY train plan.json --data text.txt --init mine
sed -i 's/"n_head": 3/"n_heads": 2/' mine/config.json
refused 2 'mine/config.json: key "n_heads" is not known' $MOTLEY train plan.json --data text.txt --init mine
refused 2 'mine/config.json: key "n_heads" is not known' $MOTLEY plan --model mine/ --ranks 1 -o plan2.json
cp "$gpt2/config.json" mine && rm mine/model-00002-of-00002.safetensors
refused 2 "mine/model-00002-of-00002.safetensors: No such file" $MOTLEY train plan.json --data text.txt --init mine
rm mine/model.safetensors.index.json
refused 2 'plan.json: is a "motley-plan", not weights' $MOTLEY train plan.json --data text.txt --init plan.json
refused 2 "mine: has no model.safetensors and no model.safetensors.index.json" $MOTLEY train plan.json --data text.txt --init mine
refused 2 "there is no model \"nowhere\"" $MOTLEY plan --model nowhere --ranks 1 -o plan2.json
refused 2 "nowhere/: No such file" $MOTLEY plan --model nowhere/ --ranks 1 -o plan2.json
grep -q "Motley downloads nothing" err.txt || fail "$(cat err.txt)"
refused 2 "tiny/model.safetensors" $MOTLEY plan --model tiny/model.safetensors --ranks 1 -o plan2.json
grep -q "name the model's folder" err.txt || fail "$(cat err.txt)"
refused 2 'has no "format": it is no "motley-plan"' $MOTLEY train tiny/config.json --data text.txt
head -c 3000 tiny/model.safetensors >cut.safetensors
refused 2 "it is truncated or damaged" $MOTLEY train plan.json --data text.txt --init cut.safetensors
[ ! -e run ] || fail "a refused run has left a folder"

# Other commands take a folder too.
$MOTLEY show graph --model "$gpt2" --batch 2 >graph.txt 2>&1 && grep -q 'wte.weight' graph.txt || fail "$(cat graph.txt)"
$MOTLEY whatif --cluster a10:1x2 --model "$gpt2" --batch 4 --add a10 >whatif.txt 2>&1 || fail "$(cat whatif.txt)"
$MOTLEY bench step --model "$gpt2/" --batch 2 --seconds 0.01 >bench.txt 2>&1 || fail "$(cat bench.txt)"

# A model that transformers does not have leaves no config.json.
$MOTLEY plan --model mlp:tiny --ranks 1 --batch 4 --steps 1 -o mlp.json
$MOTLEY train mlp.json --data text.txt --out mlp >out.txt 2>&1 || fail "$(cat out.txt)"
[ -e mlp/step-00000001.safetensors ] && [ ! -e mlp/config.json ] && [ ! -e mlp/model.safetensors.index.json ] || fail "$(ls mlp)"
