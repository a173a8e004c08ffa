#!/usr/bin/env bash
# The planner's choice beside the classic strategies, on this host's GPUs: `motley bench plans` of data, zero1, zero3,
# tensor and tensor+sequence parallel plans, and of what the search takes by a profile, with overlapped GEMMs and without.
# (hierarchical_gpu.sh has those for several hosts.)
#
#   tests/bench/classics_gpu.sh      # MODEL, BATCH (of all), STEPS and REPETITIONS of a turn, BUDGET (seconds of the profile)
#
# DEVICE=cpu, RANKS, with a small MODEL: to try the script without GPUs. KEEP: a folder for documents.
. "$(dirname "$0")/lib.bash"
device=${DEVICE:-cuda} model=${MODEL:-gpt2:774m,vocab=50304} batch=${BATCH:-32}
if [ "$device" = cuda ]; then
  needs nvidia-smi
  n=$(nvidia-smi -L | wc -l)
else
  n=${RANKS:-4}
fi
job=(--model "$model" --batch "$batch" --precision bf16)
mpirun --bind-to none -n "$n" "$motley" profile --device "$device" "${job[@]}" --budget "${BUDGET:-30}" -o "$work/cluster.json" \
  >"$work/profile.txt" 2>&1 || { tail -n 5 "$work/profile.txt" >&2; exit 1; }
plans=()
# planned NAME FLAG...: what cannot be planned is said, and left out
planned() {
  if "$motley" plan "${job[@]}" --steps 100 -o "$work/$1.json" "${@:2}" >"$work/$1.txt" 2>&1; then
    plans+=("$work/$1.json")
  else
    echo "$1: $(tail -n 1 "$work/$1.txt")"
  fi
}
for strategy in data zero1 zero3 tensor tensor+sequence; do
  planned "$strategy" --cluster "$work/cluster.json" --use all --strategy "$strategy"
done
planned ours --cluster "$work/cluster.json"
planned ours-without --cluster "$work/cluster.json" --overlap none
mpirun --bind-to none -n "$n" "$motley" bench plans "${plans[@]}" --device "$device" --steps "${STEPS:-15}" \
  --repetitions "${REPETITIONS:-3}" --json="$work/plans.json"
