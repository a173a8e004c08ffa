#!/usr/bin/env bash
# What the README says of GPUs, again on this host, part by part, each with the seconds that it took.
#
#   tests/bench/results_gpu.sh PART...
#
#   right     tests on GPUs: by how many ranks, code (0: passed, 77: skipped), seconds; two at a time on pairs of GPUs
#   agree     one GPU, all of them and the CPU train the same; ranks that are killed or stopped, with overlapped kernels
#             too; equal bits of REPEATS runs
#   overlap   GEMMs and their collectives at SHAPES, and with SHARES ("5:3 7:1"), beside OVERLAP_PEER, a script that is
#             run as `torchrun OVERLAP_PEER SHAPE...`
#   train     overlap_train.sh equal unequal tensor samples
#   scaling   scaling_gpu.sh equal unequal, 124M, beside PEER
#   large     1558M with states in shares, on one GPU each and together
#   plans     classics_gpu.sh
#   nodes     hierarchical_gpu.sh, four GPUs
#   predict   predicted against measured steps and memory: 12 plans of sizes that no profile saw
#
# BIN: folder of test programs [build/release/tests]. MOTLEY, PEER, ROUNDS: as those scripts say. KEEP: a folder for what
# is measured.
. "$(dirname "$0")/lib.bash"
[ $# -gt 0 ] || { sed -n '2,/^\. /s/^# \?//p' tests/bench/results_gpu.sh >&2; exit 2; }
needs nvidia-smi mpirun
n=$(nvidia-smi -L | wc -l) bin=${BIN:-$PWD/build/release/tests}
export MOTLEY=$motley SOURCE=${SOURCE:-$PWD}

# one RANKS GPUS PROGRAM [ARGUMENT]: a row, and its first lines if it failed
one() {
  local code=0 begin=$EPOCHREALTIME log=$work/$3-$1-${4:+${4%/*}}.log
  CUDA_VISIBLE_DEVICES=$2 mpirun --bind-to none -n "$1" "$bin/$3" ${4:+"$4"} >"$log" 2>&1 || code=$?
  awk -v p="$3${4:+ $4}" -v n="$1" -v c=$code -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%-24s %d ranks, code %d, %.0f s\n", p, n, c, b - a }'
  [ $code = 0 ] || [ $code = 77 ] || grep -v '^\[\|^--' "$log" | head -n 8
}
# Half of the GPUs each, at the same time.
right() {
  local all part first=0 second=0
  all=$(seq 0 $((n - 1)) | paste -sd,)
  if [ "$n" -ge 2 ]; then first=0,1 second=0,1; fi
  if [ "$n" -ge 4 ]; then second=2,3; fi
  {
    for part in 0 1 2 3; do one 1 "${first%,*}" test_cuda_fused $part/4 & done
    wait
    one 2 "$first" mpi_cuda_engines
    one 3 "$first" mpi_cuda_overlap
  } & local beside=$!
  [ "$first" != "$second" ] || wait $beside
  one 2 "$second" mpi_cuda_window
  one 2 "$second" mpi_cuda_overlap
  one 2 "$second" mpi_cuda_stall
  one 3 "$second" mpi_cuda_overlapped
  wait
  one "$n" "$all" mpi_cuda_comm
  one "$n" "$all" mpi_cuda_executor
  [ "$n" -le 2 ] || one "$n" "$all" mpi_cuda_overlap
}

agree() {
  local script
  for script in agree_gpu faults_gpu faults_overlap_gpu; do
    (mkdir -p "$work/$script" && cd "$work/$script" && COMPARE=$bin/compare_checkpoints FAULTS=$bin/faults.so HOLD=$bin/hold.so \
      MOTLEY_REPEATS=${REPEATS:-10} bash "$SOURCE/tests/cli/$script.sh" 2>&1 | tail -n 12; echo "$script: code ${PIPESTATUS[0]}")
  done
}

overlap() {
  local shapes=() shape form share all
  read -ra all <<<"${SHAPES:-8192,1024,8192 8192,2048,8192 8192,4096,8192 8192,8192,8192 8192,14336,4096 8192,4096,14336}"
  for shape in "${all[@]}"; do shapes+=(--shape "$shape"); done
  for form in gather scatter reduce; do
    for share in "" ${SHARES:-}; do
      mpirun --bind-to none -n "$n" "$motley" bench overlap --device cuda --form "$form" "${shapes[@]}" \
        --seconds "${SECONDS_EACH:-1}" ${share:+--shares "$share"} --json="$work/overlap-$form${share:+-${share//:/-}}.json" 2>&1
    done
  done
  [ -z "${OVERLAP_PEER:-}" ] || torchrun --nproc-per-node "$n" "$OVERLAP_PEER" "${all[@]}" 2>"$work/peer.txt" || tail -n 3 "$work/peer.txt"
}

train() { RANKS=$n tests/bench/overlap_train.sh equal unequal tensor samples; }
plans() { tests/bench/classics_gpu.sh; }
nodes() { tests/bench/hierarchical_gpu.sh; }
scaling() { tests/bench/scaling_gpu.sh equal unequal; }
large() {
  MODEL=gpt2:1558m,vocab=50304 BATCH=16 STEPS=${STEPS:-40} STORAGE=split PLAN="--bucket-bytes 256MiB" MODE=fsdp \
    SIZE="48 25 1600 1024" PEER_ROUNDS=1 tests/bench/scaling_gpu.sh equal
}
predict() {
  local speeds=(1 0.5)
  if [ "$n" -ge 2 ]; then speeds=("$(yes 1 | head -n "$n" | paste -sd,)" "$(printf '%s\n' 1 1 0.5 0.25 | tail -n "$n" | paste -sd,)"); fi
  MODELS="gpt2:layers=16,heads=12,embed=768,context=1024,vocab=50304 gpt2:layers=10,heads=16,embed=1280,context=1024,vocab=50304" \
    BATCHES="5 11 20" tests/bench/prediction_gpu.sh "${speeds[@]}"
}

for what in "$@"; do
  case $what in
  right | agree | overlap | train | scaling | large | plans | nodes | predict)
    began=$SECONDS
    echo "== $what"
    "$what" || echo "$what: code $?"
    echo "   $((SECONDS - began)) s"
    ;;
  *) echo "results_gpu.sh: \"$what\" is none of its parts" >&2; exit 2 ;;
  esac
done
