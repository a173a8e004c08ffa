#!/usr/bin/env bash
# Finetune a pretrained Llama from a Hugging Face folder on two ranks of unequal speed: configuration, tokenizer, weights in;
# training; text, and a folder that `transformers` loads, out. No package ships so small a Llama, so the first part of the
# example pretrains one, on the books of Moses; then it learns the letters of Paul.
#
#   STEPS, MORE   of pretraining, and of finetuning [600, 200]
#   MOTLEY, WORK  a program that is there: nothing is installed or built; the folder to work in [build/finetune]
set -euo pipefail
cd "$(dirname "$0")/.."
motley=${MOTLEY:-$PWD/build/release/motley}
if [ -z "${MOTLEY:-}" ]; then
  examples/install.sh build data
  cmake --preset release >/dev/null
  cmake --build --preset release --target motley motley_onednn motley_glpk -j "$(nproc)"
fi
folder=examples/llama-tiny work=${WORK:-build/finetune}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun="mpirun --oversubscribe --bind-to none -n 2"
rm -rf $work && mkdir -p $work
bible -f 'gen1:1-deu34:12' </dev/null >$work/moses.txt
bible -f 'rom1:1-phm1:25' </dev/null >$work/paul.txt

run() { # COMMAND...: printed as it can be typed again, and run
  local word
  printf '\n$'
  for word in "$@"; do if [[ $word == *" "* ]]; then printf ' "%s"' "$word"; else printf ' %s' "$word"; fi; done
  echo
  "$@"
}
job="--batch 16 --precision f32 --speeds 1,0.6 --ranks 2"
run "$motley" plan --model $folder/ $job --steps "${STEPS:-600}" --lr 3e-3 --warmup 20 -o $work/base.json
run $mpirun "$motley" train $work/base.json --data $work/moses.txt --tokenizer $folder --emulate speed=1,0.6 \
  --log-every 100 --out $work/base

# From here on as with anybody's folder: $work/base has config.json, tokenizer.json and the weights.
run "$motley" plan --model $work/base $job --steps "${MORE:-200}" --lr 1e-3 --storage split -o $work/tuned.json
run $mpirun "$motley" train $work/tuned.json --init $work/base --data $work/paul.txt --eval-only --no-out
run $mpirun "$motley" train $work/tuned.json --init $work/base --data $work/paul.txt --emulate speed=1,0.6 \
  --log-every 100 --out $work/tuned
run "$motley" sample $work/base --prompt "And the LORD" --tokens 60
run "$motley" sample $work/tuned --prompt "And the LORD" --tokens 60
ls $work/tuned
