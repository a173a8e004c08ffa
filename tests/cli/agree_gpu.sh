#!/usr/bin/env bash
# One GPU, all of the host's with unequal shares, and the CPU train the same in f32: losses of 20 steps agree to 1e-5,
# and so do the gradients of the first step (AdamW's first moments, of which they are a tenth). With states split as well,
# evenly and not: those have another wire layout; and where copy engines move messages. And with rank 0 idle.
# DEVICE=cpu RANKS=2: to try the script without GPUs.
source "$SOURCE/tests/cli/lib.bash"
device=${DEVICE:-cuda} n=${RANKS:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)}
if [ "$n" = 0 ]; then
  echo "skipped: no GPU"
  exit 77
fi
[ "$n" -le 4 ] || n=4
export MOTLEY_CACHE=$PWD/cache
seq 1 60000 >text.txt
shares=$(cut -d, -f "1-$n" <<<"9,7,5,3")
batch=$(tr , '\n' <<<"$shares" | awk '{ s += $1 } END { print s }')

order= # of the ranks that take part; empty: all
train() { # NAME RANKS DEVICE FLAG...
  local name=$1 ranks=$2 kind=$3 steps
  shift 3
  $MOTLEY plan --model gpt2:layers=4,heads=4,embed=128,context=128,vocab=256 --batch "$batch" --ranks "$ranks" --steps 20 \
    --warmup 2 --dropout 0.1 "$@" -o "$name.json" >/dev/null
  if [ -n "$order" ]; then
    sed -i "s/^  \"splits\": \[/  \"order\": [$order],\n&/" "$name.json"
    $MOTLEY plan --check "$name.json" -o "$name.json" >/dev/null
  fi
  for steps in 1 20; do
    mpirun -n "$ranks" "$MOTLEY" train "$name.json" --device "$kind" --data text.txt --val-fraction 0 --steps $steps \
      --out "$name.$steps" >out.txt 2>&1 || fail "$name: $(cat out.txt)"
  done
}
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1.20/run.json" | tr -d ' ' | tr , '\n'; }
agree() { # NAME
  paste <(losses "$1") <(losses cpu) |
    awk -v name="$1" '{ d = $1 / $2 - 1; if (d < 0) d = -d; if (d > most) most = d }
      END { printf "%s: %d losses differ by %.2g at most\n", name, NR, most; exit !(NR == 20 && most <= 1e-5) }' ||
    fail "$1: $(losses "$1")"
  "$COMPARE" "$1".1/step-*.safetensors cpu.1/step-*.safetensors 1e-6 1e-5 adamw.m. || fail "$1: other gradients"
}

train cpu 1 cpu
train one 1 "$device" && agree one
if [ "$n" -gt 1 ]; then
  train all "$n" "$device" --shares "$shares" && agree all
  train split "$n" "$device" --shares "$shares" --storage split --storage-speeds "$(yes 1 | head -n "$n" | paste -sd,)" && agree split
  train uneven "$n" "$device" --shares "$shares" --storage split --bucket-bytes 1MiB && agree uneven
  for storage in replicated split; do
    MOTLEY_COLLECTIVES=engines train "engines-$storage" "$n" "$device" --shares "$shares" --storage $storage && agree "engines-$storage"
  done
  # Rank 0 is idle and opens no GPU, and the others are in reverse order; each keeps the GPU that it has without that.
  order=$(seq $((n - 1)) -1 1 | paste -sd,)
  train idle "$n" "$device" --shares "0,$(tr , '\n' <<<"$shares" | awk 'NR == 1 { s = $1; next } { print $1 + s; s = 0 }' | paste -sd,)" \
    --storage split --storage-speeds "0,$(yes 1 | head -n $((n - 1)) | paste -sd,)" && agree idle
  [ "$(grep -c '"idle": true' idle.20/run.json)" = 1 ] || fail "nobody is idle: $(cat idle.20/run.json)"
fi
