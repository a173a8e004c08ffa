#!/usr/bin/env bash
# Text by a tokenizer: trained on, kept, sampled; the same tokens from text, JSONL and .bin; and what is refused.
. "$SOURCE/tests/cli/lib.bash"
golden=$SOURCE/tests/launcher/tokenizer/golden
export MOTLEY_CACHE=$PWD/cache
mkdir cache gpt2
cp "$golden/gpt2.json" gpt2/tokenizer.json
printf '{"model_max_length": 1000000000000000019884624838656, "eos_token": {"content": "<|endoftext|>"}}' \
  >gpt2/tokenizer_config.json # as transformers writes it where there is no limit
plan="$MOTLEY plan --model gpt2:layers=1,heads=2,embed=16,context=16,vocab=420 --lr 0.01 --precision f64 --batch 4 --steps 6"
$plan --ranks 1 -o one.json >/dev/null
$plan --shares 3,1 -o two.json >/dev/null
awk 'BEGIN { for (i = 0; i < 400; i++) printf "The %d words, it'"'"'s \303\251t\303\251 in %d.\n", i, i * i }' >text.txt
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1"; }

# Two ranks make the tokens once; the second run finds them; damaged ones are made again.
mpirun -n 2 $MOTLEY train two.json --data text.txt --tokenizer gpt2 --out two >two.txt 2>&1 || fail "$(cat two.txt)"
[ "$(ls cache | grep -c '^tokens-.*\.bin$')" = 1 ] || fail "kept: $(ls cache)"
$MOTLEY train one.json --data text.txt --tokenizer gpt2/tokenizer.json --out one >one.txt 2>&1 || fail "$(cat one.txt)"
[ "$(ls cache | grep -c '^tokens-.*\.bin$')" = 1 ] || fail "kept: $(ls cache)"
printf 'x' | dd of="$(ls cache/tokens-*.bin)" bs=1 seek=100 conv=notrunc 2>dd.txt
$MOTLEY train one.json --data text.txt --tokenizer gpt2 --out again >again.txt 2>&1 || fail "$(cat again.txt)"
has "is damaged; the tokens are made again" <again.txt || fail "$(cat again.txt)"
[ -n "$(losses one/run.json)" ] && [ "$(losses one/run.json)" = "$(losses again/run.json)" ] || fail "other tokens"
MOTLEY_CACHE= XDG_CACHE_HOME= HOME= $MOTLEY train one.json --data text.txt --tokenizer gpt2 --out not >not.txt 2>&1 ||
  fail "$(cat not.txt)"
[ "$(losses one/run.json)" = "$(losses not/run.json)" ] || fail "other tokens without a cache"

# The run's folder has the tokenizer: --resume and sample find it there.
cmp gpt2/tokenizer.json one/tokenizer.json
$MOTLEY train one.json --data text.txt --tokenizer gpt2 --out rest --steps 2 >rest.txt 2>&1
$MOTLEY train one.json --data text.txt --resume rest >rest.txt 2>&1 || fail "$(cat rest.txt)"
[ "$(losses one/run.json)" = "$(losses rest/run.json)" ] || fail "a resume has other tokens"
$MOTLEY train one.json --data text.txt --tokenizer gpt2 --out half --steps 2 >half.txt 2>&1 || fail "$(cat half.txt)"
for from in half half/step-00000002.safetensors; do
  $MOTLEY train one.json --data text.txt --resume $from --out "from-${from##*.}" >from.txt 2>&1 || fail "$(cat from.txt)"
done
[ -n "$(losses from-half/run.json)" ] && [ "$(losses from-half/run.json)" = "$(losses from-safetensors/run.json)" ] ||
  fail "a resume from a file has other tokens"
$MOTLEY sample one --prompt "It's $(printf '\303\251')t" --tokens 20 >said.txt || fail "sample"
has "^It's $(printf '\303\251')t" <said.txt || fail "$(cat said.txt)"
iconv -f utf-8 -t utf-8 said.txt >/dev/null || fail "not UTF-8"
$MOTLEY sample "$(ls one/step-*.safetensors)" --tokenizer gpt2 --prompt The --tokens 3 | has "^The" || fail "sample of a file"

# A run does not go on with another tokenizer, nor does a folder keep the wrong one.
mkdir qwen2 stale
cp "$golden/qwen2.json" qwen2/tokenizer.json
cp "$golden/qwen2.json" stale/tokenizer.json
cp one/tokenizer.json kept.json
refused 2 "one/tokenizer.json: is another tokenizer than qwen2/tokenizer.json" \
  $MOTLEY train one.json --data text.txt --resume one --tokenizer qwen2
has -F -- "--init one --tokenizer qwen2" <err.txt || fail "$(cat err.txt)"
refused 2 "one/tokenizer.json: is another tokenizer" \
  $MOTLEY train one.json --data text.txt --resume "$(ls one/step-*.safetensors)" --tokenizer qwen2 --out elsewhere
refused 2 "stale/tokenizer.json: is another tokenizer than gpt2/tokenizer.json" \
  $MOTLEY train one.json --data text.txt --tokenizer gpt2 --out stale
cmp one/tokenizer.json kept.json
$MOTLEY train one.json --data text.txt --init one --tokenizer qwen2 --out new >new.txt 2>&1 || fail "$(cat new.txt)"
cmp new/tokenizer.json qwen2/tokenizer.json

# Without one, bytes are trained on, which is said where the model has many more tokens.
$MOTLEY plan --model gpt2:layers=1,heads=2,embed=16,context=16,vocab=1000 --batch 4 --steps 1 --ranks 1 -o many.json >/dev/null
$MOTLEY train many.json --data text.txt --no-out >bytes.txt 2>&1 || fail "$(cat bytes.txt)"
has "each byte of the data is a token, of 256, but the model has 1000" <bytes.txt || fail "$(cat bytes.txt)"

# A document a line is the same as its text and the end's token; many files are documents too.
mkdir docs
printf 'The first.' >docs/a.txt
for i in $(seq 60); do printf 'The %d.' "$i" >"docs/b$i.txt"; done
for f in docs/*.txt; do printf '{"text": "%s"}\n' "$(cat "$f")"; done >docs.jsonl
for f in docs/*.txt; do printf '%s<|endoftext|>' "$(cat "$f")"; done >joined.txt
for data in joined.txt "docs/*.txt" docs.jsonl; do
  $MOTLEY train one.json --data "$data" --tokenizer gpt2 --out "out-${data##*.}" >out.txt 2>&1 || fail "$(cat out.txt)"
  [ "$data" = joined.txt ] && mv out-txt joined
  [ "$data" = joined.txt ] || [ "$(losses "out-${data##*.}/run.json")" = "$(losses joined/run.json)" ] ||
    fail "$data has other tokens"
done
$MOTLEY train one.json --data docs.jsonl --tokenizer gpt2 --data-end none --out none >none.txt 2>&1 || fail "$(cat none.txt)"
[ "$(losses none/run.json)" != "$(losses out-jsonl/run.json)" ] || fail "--data-end none changes nothing"

# The doctor reads it.
$MOTLEY doctor one.json --data text.txt --tokenizer gpt2 >with.txt || true
$MOTLEY doctor one.json --data text.txt >without.txt || true
bytes() { sed -n 's/^ok .*data .* \([0-9]*\) bytes, .*/\1/p' "$1"; }
[ $(($(bytes with.txt) - $(bytes without.txt))) = "$(wc -c <gpt2/tokenizer.json)" ] || fail "$(cat with.txt without.txt)"
! $MOTLEY doctor one.json --data text.txt --tokenizer none/at/all >doctor.txt || fail "$(cat doctor.txt)"
has "none/at/all: No such file" <doctor.txt || fail "$(cat doctor.txt)"

train="$MOTLEY train one.json --data text.txt --no-out"
$plan --model gpt2:layers=1,heads=2,embed=16,context=16,vocab=300 --ranks 1 -o small.json >/dev/null
refused 2 "but the model's vocabulary has 300" $MOTLEY train small.json --data text.txt --tokenizer gpt2 --no-out
refused 2 "No such file" $train --tokenizer none/at/all
sed 's/"ByteLevel"/"ByteWise"/' gpt2/tokenizer.json >other.json
refused 2 'other.json: pre_tokenizer: a pre-tokenizer of type "ByteWise" is not supported' $train --tokenizer other.json
refused 2 'has no token "<end>"' $MOTLEY train one.json --data docs.jsonl --tokenizer gpt2 --data-end "<end>" --no-out
refused 2 "--data-end: is a token of a tokenizer, and there is none" $train --data-end "</s>"
refused 2 "does not say which token ends a document" \
  $MOTLEY train one.json --data docs.jsonl --tokenizer "$golden/suffix.json" --no-out
printf 'ok\n\377\n' >bad.txt
refused 2 "bad.txt: line 2: byte 3 of the file, 0xff, is not UTF-8" \
  $MOTLEY train one.json --data bad.txt --tokenizer gpt2 --no-out
refused 2 "--prompt: token" $MOTLEY sample one --tokenizer "$golden/llama2.json" --prompt "First Citizen, we speak the"
