#!/usr/bin/env bash
# Install what is missing, build, and run every test that this machine can, optimised or under sanitizers: kernels and
# what goes over MPI both ways, the rest as tests/CMakeLists.txt says; with --all, every test both ways, which takes twice
# as long. Ends with how long each part took.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1-}" in
  "") only=1 ;;
  --all) only=0 ;;
  *) echo "usage: tests/run.sh [--all]" >&2 && exit 2 ;;
esac
summary=""
scratch=$(mktemp) built=$(mktemp)
trap '[ -z "${builder-}" ] || kill -- "-$builder" 2>/dev/null; rm -f "$scratch" "$built"; printf "== times\n%s%-16s %5d s\n" "$summary" all "$SECONDS"' EXIT

# What the processors have worked for this shell's children, in seconds, into $worked.
count_work() {
  times >"$scratch" # not in a pipe: a subshell has children of its own
  worked=$(awk -F'[ms ]+' '{ s += 60 * $1 + $2 + 60 * $3 + $4 } END { printf "%d", s }' "$scratch")
}
# timed WHAT COMMAND...: with a line in the summary.
timed() {
  local what=$1 began=$SECONDS code=0 before
  shift
  count_work && before=$worked
  "$@" || code=$?
  count_work
  printf -v summary '%s%-16s %5d s, %5d s of processors\n' "$summary" "$what" $((SECONDS - began)) $((worked - before))
  return $code
}

timed install examples/install.sh build data test

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export CMAKE_GENERATOR=Ninja # of new build folders: make takes a fifth longer for so many programs
jobs=$(nproc)
failed=0 builder=

# build PRESET: programs of the tests that are run.
build() {
  local target=run_$1
  [ $only = 1 ] || target=all
  cmake --preset "$1" >/dev/null
  nice cmake --build --preset "$1" -j "$jobs" --target "$target"
}
# test PRESET QUARTERS: of a core, given out for each of them; tests/CMakeLists.txt says how many a test takes. False: some
# have failed.
test_all() {
  local label=()
  [ $only = 0 ] || label=(-L "^$1\$")
  echo "== test: $1"
  timed "test $1" ctest --test-dir "build/$1" "${label[@]}" --output-on-failure -j $(($2 * jobs))
}

echo "== build: ci"
timed "build ci" build ci
# What is under sanitizers is built beside the tests that are not, which often wait.
set -m # in a group of its own, which can be ended
build sanitize >"$built" 2>&1 &
builder=$!
set +m
test_all ci 4 || failed=1
echo "== build: sanitize"
timed "build sanitize" wait $builder || { cat "$built" && exit 1; }
builder=
# These wait for longer, so more run at a time. Those that fail run again, with functions' names in the reports.
if ! test_all sanitize 6; then
  ASAN_OPTIONS=symbolize=1 ctest --test-dir build/sanitize --output-on-failure --rerun-failed || true
  failed=1
fi
exit $failed
