#!/usr/bin/env bash
# Training with overlapped GEMMs on GPUs, by copy engines, in one kernel and by NCCL, and with messages by copy engines: a
# rank that is killed or stopped, and one whose kernel is held for 60 s on the GPU, in a captured step and in one that is
# traced: all ranks end within ten seconds, and the rank is named. Two ranks share a GPU where there is one.
. "$SOURCE/tests/cli/lib.bash"
N=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
if [ "${N:-0}" -lt 1 ]; then
  echo "skipped: there is no GPU"
  exit 77
fi
export MOTLEY_TUNE=off
here=$(hostname)
seq 1 60000 >text.txt
$MOTLEY plan --model gpt2:layers=2,heads=4,embed=256,context=128,vocab=256 --batch 16 --ranks 2 --precision bf16 \
  --storage split --overlap scatter --steps 1000000 -o plan.json >plan.txt
$MOTLEY plan --model gpt2:layers=2,heads=4,embed=256,context=128,vocab=256 --batch 16 --ranks 2 --precision bf16 \
  --storage split --overlap none --steps 1000000 -o engines.json >plan.txt

# train FORM FLAG...: each rank leaves its process number.
train() {
  local form=$1
  shift
  SHARED=$((N < 2)) FORM=$form mpirun --bind-to none -n 2 bash -c '
    rank=$OMPI_COMM_WORLD_RANK
    echo $$ >pid.$rank
    export LD_PRELOAD=$HOLD MOTLEY_HOLD=1
    if [ $FORM = engines ]; then export MOTLEY_COLLECTIVES=engines; else export MOTLEY_OVERLAP=$FORM; fi
    if [ $SHARED = 1 ]; then
      export MOTLEY_ALONE=1 NCCL_HOSTID=rank$rank NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo
    fi
    exec "$0" train "$@" --device cuda --data text.txt --val-fraction 0' "$MOTLEY" "$@"
}

# fault FORM SIGNAL PATTERN FLAG...: to rank 1, or HOLD; within ten seconds all are gone, and the output has the pattern.
# EARLY: held in the first step, which is not captured yet.
fault() {
  local form=$1 signal=$2 pattern=$3 code=0 job plan=plan
  shift 3
  rm -rf run run.txt pid.* ran.* hold
  [ "$signal" != EARLY ] || touch hold
  [ "$form" != engines ] || plan=engines
  train "$form" $plan.json --out run --log-every 1 "$@" >run.txt 2>&1 &
  job=$!
  for _ in $(seq 900); do # kernels are compiled at first
    if grep -q '^step [1-9][0-9]/' run.txt || ! kill -0 $job 2>/dev/null; then break; fi
    if [ "$signal" = EARLY ] && [ -f ran.overlap_begin ]; then break; fi
    sleep 0.1
  done
  if [ "$signal" != EARLY ]; then
    grep -q '^step [1-9][0-9]/' run.txt || fail "it does not train: $(cat run.txt)"
    case $form in
      chunks) [ -f ran.overlap_await ] && [ ! -f ran.overlap_fused ] || fail "it is not by chunks" ;;
      fused) [ -f ran.overlap_fused ] || fail "it is not in one kernel" ;;
      engines) [ -f ran.engine_sum ] && [ -f ran.engine_copy ] || fail "no message is by copy engines" ;;
      nccl) [ -f ran.overlap_begin ] && [ ! -f ran.overlap_await ] && [ ! -f ran.overlap_fused ] || fail "it is not by NCCL" ;;
    esac
  fi
  case $signal in
    HOLD) touch hold ;;
    EARLY) ;;
    *) kill "-$signal" "$(cat pid.1)" ;;
  esac
  ranks_end 10 "$form, $signal, flags '$*'"
  wait $job || code=$?
  [ $code != 0 ] || fail "$form, $signal, flags '$*': it ended well: $(cat run.txt)"
  grep -q "$pattern" run.txt || fail "no '$pattern': $(cat run.txt)"
}

named="^motley: rank 1 on $here has .*was last in .*"
waits="rank 0 on $here has waited for 3 s for rank 1, for .* of GEMM+ReduceScatter"
forms=chunks
if nvidia-smi --query-gpu=compute_cap --format=csv,noheader | has '^9.0'; then forms="chunks fused"; fi
for form in $forms; do
  fault $form HOLD "$waits" --deadline 3
  fault $form KILL "$named"
  fault $form STOP "$named.*its process is stopped\|its process is stopped.*"
done
fault engines HOLD "rank 0 on $here has waited for 3 s for rank 1, to " --deadline 3
fault engines KILL "$named"
fault engines STOP "$named.*its process is stopped\|its process is stopped.*"
# In the first step ranks may wait in NCCL, whose collectives know no rank: its communicator's deadline comes later.
fault chunks EARLY "$waits\|rank 1 on $here has made no progress for .* s, in step 1, GEMM+ReduceScatter" --deadline 1
fault nccl KILL "$named"
fault nccl HOLD "rank 1 on $here has made no progress for .* s, in step [0-9]*, .*GEMM+ReduceScatter\|no progress for .* s: stream.* in GEMM+ReduceScatter" --deadline 1
