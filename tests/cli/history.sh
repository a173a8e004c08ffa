#!/usr/bin/env bash
# What a run's folder says after an end of any kind, and what --resume and --init say about what they are given.
. "$SOURCE/tests/cli/lib.bash"
model="--model gpt2:layers=2,heads=2,embed=16,context=16,vocab=256"
seq 1 9000 >text.txt
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1/run.json" | tr -d ' ' | tr , '\n'; }
ended() { sed -n 's/^ *"ended": "\(.*\)",$/\1/p' "$1/run.json"; }
preload=$FAULTS
if sanitized; then preload="$(gcc -print-file-name=libasan.so):$FAULTS"; fi
train() { mpirun -n 1 $MOTLEY train "$@"; }

# Killed when the second checkpoint is whole, or when it is half written: no loss of a step that is saved is lost.
$MOTLEY plan $model --ranks 1 --lr 0.001 --batch 4 --steps 50 -o plan.json
train plan.json --data text.txt --out straight >straight.txt 2>&1
for phase in renamed checkpoint; do
  ! mpirun -x LD_PRELOAD="$preload" -x MOTLEY_FAULT=0:$phase:KILL -n 1 $MOTLEY train plan.json --data text.txt \
    --out $phase --checkpoint-every 20 --heartbeat 0 >killed.txt 2>&1 || fail "$phase: not killed: $(cat killed.txt)"
  last=40
  [ $phase = renamed ] || last=20
  [ "$(cd $phase && echo step-*.safetensors)" = "$([ $last = 20 ] || echo 'step-00000020.safetensors ')step-000000$last.safetensors" ] ||
    fail "$phase: $(ls $phase)"
  [ "$(losses $phase | wc -l)" = 40 ] || fail "$phase: $(losses $phase | wc -l) losses after 40 steps"
  train plan.json --data text.txt --resume $phase >resumed.txt 2>&1
  grep -q "resuming from $phase/step-000000$last.safetensors: step $last" resumed.txt || fail "$phase: $(cat resumed.txt)"
  cmp <(losses $phase) <(losses straight) || fail "$phase: other losses"
  ! grep -q lost resumed.txt || fail "$phase: $(cat resumed.txt)"
done

# A run.json that ends before the checkpoint: the gap is said, and only the gap is lost.
train plan.json --data text.txt --out gap --steps 20 >gap.txt 2>&1
cp gap/run.json early.json
train plan.json --data text.txt --resume gap --steps 40 >gap.txt 2>&1
cp early.json gap/run.json
train plan.json --data text.txt --resume gap >gap.txt 2>&1
grep -q 'gap/run.json: ends at step 20: the losses of steps 21 to 40 are lost' gap.txt || fail "$(cat gap.txt)"
cmp <(losses gap) <(losses straight | sed '21,40s/.*/null/') || fail "not the gap alone: $(losses gap)"
$MOTLEY show gap/run.json | has 'steps  *1 to 50' || fail "$($MOTLEY show gap/run.json)"

# Another job is said member by member; the same one is not.
! grep -q 'another job' gap.txt || fail "$(cat gap.txt)"
$MOTLEY plan $model --ranks 1 --lr 0.002 --batch 6 --seq 8 --steps 60 --schedule constant --recompute segments -o other.json
train other.json --data text.txt --resume gap --eval-only >other.txt 2>&1
grep -q 'was trained by another job: batch 4, now 6; seq 16, now 8; steps 50, now 60; lr 0.001, now 0.002; lr_min 0.0001, now none; schedule cosine, now constant$' \
  other.txt || fail "$(cat other.txt)"

# A run that fails says how in its folder: here the last checkpoint cannot be written.
mkdir -p small/model.safetensors.index.json
code=0
$MOTLEY train plan.json --data text.txt --out small --steps 5 >small.txt 2>&1 || code=$?
[ $code = 2 ] || fail "a checkpoint that cannot be written: code $code: $(cat small.txt)"
ended small | has '^failed: small/model.safetensors.index.json: Is a directory$' || fail "$(cat small/run.json)"

# --init: a file that carries checksums must be right in every bit; one without any is taken as it is.
good=straight/step-00000050.safetensors
size=$(stat -c %s $good)
header=$(od -An -tu8 -N8 $good | tr -d ' ')
for at in 20 $((header / 2)) $((header + 8)) $((header + 8 + 4099)) $((size - 1)); do
  cp $good flipped.safetensors
  byte=$(od -An -tu1 -j$at -N1 $good | tr -d ' ')
  printf "\\$(printf %03o $((byte ^ 4)))" | dd of=flipped.safetensors bs=1 seek=$at conv=notrunc status=none
  code=0
  $MOTLEY train plan.json --data text.txt --init flipped.safetensors --eval-only >init.txt 2>&1 || code=$?
  [ $code = 2 ] || fail "a flipped bit at byte $at was taken: code $code: $(cat init.txt)"
done
grep -q 'flipped.safetensors: tensor .* is damaged: its checksum is' init.txt || fail "$(cat init.txt)"
for word in xxh3.header xxh3.wte.weight; do # a key that is damaged does not make the file one without checksums
  sed "0,/\"$word\"/s//\"yxh3${word#xxh3}\"/" $good >flipped.safetensors
  refused 2 "flipped.safetensors: " $MOTLEY train plan.json --data text.txt --init flipped.safetensors --eval-only
done
sed 's/"xxh3/"yxh3/g' $good >plain.safetensors
$MOTLEY train plan.json --data text.txt --init plain.safetensors --eval-only >init.txt 2>&1 || fail "$(cat init.txt)"

# Folders and files that are something else.
echo text >file
refused 2 "--out file: is a file, not a folder" $MOTLEY train plan.json --data text.txt --out file
mkfifo pipe
refused 2 "pipe: is not a regular file" timeout 300 $MOTLEY show pipe
refused 2 "pipe: is not a regular file" timeout 300 $MOTLEY diff plan.json pipe
refused 2 "pipe: is a pipe that no process writes to" timeout 300 $MOTLEY train pipe --data text.txt
refused 2 "pipe: is a pipe that no process writes to" timeout 300 $MOTLEY plan --cluster pipe $model -o no.json
$MOTLEY train <(cat plan.json) --data text.txt --steps 1 >piped.txt 2>&1 || fail "a plan through a pipe: $(cat piped.txt)"

# A link is written through.
mkdir far && ln -s far/plan.json link.json
$MOTLEY plan $model --ranks 1 -o link.json
[ -L link.json ] && [ -s far/plan.json ] || fail "the link was replaced: $(ls -l link.json far)"
