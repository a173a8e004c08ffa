#!/usr/bin/env bash
# How much of the gradients' communication training hides behind the backward pass, and what that costs computing: two
# hosts (network namespaces) with 1 Gbit/s between them, against the same shares without communication. For root.
#
#   tests/bench/overlap.sh [STEPS]
#
# What backward could hide: the communication, but no more than backward computes (two thirds of a step). Hidden: what
# does not make the step longer than computing takes.
. "$(dirname "$0")/lib.bash"
needs_hosts
steps=${1:-12}
job=(--model gpt2:layers=6,heads=6,embed=384,context=256,vocab=256,bias=0 --steps "$steps")
seq 1 400000 >"$work/text.txt"
train=(--data "$work/text.txt" --val-fraction 0)
least() { grep -o "\"$1\": [0-9.e+-]*" "$2" | cut -d' ' -f2 | sort -g | head -n 1; } # of all ranks

"$motley" plan "${job[@]}" --batch 6 --ranks 1 -o "$work/alone.json" >/dev/null
hosts_up 1gbit
on_hosts -n 2 "$motley" profile "${job[@]}" --batch 12 --budget "${BUDGET:-40}" -o "$work/cluster.json" >"$work/profile.txt" 2>&1
"$motley" plan --cluster "$work/cluster.json" "${job[@]}" --batch 12 --shares 6,6 -o "$work/both.json" >"$work/plan.txt"
for round in 1 2 3; do # in turn, as the machine's own speed drifts
  on_hosts -n 2 "$motley" train "$work/both.json" "${train[@]}" --out "$work/both" >"$work/both.txt" 2>&1
  for core in 0 1; do
    taskset -c $core "$motley" train "$work/alone.json" "${train[@]}" --out "$work/alone$core" >"$work/alone$core.txt" 2>&1 &
    running[core]=$!
  done
  wait "${running[@]}"
  alone=$(awk -v a="$(least step_compute_s "$work/alone0/run.json")" -v b="$(least step_compute_s "$work/alone1/run.json")" \
    'BEGIN { print (a + b) / 2 }')
  compute=$(grep -o '"step_compute_s": [0-9.e+-]*' "$work/both/run.json" | awk '{ sum += $2 } END { print sum / NR }')
  awk -v step="$(least step_s "$work/both/run.json")" -v comm="$(least step_comm_s "$work/both/run.json")" -v compute="$compute" \
    -v alone="$alone" 'BEGIN {
      could = comm < alone * 2 / 3 ? comm : alone * 2 / 3; exposed = step - compute; hidden = comm - exposed
      printf "step %.3f s: communication %.3f s, of which %.3f s could be hidden and %.3f s are (%.0f%%); computing %.3f s, alone %.3f s (%+.1f%%)\n",
        step, comm, could, hidden, 100 * hidden / could, compute, alone, 100 * (compute / alone - 1) }'
  rm -rf "$work"/both "$work"/alone?
done
