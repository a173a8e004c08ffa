# What the command tests share: a folder that goes away, and checks that say what they saw.
set -Eeuo pipefail
trap 'echo "FAILED: line $LINENO: $BASH_COMMAND" >&2' ERR
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# Open MPI's folder is kept from being empty. A run without mpirun has a process that removes it when it is, and may do so
# as the next run begins, which then fails ("A call to mkdir was unable to create the desired directory").
[ -z "${OMPI_MCA_orte_tmpdir_base:-}" ] || mkdir -p "$OMPI_MCA_orte_tmpdir_base/ompi.$(hostname).$(id -u)/keep"

# has PATTERN...: grep at the end of a pipe; -q would end it early, and what is in front of it, failed, would count.
has() { grep "$@" >/dev/null; }

fail() { echo "FAILED: $*" >&2; exit 1; }

# Whether the command is built with sanitizers, where it works for several times as long.
sanitized() { ldd "$MOTLEY" | has libasan; }

# refused CODE TEXT COMMAND...: the command ends with CODE, says TEXT on stderr, and nothing on stdout.
refused() {
  local code=$1 text=$2 got=0
  shift 2
  "$@" >out.txt 2>err.txt || got=$?
  [ "$got" -eq "$code" ] || fail "'$*' ended with $got, not $code: $(cat err.txt)"
  grep -qF -- "$text" err.txt || fail "'$*' said '$(cat err.txt)', not '$text'"
  [ ! -s out.txt ] || fail "'$*' printed '$(cat out.txt)'"
}

# wait_for CONDITION: until it is true, for five minutes at most. The run writes run.txt.
wait_for() {
  for _ in $(seq 3000); do
    if eval "$1"; then return 0; fi
    sleep 0.1
  done
  fail "waited for: $1: $(cat run.txt)"
}

# The ranks that left their process numbers in pid.* and are not gone; a zombie is.
ranks_alive() {
  local pid
  for pid in $(cat pid.*); do
    if grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$pid/status"; then echo "$pid"; fi
  done
}

# ranks_end SECONDS CASE: all of them are gone within so many seconds; says how long it took. The run writes run.txt.
ranks_end() {
  local began now alive
  began=$(date +%s%N)
  while alive=$(ranks_alive) && [ -n "$alive" ]; do
    now=$(date +%s%N)
    if [ $((now - began)) -gt $(($1 * 1000000000)) ]; then
      kill -KILL $alive
      fail "$2: still there after $1 s: $alive: $(cat run.txt)"
    fi
    sleep 0.05
  done
  now=$(date +%s%N)
  echo "$2: all gone after $(((now - began) / 1000000)) ms: $(grep '^motley: rank' run.txt || tail -n 2 run.txt)"
}

# The tensors of a checkpoint, without its headers: weights, then optimizer state.
tensors() {
  local file
  for file in "$1" "$(dirname "$1")/optimizer-${1##*/step-}"; do
    tail -c "+$((9 + $(od -An -t u8 -N 8 "$file")))" "$file"
  done
}

# shows TEXT FILE: some line of the file is TEXT, spaces counted as one.
shows() {
  tr -s ' ' <"$2" | has -xF -- "$1" || fail "no line '$1' in $2: $(cat "$2")"
}
