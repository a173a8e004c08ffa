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
scratch=$(mktemp)
trap 'rm -f "$scratch"; printf "== times\n%s%-16s %5d s\n" "$summary" all "$SECONDS"' EXIT

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
failed=0
for preset in ci sanitize; do
  echo "== build: $preset"
  cmake --preset "$preset" >/dev/null
  target=run_$preset # programs of the tests that are run
  [ $only = 1 ] || target=all
  timed "build $preset" cmake --build --preset "$preset" -j "$jobs" --target "$target"
  echo "== test: $preset"
  # In quarters of a core: tests/CMakeLists.txt says how many a test takes.
  label=()
  [ $only = 0 ] || label=(-L "^$preset\$")
  timed "test $preset" ctest --test-dir "build/$preset" "${label[@]}" --output-on-failure -j $((4 * jobs)) && continue
  failed=1
  [ "$preset" != sanitize ] || # with the names of functions in the sanitizers' reports
    ASAN_OPTIONS=symbolize=1 ctest --test-dir "build/$preset" --output-on-failure --rerun-failed || true
done
exit $failed
