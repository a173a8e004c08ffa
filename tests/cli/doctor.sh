#!/usr/bin/env bash
# motley doctor: says ok where all is well, and names what is not, with ranks, hosts and a remedy.
. "$SOURCE/tests/cli/lib.bash"
unset OMP_NUM_THREADS
seq 1 9000 >text.txt
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=16,context=16,vocab=256 --batch 6 --ranks 2 -o plan.json >/dev/null
here=$(hostname)

# doctor CODE COMMAND...: its findings go to found.txt.
doctor() {
  local want=$1 code=0
  shift
  "$@" >found.txt 2>err.txt || code=$?
  [ $code = "$want" ] || fail "'$*' ended with $code: $(cat found.txt err.txt)"
}
finds() { # LEVEL WHAT TEXT
  grep -q "^$1 *$2 .*$3" found.txt || fail "no '$1 $2 $3': $(cat found.txt)"
}

doctor 0 mpirun -n 2 "$MOTLEY" doctor plan.json --data text.txt --out run
finds ok versions "on 2 ranks, 1 host"
finds ok plan "fits the ranks and hosts"
finds ok data "43893 bytes, [0-9a-f]* on every rank"
finds ok out "run: writable, .* seen by all ranks"
finds ok network "reach each other"
finds ok memory "the plan needs"
[ ! -e run ] && [ ! -e .motley-doctor ] || fail "it left something behind: $(ls -A)"

# A plan for GPUs, looked at as if it were not.
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=16,context=16,vocab=256 --batch 6 --ranks 1 --device cuda -o gpus.json >/dev/null
doctor 0 "$MOTLEY" doctor gpus.json
finds warning plan "it is for GPUs"

# Files that are not what they should be on some rank.
mkdir -p a b
cp plan.json text.txt a
cp plan.json b
seq 2 9001 >b/text.txt
doctor 1 mpirun -n 1 -wdir a "$MOTLEY" doctor plan.json --data text.txt --out run : \
  -n 1 -wdir b "$MOTLEY" doctor plan.json --data text.txt --out run
finds FAILURE data "rank 1 on $here has 43896 bytes, .* rank 0 43893 bytes"
finds ok out "rank 0's own, which is enough"
rm b/plan.json
doctor 1 mpirun -n 1 -wdir a "$MOTLEY" doctor plan.json : -n 1 -wdir b "$MOTLEY" doctor plan.json
finds FAILURE plan "rank 1 on $here: plan.json: No such file"
doctor 1 mpirun -n 3 "$MOTLEY" doctor plan.json --data nothing.txt
finds FAILURE plan "for 2 ranks, but 3 processes"
finds FAILURE data "rank 2 on $here: nothing.txt: No such file"
doctor 0 "$MOTLEY" doctor
finds ok out "run, run-2, ... in this folder, without --out: writable, .* free"
doctor 0 "$MOTLEY" doctor --out new/
finds ok out "new/: writable"
echo precious >kept.txt
ln -s kept.txt .motley-doctor # must not be written through
doctor 0 "$MOTLEY" doctor --out run
[ "$(cat kept.txt)" = precious ] || fail "kept.txt was written over"
doctor 1 "$MOTLEY" doctor --out none/run
finds FAILURE out "none/run: cannot be written: No such file"

# Cores and threads.
if [ "$(nproc)" -gt 1 ]; then
  core=$(taskset -cp $$ | sed 's/.*: *//; s/[^0-9].*//') # the first that we may use
  doctor 0 taskset -c "$core" "$MOTLEY" doctor
  finds warning cores "bound to 1 of its $(nproc) cores"
fi
OMP_NUM_THREADS=4096 doctor 0 "$MOTLEY" doctor
finds warning threads "OMP_NUM_THREADS is 4096"
MOTLEY_MODULES=$folder/a doctor 0 "$MOTLEY" doctor
! grep -q "^FAILURE" found.txt || fail "$(cat found.txt)"

# A folder without room for what the plan's checkpoints take.
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
  $MOTLEY plan --model gpt2:layers=2,heads=4,embed=256,context=64,vocab=4096 --batch 2 --ranks 1 -o wide.json >/dev/null
  doctor 1 unshare --mount sh -c "mkdir small && mount -t tmpfs -o size=24m tmpfs small &&
    exec $MOTLEY doctor wide.json --out small"
  finds FAILURE out "small: .* are free, and up to three checkpoints of about"
  # A full disk, one with room for the plan's checkpoints but not for more, and one that is only read.
  on_disk() { # SIZE COMMAND CODE FLAGS...
    local size=$1 prepare=$2 code=$3
    shift 3
    doctor "$code" unshare --mount sh -c "mkdir -p disk && mount -t tmpfs -o size=$size tmpfs disk && $prepare &&
      exec $MOTLEY doctor $*"
  }
  on_disk 2m "head -c 2093056 /dev/zero >disk/full" 1 wide.json --out disk
  finds FAILURE out "disk: cannot be written: No space left on device; [0-9.]* [KM]*i*B are free, and up to three checkpoints of about [0-9]"
  has "remedy: make room, or choose a folder elsewhere" <found.txt || fail "$(cat found.txt)"
  on_disk 2m "true" 1 --out disk
  finds FAILURE out "disk: cannot be written: No space left on device; 2[0-9.]* MiB are free$"
  $MOTLEY plan --model mlp:tiny --ranks 1 -o tiny.json >/dev/null
  on_disk 4m "true" 0 tiny.json --out disk
  finds ok out "disk: writable"
  on_disk 4m "mount -o remount,ro disk" 1 --out disk
  finds FAILURE out "disk: cannot be written: Read-only file system"
  has "remedy: choose a folder on a file system that is not read-only" <found.txt || fail "$(cat found.txt)"
  on_disk 2m "cd disk" 1
  finds FAILURE out "run, run-2, ... in this folder, without --out: cannot be written: No space left"
fi

# For a job on GPUs, where there may be none.
NCCL_SOCKET_IFNAME==lo doctor "$(nvidia-smi -L 2>/dev/null | has '^GPU' && echo 0 || echo 1)" "$MOTLEY" doctor --device cuda
finds ok nccl "$here: NCCL connects over lo, by NCCL_SOCKET_IFNAME"
if ! nvidia-smi -L 2>/dev/null | has '^GPU'; then
  finds FAILURE driver "$here: "
  finds FAILURE gpus "rank 0 on $here: "
  finds ok precision "no rank has a GPU"
fi
! grep -q '^[a-zA-Z]* *products ' found.txt || fail "products of CPUs: $(cat found.txt)"
NCCL_SOCKET_IFNAME==l doctor 1 "$MOTLEY" doctor --device cuda
finds FAILURE nccl "NCCL_SOCKET_IFNAME is \"=l\", and no interface"
if [ "$(id -u)" = 0 ] && unshare --net ip link set lo up 2>/dev/null; then
  NCCL_SOCKET_IFNAME=^lo,e doctor 1 unshare --net sh -c "ip link set lo up; exec $MOTLEY doctor --device cuda"
  finds FAILURE nccl "NCCL_SOCKET_IFNAME is \"^lo,e\", and no interface"
fi
SLURM_JOB_ID=7 doctor 0 "$MOTLEY" doctor
finds ok signals "Slurm kills 30 s after SIGTERM"
refused 2 '--device: "abacus" is not a kind of device (cpu, cuda)' "$MOTLEY" doctor --device abacus

# For programs; and what is no command line.
doctor 1 "$MOTLEY" doctor plan.json --json
grep -q '{"what": "plan", "level": "failure", "text": ".*", "remedy": ".*mpirun -n 2' found.txt || fail "$(cat found.txt)"
grep -q '"failures": 1' found.txt || fail "$(cat found.txt)"
refused 2 "--start-deadline: must be more than 0" "$MOTLEY" doctor --start-deadline -1
refused 2 "one plan at a time" "$MOTLEY" doctor plan.json other.json
