#!/usr/bin/env bash
# N ranks train what one rank trains: fp64, dropout, clipping, tied embeddings, 20 steps, on 1, 2, 3 and 5 uneven
# ranks, one share zero, optimizer state split otherwise than the batch, in one and in several micro-batches. Losses
# agree to 1e-11, parameters to 1e-10; parameter hashes are equal on all ranks, in other precisions too.
source "$SOURCE/tests/cli/lib.bash"
seq 1 1500 | tr '\n' ' ' >text # any text will do

model=gpt2:layers=2,heads=4,embed=16,context=16,vocab=256,bias=1,tied=1
job="--batch 10 --steps 20 --lr 0.01 --dropout 0.1 --clip 0.5 --warmup 3 --seed 7"

train() { # name, ranks, precision, plan flags...
  local name=$1 n=$2 precision=$3
  shift 3
  "$MOTLEY" plan --model $model $job --precision "$precision" --ranks "$n" "$@" -o "$name.json" >/dev/null
  mpirun --oversubscribe --bind-to none -n "$n" "$MOTLEY" train "$name.json" --data text --out "$name" >"$name.log" 2>&1 ||
    fail "$(cat "$name.log")"
  grep -q "parameter hashes equal on $n rank" "$name.log" || fail "$name: $(cat "$name.log")"
}

losses() { tr -d '\n' <"$1/run.json" | sed -E 's/.*"losses": \[([^]]*)\].*/\1/' | tr -d ' '; }

against_one() { # name
  "$COMPARE" "$1"/step-*.safetensors one/step-*.safetensors 0.2 || fail "$1: parameters"
  paste -d ' ' <(losses "$1" | tr ',' '\n') <(losses one | tr ',' '\n') |
    awk -v name="$1" '{ d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > worst) worst = d; n++ }
      END { printf "%s: %d losses differ by %.2g\n", name, n, worst; exit !(n == 20 && worst <= 1e-11) }' ||
    fail "$1: losses"
}

train one 1 f64
train two 2 f64 --shares 7,3 --storage split --storage-speeds 1,2 && against_one two
train three 3 f64 --shares 5,0,5 --storage split --storage-speeds 0,1,3 --micro 2 --sync reduce_scatter && against_one three
train five 5 f64 --shares 4,0,3,1,2 --storage split --storage-speeds 1,1,0,2,1 --micro 2 && against_one five
train whole 3 f64 --shares 1,6,3 --sync all_reduce --bucket-bytes 0 && against_one whole
train mixed 3 f64 --shares 1,6,3 --storage 'wte*=split' --storage replicated --bucket-bytes 3000 && against_one mixed
precisions="f32 tf32 bf16 f16"
if sanitized; then precisions="bf16 f16"; fi # oneDNN's operators and plain ones
for precision in $precisions; do
  train "$precision" 3 $precision --shares 5,0,5 --storage split --storage-speeds 1,2,1
  train "$precision-whole" 3 $precision --shares 3,2,5 --storage replicated --micro 2
done
train bf16-wire 2 bf16 --shares 4,6 --gradient-wire bf16 --storage split
train f32-wire 3 f32 --shares 4,4,2 --gradient-wire bf16
