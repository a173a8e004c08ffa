#!/usr/bin/env bash
# Install what is missing, build, and run every test that this machine can: once optimised, once under sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."
examples/install.sh build data test

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
jobs=$(nproc)
failed=0
for preset in ci sanitize; do
  echo "== build: $preset"
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" -j "$jobs"
  echo "== test: $preset"
  ctest --test-dir "build/$preset" --output-on-failure -j "$jobs" || failed=1
done
exit $failed
