#!/usr/bin/env bash
# From which batch on it is faster to reduce the gradients of weights than to gather their factors and multiply, as
# predicted and as measured: for doubling batches the plans of two strategies, in turn in one process (motley bench
# plans), on two hosts (network namespaces, for root) with a slow link between them; or on GPUs.
#
#   tests/bench/factors.sh [BATCH...]
#   DEVICE=cuda RANKS=2 tests/bench/factors.sh
#
# MODEL, PRECISION; REDUCE and FACTORS, the strategies [data, factors]; RATE of the link; BUDGET of the profile, or CLUSTER,
# a profile that there is; PROFILE and PLAN, more flags of these commands; STEPS and TURNS of each plan. DEVICE=cuda: the
# GPUs of this host. A crossover is where the ratio of the steps is 1, between two batches in proportion to its logarithm.
. "$(dirname "$0")/lib.bash"
device=${DEVICE:-cpu} ranks=${RANKS:-2}
if [ "$device" = cuda ]; then
  needs nvidia-smi
  budget=15 model=${MODEL:-mlp:layers=4,hidden=8192,context=4} precision=${PRECISION:-bf16} steps=${STEPS:-10} turns=${TURNS:-3}
  [ $# -gt 0 ] || set -- 256 512 1024 2048 4096
  run() { mpirun --bind-to none "$@"; }
else
  needs_hosts
  budget=20 model=${MODEL:-mlp:layers=3,hidden=1024,context=4} precision=${PRECISION:-f32} steps=${STEPS:-4} turns=${TURNS:-3}
  [ $# -gt 0 ] || set -- 32 64 128 256 512 1024
  hosts_up "${RATE:-1gbit}"
  run() { on_hosts "$@"; }
fi
read -ra profile_flags <<<"${PROFILE:-}"
read -ra plan_flags <<<"${PLAN:-}"
cluster=${CLUSTER:-$work/cluster.json}
[ -n "${CLUSTER:-}" ] ||
  run -n "$ranks" "$motley" profile --device "$device" --model "$model" --batch "${@: -1}" --precision "$precision" \
    --budget "${BUDGET:-$budget}" "${profile_flags[@]}" -o "$cluster" >"$work/profile.txt" 2>&1 || { tail -n 5 "$work/profile.txt" >&2; exit 1; }

plan() { # STRATEGY BATCH
  "$motley" plan --cluster "$cluster" --model "$model" --batch "$2" --precision "$precision" --use all --strategy "$1" \
    "${plan_flags[@]}" -o "$work/$1-$2.json" >"$work/$1-$2.txt"
}
# BATCH: a line of the batch, predicted and measured steps of both, in ms, and their ratio by turns
compare() {
  run -n "$ranks" "$motley" bench plans "$work/$reduce-$1.json" "$work/$factors-$1.json" --steps "$steps" --warmup 3 \
    --repetitions "$turns" --json="$work/$1.json" >"$work/$1.txt" 2>&1 || { tail -n 5 "$work/$1.txt" >&2; return 1; }
  awk -v batch="$1" 'function number(key) { if (!match($0, "\"" key "\": [^,}]*")) return 0
      return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) + 0 }
    /"predicted_s"/ { predicted[++n] = 1e3 * number("predicted_s") }
    /"step_s"/ { step[n] = 1e3 * number("step_s") }
    /"ratio_to_first"/ { ratio = number("median") }
    END { print batch, predicted[1], predicted[2], step[1], step[2], ratio }' "$work/$1.json"
}
reduce=${REDUCE:-data} factors=${FACTORS:-factors}
echo "$model, $precision, $ranks ranks: $factors against $reduce"
echo "         predicted, ms                  measured, ms"
echo "  batch   reduced  gathered   ratio   reduced  gathered   ratio"
for batch; do
  plan "$reduce" "$batch"
  plan "$factors" "$batch"
  compare "$batch" | tee -a "$work/rows.txt" |
    awk '{ printf "%7d %9.3f %9.3f %7.3f %9.3f %9.3f %7.3f\n", $1, $2, $3, $3 / $2, $4, $5, $6 }'
done
awk 'function crossover(ratio,   i, x) {
    for (i = 2; i <= n; i++) if (ratio[i - 1] < 1 && ratio[i] >= 1) {
      x = log(ratio[i - 1]) / (log(ratio[i - 1]) - log(ratio[i]))
      return exp(log(batch[i - 1]) + x * (log(batch[i]) - log(batch[i - 1]))) }
    return 0 }
  { batch[++n] = $1; predicted[n] = $3 / $2; measured[n] = $6 }
  END {
    p = crossover(predicted); m = crossover(measured)
    if (!p || !m) { printf "crossover: %s predicted, %s measured in these batches\n", p ? p : "none", m ? m : "none"; exit 1 }
    off = log(p / m) / log(2)
    printf "crossover: batch %.0f predicted, %.0f measured: %+.2f doublings apart\n", p, m, off
    exit !(off <= 1 && off >= -1) }' "$work/rows.txt"
