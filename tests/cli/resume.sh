#!/usr/bin/env bash
# Checkpoints: going on is exact on the same plan and right on another, damage is passed over, folders need not be
# shared.
. "$SOURCE/tests/cli/lib.bash"
small="--model gpt2:layers=2,heads=2,embed=16,context=16,vocab=256 --batch 6 --steps 40 --dropout 0.1"
small="$small --lr 0.01 --warmup 3"
seq 1 2500 >text.txt # a short one: each run ends with the validation part
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1" | tr -d ' ' | tr , '\n'; }
hash_of() { grep -o 'parameter hashes equal on [0-9]* ranks\? ([0-9a-f]*)' "$1" | grep -o '([0-9a-f]*)'; }
train() { local n=$1; shift; mpirun -n "$n" $MOTLEY train "$@"; }

# Straight through, and in two parts: the same bits, losses and weights.
for precision in f32 bf16 f16 f64; do
  $MOTLEY plan $small --precision $precision --speeds 1,0.5 --storage split -o $precision.json
  train 2 $precision.json --data text.txt --out $precision.straight >$precision.straight.txt 2>&1
  [ $precision != f64 ] || continue
  train 2 $precision.json --data text.txt --out $precision.parts --steps 17 >part.txt 2>&1
  train 2 $precision.json --data text.txt --resume $precision.parts >$precision.parts.txt 2>&1
  [ -n "$(hash_of $precision.parts.txt)" ] || fail "$(cat $precision.parts.txt)"
  [ "$(hash_of $precision.parts.txt)" = "$(hash_of $precision.straight.txt)" ] || fail "$precision: other weights"
  cmp <(losses $precision.parts/run.json) <(losses $precision.straight/run.json) ||
    fail "$precision: other losses"
done

# Another plan, another number of ranks: the same numbers but for rounding; and into another precision.
$MOTLEY plan $small --precision f64 --shares 1,0,5 --micro 1,0,2 --storage split --storage-speeds 3,1,0 -o three.json
train 2 f64.json --data text.txt --out moved --steps 17 >moved.txt 2>&1
train 3 three.json --data text.txt --resume moved >moved.txt 2>&1
paste <(losses moved/run.json) <(losses f64.straight/run.json) |
  awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > 1e-10) bad = 1; n++ } END { exit bad || n != 40 }' ||
  fail "resumed on three ranks: other losses"
train 2 f32.json --data text.txt --out mixed --steps 17 >mixed.txt 2>&1
train 2 bf16.json --data text.txt --resume mixed >mixed.txt 2>&1
paste <(losses mixed/run.json) <(losses f32.straight/run.json) |
  awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > 0.05) bad = 1; n++ } END { exit bad || n != 40 }' ||
  fail "f32 resumed in bf16: far from f32"

# Generations: two are kept; a damaged newest one is named, passed over and set aside.
train 2 f32.json --data text.txt --out many --checkpoint-every 5 --steps 22 >many.txt 2>&1
[ "$(cd many && echo step-*)" = "step-00000020.safetensors step-00000022.safetensors" ] || fail "$(ls many)"
printf 'x' | dd of=many/step-00000022.safetensors bs=1 seek=9000 conv=notrunc status=none
train 2 f32.json --data text.txt --resume many --keep 3 >many.txt 2>&1
grep -q 'many/step-00000022.safetensors: .* is damaged' many.txt || fail "$(cat many.txt)"
grep -q 'resuming from many/step-00000020.safetensors: step 20, 120 samples' many.txt || fail "$(cat many.txt)"
[ "$(hash_of many.txt)" = "$(hash_of f32.straight.txt)" ] || fail "other weights after a damaged checkpoint"
[ -e many/step-00000022.safetensors.damaged ] && [ -e many/step-00000040.safetensors ] || fail "$(ls many)"

# Weights whose optimizer state was not copied along are not damaged: what is missing is said, and what to do.
mkdir weights && cp f32.straight/step-* weights
code=0
train 2 f32.json --data text.txt --resume weights >weights.txt 2>&1 || code=$?
[ $code = 2 ] && has "^motley: weights: there are the weights of [12] checkpoints*, but no optimizer state (optimizer-\*.safetensors)$" weights.txt ||
  fail "$code: $(cat weights.txt)"
has "with --init weights instead of --resume" weights.txt && ! has damaged weights.txt || fail "$(cat weights.txt)"

# Folders that are not shared: rank 1 has the plan and the data, and never needs the checkpoints.
mkdir -p a b && cp f32.json text.txt a && cp f32.json text.txt b
mpirun -n 1 -wdir a $MOTLEY train f32.json --data text.txt --out run --steps 17 : \
  -n 1 -wdir b $MOTLEY train f32.json --data text.txt --out run --steps 17 >apart.txt 2>&1
mpirun -n 1 -wdir a $MOTLEY train f32.json --data text.txt --resume run : \
  -n 1 -wdir b $MOTLEY train f32.json --data text.txt --resume run >apart.txt 2>&1
[ "$(hash_of apart.txt)" = "$(hash_of f32.straight.txt)" ] || fail "$(cat apart.txt)"
[ ! -e b/run ] || fail "rank 1 wrote a folder"

# Weights alone, into another optimizer; the first validation loss is the checkpoint's.
$MOTLEY plan $small --ranks 1 --optimizer sgd -o sgd.json
$MOTLEY train sgd.json --data text.txt --init f32.straight/step-00000040.safetensors --eval-only >init.txt 2>&1
want=$(grep -o 'validation loss [0-9.]*' f32.straight.txt)
[ "$(grep -o 'validation loss [0-9.]*' init.txt)" = "$want" ] ||
  fail "$(cat init.txt f32.straight.txt)"

# Refusals.
refused 2 "holds 2 checkpoints of another run" mpirun -n 2 $MOTLEY train f32.json --data text.txt --out f32.parts
refused 2 "no checkpoint" mpirun -n 2 $MOTLEY train f32.json --data text.txt --resume a
refused 2 "the optimizer differs" $MOTLEY train sgd.json --data text.txt --resume f32.straight
$MOTLEY plan --model gpt2:layers=1,heads=2,embed=16,context=16,vocab=256 --ranks 1 -o other.json
refused 2 "but the plan is for gpt2:layers=1," $MOTLEY train other.json --data text.txt \
  --resume f32.straight
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=32,context=16,vocab=256 --ranks 1 -o wide.json
refused 2 "is a gpt2:layers=2,heads=2,embed=16," $MOTLEY train wide.json --data text.txt \
  --init f32.straight/step-00000040.safetensors
refused 2 "no safetensors file" $MOTLEY train wide.json --data text.txt --init text.txt

# A full disk: the run goes on, the checkpoint before stays whole; a last checkpoint that fails is an error.
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
  size=$(cat f32.straight/*-00000040.safetensors | wc -c)
  cat >full.sh <<EOF
mkdir -p full && mount -t tmpfs -o size=$((size + size / 2)) tmpfs full || exit 77
mpirun -n 2 $MOTLEY train f32.json --data text.txt --out full --checkpoint-every 10 --keep 5 >full.txt 2>&1
code=\$?
ls full >full.ls
$MOTLEY sample full --tokens 1 >sampled.txt 2>&1 || exit 99
grep -q '"ended": "failed: .*No space left on device",' full/run.json || exit 98
exit \$code
EOF
  code=0
  unshare --mount bash full.sh || code=$?
  if [ $code != 77 ]; then
    [ $code = 1 ] || fail "a full disk: code $code: $(cat full.txt)"
    grep -q 'No space left on device; training goes on' full.txt || fail "$(cat full.txt)"
    [ "$(grep -c . full.ls)" -ge 1 ] && grep -q step-00000010.safetensors full.ls || fail "$(cat full.ls)"
    ! grep -q part full.ls || fail "$(cat full.ls)"
  fi
fi
