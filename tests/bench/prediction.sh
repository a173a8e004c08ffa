#!/usr/bin/env bash
# Predicted against measured steps: models x speeds x transports, and whether steps are inside the predicted bands.
# Profiles are taken before, and see the models' layers, but nothing is fitted on the runs that are compared. All ranks
# are used. BUDGET: seconds a profile; STEPS: of each run; MODELS: of those below.
#
#   tests/bench/prediction.sh [memory] [net] [held]
#
# memory: two ranks of one host. net: two network namespaces with 1 Gbit/s between them. held: three on a switch, 1 Gbit/s
# each, held to 0.6 of a core each by cgroups. The last two for root.
. "$(dirname "$0")/lib.bash"
[ "${*:-memory}" = memory ] || needs_hosts
declare -A models=(
  [mlp]="mlp:context=32,embed=64,hidden=2048,layers=4"
  [gpt-10m]="gpt2:layers=6,heads=6,embed=384,context=256,vocab=256,bias=0"
  [gpt-30m]="gpt2:layers=10,heads=8,embed=512,context=256,vocab=256,bias=0")
declare -A batches=([mlp]=1024 [gpt-10m]=12 [gpt-30m]=6) steps=([mlp]=40 [gpt-10m]=20 [gpt-30m]=10)
seq 1 600000 >"$work/text.txt"

declare -A ranks=([memory]=2 [net]=2 [held]=3)
all_ranks() { # TRANSPORT COMMAND...
  local transport=$1; shift
  if [ "$transport" = memory ]; then mpirun --bind-to none -n 2 "$@"; else on_hosts -n "${ranks[$transport]}" "$@"; fi
}

printf '%-9s %-7s %-6s %-14s %9s %9s %7s %14s\n' model speeds over shares predicted measured error band
for transport in "${@:-memory}"; do
  speeds="1 0.5 0.25"
  case $transport in
    net) hosts_up 1gbit ;;
    held) hosts_cpu=0.6 speeds=1; hosts_switch 1gbit/1gbit 1gbit/1gbit 1gbit/1gbit ;;
  esac
  for speed in $speeds; do
    emulate=()
    [ "$speed" = 1 ] || emulate=(--emulate "speed=1,$speed")
    for name in ${MODELS:-mlp gpt-10m gpt-30m}; do
      job=(--model "${models[$name]}" --batch "${batches[$name]}" --steps "${STEPS:-${steps[$name]}}")
      run=$work/$transport-$speed-$name
      all_ranks "$transport" "$motley" profile "${emulate[@]}" "${job[@]}" --budget "${BUDGET:-75}" -o "$run.cluster.json" >"$run.profile.txt" 2>&1
      "$motley" plan --cluster "$run.cluster.json" "${job[@]}" --use all -o "$run.plan.json" >"$run.plan.txt"
      all_ranks "$transport" "$motley" train "$run.plan.json" --data "$work/text.txt" --val-fraction 0 --out "$run" \
        "${emulate[@]}" >"$run.train.txt" 2>&1
      shares=$(grep -A8 '"name": "batch"' "$run.plan.json" | grep -o '"sizes": \[[0-9, ]*' | grep -o '[0-9][0-9, ]*' | head -n 1)
      grep -A3 '"prediction"' "$run.plan.json" >"$run.prediction.txt"
      awk -v name="$name" -v speed="1:$speed" -v over="$transport" -v shares="$shares" \
        -v p="$(field predicted_step_s "$run/run.json")" -v m="$(field step_s "$run/run.json")" \
        -v above="$(field error "$run.prediction.txt")" -v below="$(field error_below "$run.prediction.txt")" 'BEGIN {
          if (below == "") below = above
          inside = m >= p * (1 - below) && m <= p * (1 + above)
          printf "%-9s %-7s %-6s %-14s %7.4f s %7.4f s %+6.1f%% %+5.1f%% %+5.1f%% %s\n", name, speed, over, shares, p, m,
            100 * (p / m - 1), -100 * below, 100 * above, inside ? "inside" : "OUTSIDE" }'
    done
  done
  [ "$transport" = memory ] || hosts_down
  hosts_cpu=
done | tee "$work/rows.txt"
awk '{ e = $(NF-3); sub(/%/, "", e); e += 0; signed += e; if (e < 0) e = -e; sum += e; if (e > worst) worst = e; n++
       low = $(NF-2); high = $(NF-1); sub(/%/, "", low); sub(/%/, "", high); half[n] = (high - low) / 2; inside += $NF == "inside" }
  END { for (i = 2; i <= n; i++) for (k = i; k > 1 && half[k] < half[k-1]; k--) { t = half[k]; half[k] = half[k-1]; half[k-1] = t }
        printf "%d runs: mean error %.1f%%, signed %+.1f%%, worst %.1f%%; %d inside their bands, median half-width %.1f%%\n",
          n, sum / n, signed / n, worst, inside, half[int((n + 1) / 2)] }' "$work/rows.txt"
