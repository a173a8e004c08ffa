#!/usr/bin/env bash
# Jobs on GPUs that go wrong: a rank killed or stopped in mid-step, with and without heartbeats; the rest end within ten
# seconds and name it, the checkpoint is whole, and fewer ranks go on with another plan. Runs that go well: the same
# bits every time, and on every rank. What is refused: too many ranks, two on one GPU, GPUs with CPUs.
# MOTLEY_REPEATS says how many runs are compared [5].
. "$SOURCE/tests/cli/lib.bash"
N=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then N=$(tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .); fi
if [ "${N:-0}" -lt 2 ]; then
  echo "skipped: $N GPUs; it takes two"
  exit 77
fi
if [ "$N" -gt 4 ]; then
  N=4
  export CUDA_VISIBLE_DEVICES=0,1,2,3
fi
here=$(hostname)
seq 1 60000 >text.txt
speeds=$(seq "$N" | awk '{ print ($1 % 2 ? 1 : 0.6) }' | paste -sd,)
plan() { # RANKS FILE FLAG...
  local ranks=$1 file=$2
  shift 2
  $MOTLEY plan --model gpt2:layers=4,heads=4,embed=256,context=128,vocab=256 --batch 24 --ranks "$ranks" \
    --precision bf16 --dropout 0.1 -o "$file" "$@"
}
plan "$N" plan.json --speeds "$speeds" --steps 1000000 >plan.txt
plan $((N - 1)) fewer.json --steps 1000000 >plan.txt

# train RANKS FLAG...: each rank leaves its process number.
train() {
  local ranks=$1
  shift
  mpirun -n "$ranks" bash -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec "$0" train "$@" --device cuda --data text.txt --val-fraction 0' \
    "$MOTLEY" "$@"
}

# fault RANK SIGNAL SECONDS PATTERN FLAG...: within so many seconds all are gone, and the output has the pattern.
fault() {
  local rank=$1 signal=$2 seconds=$3 pattern=$4 code=0 job
  shift 4
  rm -rf run run.txt pid.*
  train "$N" plan.json --out run --checkpoint-every "$every" --log-every 1 "$@" >run.txt 2>&1 &
  job=$!
  for _ in $(seq 900); do # kernels are compiled at first
    if grep -q '^step [3-9][0-9]/' run.txt || ! kill -0 $job 2>/dev/null; then break; fi
    sleep 0.1
  done
  grep -q '^step [3-9][0-9]/' run.txt || fail "it does not train: $(cat run.txt)"
  kill "-$signal" "$(cat "pid.$rank")"
  ranks_end "$seconds" "rank $rank, signal $signal, flags '$*'"
  wait $job || code=$?
  [ $code != 0 ] || fail "rank $rank, signal $signal, flags '$*': it ended well: $(cat run.txt)"
  grep -q "$pattern" run.txt || fail "no '$pattern': $(cat run.txt)"
  [ "$every" -gt 100 ] || $MOTLEY sample run --tokens 1 >sampled.txt 2>&1 || fail "no whole checkpoint: $(cat sampled.txt)"
}

last=$((N - 1))
every=20
fault $last KILL 10 "^motley: rank $last on $here has .*was last in .*"
# Without heartbeats it is a deadline that ends it: that of the GPU's streams or, where others were a step ahead, that of
# what ranks tell each other between steps. Both name the device and the instruction. Here 1.25 * 3 + 2 s, and what
# mpirun takes. No checkpoints: it could be in one that the rank is stopped, and those have no deadline.
every=1000000
where="\(: no progress for .* s: stream.* .comm. in\|, in\( .*, concurrent with\)\{0,1\}\) \([A-Z][A-Za-z]* \|a copy \)"
fault $last STOP 12 "^motley: rank [0-9]* on $here: step [0-9]*: NVIDIA.*$where" --heartbeat 0 --deadline 3
every=20
fault 0 KILL 10 "^motley: rank 0 on $here has .*was last in .*"
fault $last STOP 10 "^motley: rank $last on $here has .*its process is stopped.*was last in .*"

# What the doctor sees of it.
mpirun -n "$N" "$MOTLEY" doctor plan.json --device cuda --data text.txt >doctor.txt 2>&1 || fail "$(cat doctor.txt)"
for found in 'driver .*for CUDA [0-9]' 'libraries NVRTC [0-9].*cuBLASLt [0-9].*NCCL [0-9.]* [(]/' "gpus .*rank $last: NVIDIA .* at 0" \
  "precision every GPU computes in the plan's bf16" "memory .*rank $last: .* are free, the plan needs " "nccl .*$here: NCCL"; do
  grep -qE "^(ok|warning) *$found" doctor.txt || fail "doctor: no '$found': $(cat doctor.txt)"
done
cat doctor.txt
code=0
mpirun -n $((N + 1)) "$MOTLEY" doctor --device cuda >doctor.txt 2>&1 || code=$?
[ $code = 1 ] && grep -q "^FAILURE *gpus .*rank $N on $here: $((N + 1)) ranks of $here see $N GPUs" doctor.txt ||
  fail "doctor: code $code: $(cat doctor.txt)"

# The ranks that are left go on with a plan for as many.
code=0
until=$(($(ls run | sed -n 's/^step-0*\([0-9]*\)\.safetensors$/\1/p' | sort -n | tail -n 1) + 20))
train $((N - 1)) fewer.json --resume run --steps "$until" >resumed.txt 2>&1 || code=$?
[ $code = 0 ] || fail "resumed: code $code: $(cat resumed.txt)"
grep -q "^step $until/$until" resumed.txt || fail "$(cat resumed.txt)"
echo "resumed on $((N - 1)): $(tail -n 1 resumed.txt)"

# The same bits every time; and on every rank, after 200 uneven steps.
hash_of() { sed -n "s/^parameter hashes equal on $N ranks (\([0-9a-f]*\)).*/\1/p" "$1"; }
for i in $(seq "${MOTLEY_REPEATS:-5}"); do
  train "$N" plan.json --steps 30 >"same.$i" 2>&1 || fail "$(cat "same.$i")"
  [ -n "$(hash_of "same.$i")" ] || fail "no hash: $(cat "same.$i")"
  [ "$(hash_of "same.$i")" = "$(hash_of same.1)" ] || fail "run $i ends with other parameters: $(cat "same.$i")"
done
echo "${MOTLEY_REPEATS:-5} runs of 30 steps: $(hash_of same.1)"
train "$N" plan.json --steps 200 --hash-every 50 >long.txt 2>&1 || fail "$(cat long.txt)"
[ -n "$(hash_of long.txt)" ] || fail "$(cat long.txt)"
echo "200 uneven steps: $(grep '^parameter hashes' long.txt)"

# Multiprocessors that are left out, as far as GPUs can be divided.
train "$N" plan.json --steps 10 --out emulated --emulate sm=32 >emulated.txt 2>&1 || fail "$(cat emulated.txt)"
grep -q "^motley: $N ranks of emulated multiprocessors 32, gpt2:" emulated.txt || fail "$(cat emulated.txt)"
grep -q "multiprocessors that compute: 32 of [0-9]*, 32 of .*communication kernels may use all" emulated.txt ||
  fail "$(cat emulated.txt)"
[ "$(grep -c '"multiprocessors": 32, "all_multiprocessors": [1-9]' emulated/run.json)" = "$N" ] ||
  fail "$(cat emulated/run.json)"
no_job() { # CODE TEXT RANKS FLAG...
  local code=0
  timeout -k 1 60 mpirun -n "$3" "$MOTLEY" train "${@:4}" --data text.txt --val-fraction 0 >out.txt 2>&1 || code=$?
  [ $code = "$1" ] || fail "'${*:3}' ended with $code: $(cat out.txt)"
  grep -qF -- "$2" out.txt || fail "'${*:3}' said $(cat out.txt), not '$2'"
}
no_job 2 "--emulate sm: 5000 multiprocessors cannot be had of" "$N" plan.json --device cuda --emulate sm=5000
no_job 2 "--emulate sm: is 0, but must be from 1" "$N" plan.json --device cuda --emulate sm=0

# More ranks than GPUs, two on one, GPUs with CPUs.
plan 2 two.json --steps 3 >plan.txt
export CUDA_VISIBLE_DEVICES=0
no_job 3 "2 ranks of $here see 1 GPU (CUDA_VISIBLE_DEVICES is \"0\"), and each takes one of its own" 2 two.json --device cuda
unset CUDA_VISIBLE_DEVICES
code=0
mpirun -n 1 -x CUDA_VISIBLE_DEVICES=0,1 "$MOTLEY" train two.json --data text.txt --val-fraction 0 --device cuda : \
  -n 1 -x CUDA_VISIBLE_DEVICES=0 "$MOTLEY" train two.json --data text.txt --val-fraction 0 --device cuda >out.txt 2>&1 || code=$?
[ $code = 2 ] && has "two ranks of $here would share a GPU: NVIDIA" out.txt || fail "code $code: $(cat out.txt)"
mpirun -n 1 -x CUDA_VISIBLE_DEVICES=1 "$MOTLEY" train two.json --data text.txt --val-fraction 0 --device cuda : \
  -n 1 -x CUDA_VISIBLE_DEVICES=0 "$MOTLEY" train two.json --data text.txt --val-fraction 0 --device cuda >out.txt 2>&1 ||
  fail "each its own GPU: $(cat out.txt)"
code=0
mpirun -n 1 "$MOTLEY" train two.json --data text.txt --val-fraction 0 --device cuda : \
  -n 1 "$MOTLEY" train two.json --data text.txt --val-fraction 0 --device cpu >out.txt 2>&1 || code=$?
[ $code = 2 ] && has "the kind of device is not the same on all ranks: rank 0 on $here has cuda, rank 1 on $here has cpu" out.txt ||
  fail "code $code: $(cat out.txt)"
