#!/usr/bin/env bash
# Predicted against measured steps, and memory, on GPUs: models x batches, on one or several GPUs, equal and made unequal.
# Profiles are taken before and see the models' layers, at other batch sizes than those that are compared. Memory is what
# nvidia-smi sees at most once steps are made (what is tuned before takes memory and gives it back), beyond what was held
# before; of the worst rank.
#
#   tests/bench/prediction_gpu.sh [SPEEDS]...      # as 1  1,1  1,0.5: a rank each; [all that this host has GPUs for]
#
# MODELS, BATCHES (of a GPU), BUDGET (seconds a profile and model), STEPS, TEXT (a file), KEEP (a folder for documents);
# CUDA_VISIBLE_DEVICES (numbers) is heeded.
. "$(dirname "$0")/lib.bash"
models=${MODELS:-gpt2:124m,vocab=50304 gpt2:355m,vocab=50304} batches=${BATCHES:-6 14 28}
needs nvidia-smi
smi=(nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"})
ngpus=$("${smi[@]}" --query-gpu=index --format=csv,noheader | wc -l)
if [ $# = 0 ]; then
  set -- 1 0.5
  if [ "$ngpus" -gt 1 ]; then set -- "$@" 1,1 1,0.5; fi
fi
text=${TEXT:-$work/text.txt}
[ -e "$text" ] || seq 1 600000 >"$text"

held() { "${smi[@]}" --query-gpu=memory.used --format=csv,noheader,nounits | tr '\n' ' '; }
watch_memory() { # of the run whose output is in FILE
  while sleep 0.1; do
    if grep -qs '^step ' "$1"; then held; echo; fi
  done
}

# one row: SPEEDS MODEL BATCH RANKS
compare() {
  local speeds=$1 model=$2 batch=$3 n=$4 run before watcher
  run=$work/$speeds-${model%%,*}-$batch
  job=(--model "$model" --batch "$batch" --steps "${STEPS:-16}" --precision bf16)
  "$motley" plan --cluster "$work/$speeds.json" "${job[@]}" -o "$run.plan.json" >"$run.plan.txt" 2>&1 || { cat "$run.plan.txt" >&2; return; }
  before=$(held)
  : >"$run.train.txt"
  watch_memory "$run.train.txt" >"$run.memory.txt" & watcher=$!
  mpirun --bind-to none -n "$n" "$motley" train "$run.plan.json" --data "$text" --val-fraction 0 --out "$run" --log-every 4 \
    --emulate "speed=$speeds" >"$run.train.txt" 2>&1 || tail -n 5 "$run.train.txt"
  kill $watcher
  wait $watcher 2>/dev/null || true
  shares=$(grep -A8 '"name": "batch"' "$run.plan.json" | grep -o '"sizes": \[[0-9, ]*' | grep -o '[0-9][0-9, ]*' | head -n 1)
  planned=$(grep -o '"arena_bytes": [0-9]*\(, "reserved_bytes": [0-9]*\)\?' "$run.plan.json" | tr -dc '0-9 \n' | awk '{ printf "%.0f ", ($1 + $2) / 1048576 }')
  awk -v name="${model%%,*}" -v speeds="$speeds" -v shares="${shares// /}" -v planned="$planned" -v before="$before" -v n="$n" \
    -v p="$(field predicted_step_s "$run/run.json")" -v m="$(field step_s "$run/run.json")" '
    { for (i = 1; i <= NF; i++) if ($i > most[i]) most[i] = $i }
    END {
      split(planned, want, " "); split(before, had, " ")
      for (i = 1; i <= n; i++) {
        took = most[i] - had[i]; e = took > 0 ? want[i] / took - 1 : 0
        if (i == 1 || e * e > worst * worst) { worst = e; w = want[i]; t = took }
      }
      printf "%-11s %-7s %-7s %8.2f ms %8.2f ms %+6.1f%% %7d MiB %7d MiB %+6.1f%%\n", name, speeds, shares, 1e3 * p, 1e3 * m,
        100 * (p / m - 1), w, t, 100 * worst }' "$run.memory.txt"
}

printf '%-11s %-7s %-7s %11s %11s %7s %11s %11s %7s\n' model speeds shares predicted measured error memory allocated error
for speeds in "$@"; do
  commas=${speeds//[^,]/} n=$((${#commas} + 1))
  if [ "$n" -gt "$ngpus" ]; then echo "$speeds: there are only $ngpus GPUs" >&2; continue; fi
  most=0 list=()
  for batch in $batches; do if [ "$batch" -gt "$most" ]; then most=$batch; fi; done
  for model in $models; do list+=(--model "$model"); done
  mpirun --bind-to none -n "$n" "$motley" profile --device cuda --emulate "speed=$speeds" "${list[@]}" --batch $((most * n)) \
    --precision bf16 --budget "${BUDGET:-40}" -o "$work/$speeds.json" >"$work/$speeds.profile.txt" 2>&1 ||
    { tail -n 5 "$work/$speeds.profile.txt" >&2; continue; }
  for model in $models; do
    for batch in $batches; do compare "$speeds" "$model" $((batch * n)) "$n"; done
  done
done | tee "$work/rows.txt"
awk 'function size(x) { sub(/%/, "", x); x += 0; return x < 0 ? -x : x }
  { e = size($8); f = size($NF); sum += e; if (e > worst) worst = e; all += f; if (f > most) most = f; n++ }
  END { if (!n) exit 1; printf "%d plans: step, mean error %.1f%%, worst %.1f%%; memory, mean error %.1f%%, worst %.1f%%\n", n, sum / n,
    worst, all / n, most }' "$work/rows.txt"
