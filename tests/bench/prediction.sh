#!/usr/bin/env bash
# Predicted against measured steps of two ranks: models x speeds x transports. Profiles are taken before, and see the
# models' layers, but nothing is fitted on the runs that are compared. BUDGET: seconds a profile; STEPS: of each run.
#
#   tests/bench/prediction.sh [memory] [net]      # net: two network namespaces with 1 Gbit/s between them, for root
. "$(dirname "$0")/lib.bash"
declare -A models=(
  [mlp]="mlp:context=32,embed=64,hidden=2048,layers=4"
  [gpt-10m]="gpt2:layers=6,heads=6,embed=384,context=256,vocab=256,bias=0"
  [gpt-30m]="gpt2:layers=10,heads=8,embed=512,context=256,vocab=256,bias=0")
declare -A batches=([mlp]=1024 [gpt-10m]=12 [gpt-30m]=6) steps=([mlp]=40 [gpt-10m]=20 [gpt-30m]=10)
seq 1 600000 >"$work/text.txt"

both() { # TRANSPORT COMMAND...
  local transport=$1; shift
  if [ "$transport" = net ]; then on_hosts -n 2 "$@"; else mpirun --bind-to none -n 2 "$@"; fi
}

printf '%-9s %-7s %-6s %-14s %9s %9s %7s %6s\n' model speeds over shares predicted measured error band
for transport in "${@:-memory}"; do
  if [ "$transport" = net ]; then needs_hosts; hosts_up 1gbit; fi
  for speed in 1 0.5 0.25; do
    for name in mlp gpt-10m gpt-30m; do
      job=(--model "${models[$name]}" --batch "${batches[$name]}" --steps "${STEPS:-${steps[$name]}}")
      run=$work/$transport-$speed-$name
      both "$transport" "$motley" profile --emulate "speed=1,$speed" "${job[@]}" --budget "${BUDGET:-75}" -o "$run.cluster.json" >"$run.profile.txt" 2>&1
      "$motley" plan --cluster "$run.cluster.json" "${job[@]}" -o "$run.plan.json" >"$run.plan.txt"
      both "$transport" "$motley" train "$run.plan.json" --data "$work/text.txt" --val-fraction 0 --out "$run" \
        --emulate "speed=1,$speed" >"$run.train.txt" 2>&1
      shares=$(grep -A8 '"name": "batch"' "$run.plan.json" | grep -o '"sizes": \[[0-9, ]*' | grep -o '[0-9][0-9, ]*' | head -n 1)
      awk -v name="$name" -v speed="1:$speed" -v over="$transport" -v shares="$shares" \
        -v p="$(field predicted_step_s "$run/run.json")" -v m="$(field step_s "$run/run.json")" \
        -v band="$(grep -A3 '"prediction"' "$run.plan.json" | grep -o '"error": [0-9.e-]*' | cut -d' ' -f2)" 'BEGIN {
          printf "%-9s %-7s %-6s %-14s %7.4f s %7.4f s %+6.1f%% %5.1f%%\n", name, speed, over, shares, p, m, 100 * (p / m - 1), 100 * band }'
    done
  done
  [ "$transport" = net ] && hosts_down
done | tee "$work/rows.txt"
awk '{ e = $(NF-1); sub(/%/, "", e); e += 0; if (e < 0) e = -e; sum += e; if (e > worst) worst = e; n++ }
  END { printf "%d runs: mean error %.1f%%, worst %.1f%%\n", n, sum / n, worst }' "$work/rows.txt"
