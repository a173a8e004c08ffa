#!/usr/bin/env bash
# Steps that a described H200 is predicted to take, against steps measured on one (CUDA 13.0, 24 steps each, ms).
. "$SOURCE/tests/cli/lib.bash"

rows="gpt2:124m,vocab=50304 4 bf16 8.95
gpt2:124m,vocab=50304 64 bf16 105.56
gpt2:355m,vocab=50304 24 bf16 109.32
gpt2:774m,vocab=50304 8 bf16 84.79
gpt2:1558m,vocab=50304 8 bf16 163.78
gpt2:layers=6,heads=6,embed=384,context=256,vocab=256,bias=0 64 bf16 3.70
gpt2:layers=12,heads=12,embed=768,context=2048,vocab=50304 8 bf16 31.41
gpt2:layers=6,heads=16,embed=2048,context=1024,vocab=50304 8 bf16 36.52
gpt2:layers=12,heads=6,embed=768,context=1024,vocab=50304 16 bf16 26.96
gpt2:layers=24,heads=16,embed=1024,context=512,vocab=50304 16 bf16 38.00
gpt2:124m,vocab=50304 8 f32 164.16
gpt2:124m,vocab=50304 8 tf32 62.58
gpt2:124m,vocab=50304 16 f16 29.92"
while read -r model batch precision measured_ms; do
  "$MOTLEY" plan --cluster h200:1 --model "$model" --batch "$batch" --precision "$precision" -o plan.json >/dev/null
  predicted_s=$(grep -o '"step_s": [0-9.e-]*' plan.json | head -n 1 | cut -d' ' -f2)
  echo "$predicted_s $measured_ms $model $batch $precision"
done <<<"$rows" | awk '
  { error = 1e5 * $1 / $2 - 100; sum += error; printf "%-60s %3d %-4s %8.2f ms, measured %8.2f: %+.1f%%\n", $3, $4, $5, 1e3 * $1, $2, error
    if (error > 12 || error < -12) { print "off by more than 12%"; failed = 1 } }
  END { printf "mean %+.1f%%\n", sum / NR; exit failed || NR != 13 || sum / NR > 5 || sum / NR < -5 }' ||
  { echo "a described H200 is not what was measured"; exit 1; }
