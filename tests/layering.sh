#!/usr/bin/env bash
# The direction of dependencies: base <- kernels <- profiler <- planner <- synth <- launcher. A file includes only from
# its own folder and those to the left, by path from the root; libraries that belong to one place stay there.
set -uo pipefail
cd "$(dirname "$0")/.."
order=(kernels/base kernels profiler planner synth launcher)
failed=0

place() { # VARIABLE PATH: set to the path's position in `order`
  local at=-1
  case $2 in
    kernels/base/*) at=0 ;; kernels/*) at=1 ;; profiler/*) at=2 ;;
    planner/*) at=3 ;; synth/*) at=4 ;; launcher/*) at=5 ;;
  esac
  printf -v "$1" %d $at
}

sources=$(find kernels profiler planner synth launcher -name '*.[ch]' -o -name '*.def' -o -name '*.cu' 2>/dev/null)
[ "$(wc -l <<<"$sources")" -gt 20 ] || { echo "layering: too few sources found to believe"; exit 1; }
while IFS=: read -r file line include; do
  target=${include#*\"} target=${target%%\"*}
  place from "$file"
  place to "$target"
  if [ "$to" -lt 0 ]; then
    echo "$file:$line: \"$target\" is not a path from the root"; failed=1
  elif [ "$to" -gt "$from" ]; then
    echo "$file:$line: ${order[$from]} must not include ${order[$to]} ($target)"; failed=1
  fi
done < <(xargs grep -nE '^ *# *include "' <<<"$sources")

only() { # header, places where it may be included
  local header=$1; shift
  while IFS=: read -r file line _; do
    local ok=0
    for place in "$@"; do [[ $file == $place ]] && ok=1; done
    [ $ok = 1 ] || { echo "$file:$line: <$header> belongs in $*"; failed=1; }
  done < <(xargs grep -nE "^ *# *include <$header" <<<"$sources")
}
only mpi.h kernels/comm_mpi.c 'launcher/*'
only glpk.h planner/lp.c
only hwloc.h profiler/topology.c
only dnnl 'kernels/cpu/*'
only cuda 'kernels/cuda/*'
only nccl.h 'kernels/cuda/*'
only jansson.h 'kernels/base/*'
only xxhash.h 'kernels/base/*'
exit $failed
