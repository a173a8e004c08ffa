#!/usr/bin/env bash
# Hierarchical collectives on four GPUs as two hosts of two: by NCCL, over its sockets between them. A profile of the four,
# then each collective in NCCL's own way and in the hierarchical one, measured beside what the profile predicts, and
# `motley bench plans` of data, zero1, zero3, hybrid, mesh and tensor parallel plans, and of what the search takes. Hosts are host names of this machine, with two GPUs each;
# what is between them is its loopback. For root.
#
#   tests/bench/hierarchical_gpu.sh      # BUDGET: seconds of the profile; MODEL, BATCH; STEPS and REPETITIONS of a turn
#
# DEVICE=cpu: to try the script without GPUs. KEEP: a folder for documents. BIN: folder of test programs.
. "$(dirname "$0")/lib.bash"
device=${DEVICE:-cuda} bin=${BIN:-$PWD/build/release/tests}
[ "$device" = cpu ] || { needs nvidia-smi && [ "$(nvidia-smi -L | wc -l)" -ge 4 ]; } ||
  { echo "hierarchical_gpu.sh: needs four GPUs" >&2; exit 77; }
unshare --uts true 2>/dev/null || { echo "hierarchical_gpu.sh: it takes the right to name hosts" >&2; exit 77; }
agent=$work/agent
cat >"$agent" <<'END'
#!/bin/sh
# HOST COMMAND...: what mpirun calls instead of ssh, with a line for a shell
host=$1
shift
case $host in first) export CUDA_VISIBLE_DEVICES=0,1 ;; *) export CUDA_VISIBLE_DEVICES=2,3 ;; esac
exec unshare --uts sh -c 'hostname "$0"; exec sh -c "$1"' "$host" "$*"
END
chmod +x "$agent"
printf '%s slots=2\n' first second >"$work/hosts"
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
on_hosts() {
  mpirun --bind-to none -n 4 --hostfile "$work/hosts" --mca if_base_do_not_resolve 1 --mca plm_rsh_agent "$agent" --mca btl tcp,vader,self \
    --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo -x LD_LIBRARY_PATH -x PATH -x NCCL_SOCKET_IFNAME -x NCCL_IB_DISABLE \
    $(compgen -e | grep -E '^(MOTLEY|NCCL_NVLS)' | sed 's/^/-x /') "$@"
}
job=(--model "${MODEL:-gpt2:layers=8,heads=8,embed=512,context=256,vocab=8192}" --batch "${BATCH:-64}" --precision bf16)
on_hosts "$motley" profile --device "$device" "${job[@]}" --budget "${BUDGET:-30}" -o "$work/cluster.json" >"$work/profile.txt" 2>&1 ||
  { tail -n 5 "$work/profile.txt" >&2; exit 1; }
{ "$motley" show "$work/cluster.json" || [ $? = 6 ]; } | grep -A2 '^ *node ' # 6: it has warnings
[ "$device" = cpu ] || on_hosts "$bin/bench_cuda_collectives" --most 16MiB --cluster "$work/cluster.json"
plans=()
planned() { # NAME FLAG...
  "$motley" plan --cluster "$work/cluster.json" --use all "${job[@]}" --steps 100 -o "$work/$1.json" "${@:2}" >"$work/$1.txt" 2>&1 ||
    { echo "$1: $(tail -n 1 "$work/$1.txt")"; return; }
  plans+=("$work/$1.json")
  echo "$1: $(grep -o '"kind": "[A-Za-z]*", "algorithm": "[a-z_]*"' "$work/$1.json" | cut -d'"' -f4,8 | tr '"' ' ' | sort -u | paste -sd, | sed 's/,/, /g')"
}
for strategy in data zero1 zero3 hybrid mesh tensor; do planned $strategy --strategy $strategy; done
planned ours
on_hosts "$motley" bench plans "${plans[@]}" --device "$device" --steps "${STEPS:-10}" --repetitions "${REPETITIONS:-3}"
