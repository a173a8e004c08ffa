#!/usr/bin/env bash
# --device: what it refuses; on a machine with a GPU the losses are the CPU's, and a run that goes on computes what one
# that does not stop computes; without one it says what is missing.
. "$SOURCE/tests/cli/lib.bash"
export MOTLEY_CACHE=$PWD/cache # what is tuned is tuned once
seq 1 9000 >text.txt
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=64,context=32,vocab=256 --ranks 1 --batch 8 --steps 6 --dropout 0.1 -o plan.json
train="$MOTLEY train plan.json --data text.txt --val-fraction 0"
refused 2 '--device: "abacus" is not a kind of device (cpu, cuda)' $train --device abacus
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1/run.json" | tr -d ' ' | tr , '\n'; }

$train --device cpu --out cpu >out.txt 2>&1 || fail "$(cat out.txt)"
code=0
$train --device cuda --out gpu >out.txt 2>&1 || code=$?
if [ $code = 0 ]; then
  paste <(losses cpu) <(losses gpu) | awk '{ d = $1 / $2 - 1; if (d * d > 1e-10) exit 1 } END { exit NR != 6 }' ||
    fail "losses differ: $(losses cpu) and $(losses gpu)"
else
  [ $code = 3 ] && has 'device cuda' out.txt && has '^  hint: ' out.txt || fail "code $code: $(cat out.txt)"
fi
[ $code = 0 ] || exit 0

# Steps are launched ahead of their reports: evaluations, checkpoints and comparisons are of the step that they
# name all the same, so they change nothing, and going on from any is exact. A trace runs steps in another way.
hash_of() { grep -o 'parameter hashes equal on [0-9]* ranks\? ([0-9a-f]*)' "$1" | grep -o '([0-9a-f]*)'; }
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=64,context=32,vocab=256 --ranks 1 --batch 8 --micro 4 --steps 14 \
  --dropout 0.1 --precision bf16 -o long.json
train="$MOTLEY train long.json --data text.txt --device cuda"
$train --out plain >plain.txt 2>&1 || fail "$(cat plain.txt)"
$train --out busy --eval-every 3 --checkpoint-every 4 --hash-every 2 --keep 9 >busy.txt 2>&1 || fail "$(cat busy.txt)"
$train --out part --steps 5 >part.txt 2>&1 || fail "$(cat part.txt)"
$train --resume part >part.txt 2>&1 || fail "$(cat part.txt)"
$train --trace trace.json --out traced >traced.txt 2>&1 || fail "$(cat traced.txt)"
$train --resume busy/step-00000008.safetensors --out eight >eight.txt 2>&1 || fail "$(cat eight.txt)"
[ "$(losses plain | wc -l)" = 14 ] && [ -n "$(hash_of plain.txt)" ] || fail "$(cat plain.txt)"
for run in busy part traced eight; do
  [ "$(hash_of $run.txt)" = "$(hash_of plain.txt)" ] || fail "$run: other weights: $(cat $run.txt)"
  [ $run = eight ] || cmp <(losses $run) <(losses plain) || fail "$run: other losses"
done
grep -q '"name": "h.0' trace.json || fail "no operators in the trace"
[ "$(cd busy && echo step-*)" = "step-00000004.safetensors step-00000008.safetensors step-00000012.safetensors step-00000014.safetensors" ] ||
  fail "$(ls busy)"
# Gradients in any order, where the plan allows it: the same losses nearly; elsewhere nobody gets them.
job="--model gpt2:layers=2,heads=2,embed=128,context=256,vocab=256 --ranks 1 --batch 8 --steps 14 --precision bf16"
near() { # near RUN: its losses are those of fixed, by a hundredth
  paste <(losses fixed) <(losses "$1") | awk '{ d = $1 / $2 - 1; if (d * d > 1e-4) exit 1 } END { exit NR != 14 }' ||
    fail "losses differ: $(losses fixed) and of $1: $(losses "$1")"
}
$MOTLEY plan $job -o fixed.json
$MOTLEY plan $job --any-order -o any.json
for name in fixed any; do
  $MOTLEY train $name.json --data text.txt --device cuda --out $name >out.txt 2>&1 || fail "$name: $(cat out.txt)"
done
near any
export MOTLEY_CUDA_ATTENTION=cudnn_any_order
! $MOTLEY train fixed.json --data text.txt --device cuda --out never >out.txt 2>&1 || fail "any order: $(cat out.txt)"
if ! has -e 'cuDNN is not used' -e 'has no cuDNN' -e 'cannot run this call' out.txt; then
  has 'the job wants the same bits every time' out.txt || fail "$(cat out.txt)"
  $MOTLEY train any.json --data text.txt --device cuda --out forced >out.txt 2>&1 || fail "$(cat out.txt)"
  near forced
fi
unset MOTLEY_CUDA_ATTENTION

# Stopped by a signal, with steps under way.
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=64,context=32,vocab=256 --ranks 1 --batch 8 --steps 1000000 -o endless.json
train="$MOTLEY train endless.json --data text.txt --device cuda --val-fraction 0"
$train --out stopped >stopped.txt 2>&1 &
for _ in $(seq 300); do ! grep -q '^step 20/' stopped.txt || break; sleep 0.1; done
kill -USR2 $!
wait $! || fail "$(cat stopped.txt)"
steps=$(sed -n 's/^asked to stop after step \([0-9]*\)$/\1/p' stopped.txt)
[ -n "$steps" ] && [ "$(losses stopped | wc -l)" = "$steps" ] || fail "$(cat stopped.txt)"
$train --steps "$steps" >straight.txt 2>&1 || fail "$(cat straight.txt)"
[ "$(hash_of stopped.txt)" = "$(hash_of straight.txt)" ] || fail "stopping changed weights: $(cat stopped.txt)"
