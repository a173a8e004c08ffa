#!/usr/bin/env bash
# Install what is missing, build, and go the whole path: profile two ranks of unequal speed (the second one's is
# emulated), plan a byte-level GPT for them, review and prove the plan, train it on a real text as predicted, print what
# it writes, and ask what other hardware would do. Where Motley is installed, nothing is built.
#
#   MOTLEY, WORK  a program that is there; the folder to work in [build/quickstart; of an installed one ./quickstart]
#   TEXT          the text to train on [the Bible, of the package bible-kjv]
#   STEPS, BUDGET of training; seconds of measuring [1000, 30]
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd) motley=${MOTLEY:-motley} work=${WORK:-quickstart}
if [ -z "${MOTLEY:-}" ] && [ -e "$source/CMakeLists.txt" ]; then
  cd "$source"
  examples/install.sh build data
  cmake --preset release >/dev/null
  cmake --build --preset release --target motley motley_onednn motley_glpk -j "$(nproc)"
  motley=$PWD/build/release/motley work=${WORK:-build/quickstart}
fi
mkdir -p "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun="mpirun --oversubscribe --bind-to none -n 2"

if [ -n "${TEXT:-}" ]; then
  cp "$TEXT" "$work/text.txt"
elif [ ! -s "$work/text.txt" ]; then
  command -v bible >/dev/null || { echo "quickstart.sh: no text: name one as \$TEXT, or apt-get install bible-kjv" >&2; exit 3; }
  bible -f 'gen1:1-rev22:21' </dev/null >"$work/text.txt"
fi
job="--model gpt2:layers=4,heads=4,embed=128,context=64,vocab=256,bias=0 --batch 16 --steps ${STEPS:-1000}
  --lr 1e-3 --lr-min 1e-4 --warmup 50"

run() { # COMMAND...: printed as it can be typed again, and run
  local word
  printf '\n$'
  for word in "$@"; do if [[ $word == *" "* ]]; then printf ' "%s"' "$word"; else printf ' %s' "$word"; fi; done
  echo
  "$@"
}
run $mpirun "$motley" profile --emulate speed=1,0.6 $job --budget "${BUDGET:-30}" -o $work/cluster.json
# --use all: where others use the machine, the second rank might not be worth its messages
run "$motley" plan --cluster $work/cluster.json $job --use all -o $work/plan.json
run "$motley" show $work/plan.json
run "$motley" explain $work/plan.json --cluster $work/cluster.json
run "$motley" verify $work/plan.json
rm -rf $work/run # training refuses a folder with another run's checkpoints
run $mpirun "$motley" train $work/plan.json --data $work/text.txt --out $work/run --emulate speed=1,0.6 --log-every 100
run "$motley" sample $work/run --prompt "In the beginning" --tokens 400
run "$motley" whatif --cluster $work/cluster.json --plan $work/plan.json \
  --set rank.1.speed=1 --remove rank:1 --tokens 10M
