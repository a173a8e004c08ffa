#!/usr/bin/env bash
# Overlapped GEMMs in training between two hosts with a GPU each, as two host names of this one make them: no rank
# reaches the other's memory, so NCCL moves what others put. The same bits each time, and the loss of the same plan
# without overlapped GEMMs. The two may share a GPU.
. "$SOURCE/tests/cli/lib.bash"
nvidia-smi -L 2>/dev/null | has '^GPU' || { echo "skipped: there is no GPU"; exit 77; }
unshare --uts true 2>/dev/null || { echo "skipped: it takes the right to name hosts"; exit 77; }
export MOTLEY_TUNE=off
seq 1 60000 >text.txt
plan() { # HOW FILE
  $MOTLEY plan --model gpt2:layers=2,heads=4,embed=256,context=128,vocab=256 --batch 16 --ranks 2 --precision bf16 \
    --storage split --storage-speeds 3,2 --overlap "$1" --steps 20 -o "$2" >plan.txt
}
plan scatter plan.json
plan none plain.json
train() { # OUT PLAN
  mpirun --bind-to none -n 2 unshare --uts bash -c '
    hostname "host$OMPI_COMM_WORLD_RANK"
    export MOTLEY_ALONE=1 LD_PRELOAD=$HOLD NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
    exec "$0" train "$@" --device cuda --data text.txt --val-fraction 0 --log-every 1' \
    "$MOTLEY" "$2" --out "$1" >"$1.txt" 2>&1 || fail "$(cat "$1.txt")"
}
hash_of() { sed -n 's/.*"parameter_hash": "\([0-9a-f]*\)".*/\1/p' "$1/run.json" | head -n 1; }
loss_of() { sed -n 's/^step 20\/20  loss \([0-9.]*\).*/\1/p' "$1.txt"; }
for out in first second; do
  rm -f ran.*
  train $out plan.json
  [ -f ran.overlap_begin ] && [ ! -f ran.overlap_await ] && [ ! -f ran.overlap_fused ] ||
    fail "it is not by NCCL: $(ls) $(cat $out.txt)"
done
[ -n "$(hash_of first)" ] && [ "$(hash_of first)" = "$(hash_of second)" ] || fail "other bits: $(hash_of first), $(hash_of second)"
train plain plain.json
echo "losses $(loss_of first) and, without overlapped GEMMs, $(loss_of plain); $(grep '^step 20/' first.txt plain.txt)"
awk -v a="$(loss_of first)" -v b="$(loss_of plain)" 'BEGIN { exit !(a > 0 && b > 0 && a - b < 0.02 && b - a < 0.02) }' ||
  fail "losses differ: $(loss_of first), $(loss_of plain)"
