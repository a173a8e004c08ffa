#!/usr/bin/env bash
# Install what is missing, build, and do the main job: plan a byte-level GPT for two ranks of unequal speed, prove
# the plan, train it on a real text, and print what it writes.
set -euo pipefail
cd "$(dirname "$0")/.."
examples/install.sh build data

cmake --preset release >/dev/null
cmake --build --preset release -j "$(nproc)"
motley=$PWD/build/release/motley
work=build/quickstart
mkdir -p "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun="mpirun --oversubscribe --bind-to none"

[ -s $work/text.txt ] || bible -f 'gen1:1-rev22:21' </dev/null >$work/text.txt

run() { echo; echo "\$ $*"; "$@"; }
run "$motley" plan --model gpt2:layers=4,heads=4,embed=128,context=64,vocab=256,bias=0 --ranks 2 --speeds 1,0.6 \
  --batch 16 --steps 1000 --lr 1e-3 --lr-min 1e-4 --warmup 50 --storage split -o $work/plan.json
run "$motley" show $work/plan.json
run "$motley" verify $work/plan.json
rm -rf $work/run # training refuses a folder with another run's checkpoints
run $mpirun -n 2 "$motley" train $work/plan.json --data $work/text.txt --out $work/run --log-every 100
run "$motley" sample $work/run --prompt "In the beginning" --tokens 400
