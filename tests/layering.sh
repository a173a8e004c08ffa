#!/usr/bin/env bash
# The direction of dependencies: base <- kernels <- {profiler, synth} <- planner <- launcher. A file includes only from
# its own folder and those to the left, by path from the root; profiler and synth do not know each other. Among
# subfolders there is no circle, and none has more than 20 files. Libraries that belong to one place stay there.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0
level=([0]=kernels/base [1]=kernels [2]="profiler or synth" [3]=planner [4]=launcher)

place() { # VARIABLE PATH: set to the path's level; empty if it is none of ours
  case $2 in
    kernels/base/*) printf -v "$1" 0 ;; kernels/*) printf -v "$1" 1 ;; profiler/* | synth/*) printf -v "$1" 2 ;;
    planner/*) printf -v "$1" 3 ;; launcher/*) printf -v "$1" 4 ;; *) printf -v "$1" '' ;;
  esac
}

sources=$(find kernels profiler planner synth launcher -name '*.[ch]' -o -name '*.def' -o -name '*.cu' -o -name '*.cuh')
[ "$(wc -l <<<"$sources")" -gt 20 ] || { echo "layering: too few sources found to believe"; exit 1; }
edges=""
while IFS=: read -r file line include; do
  target=${include#*\"} target=${target%%\"*}
  place from "$file"
  place to "$target"
  if [ -z "$to" ]; then
    echo "$file:$line: \"$target\" is not a path from the root"; failed=1
  elif [ "$to" -gt "$from" ] || { [ "$to" = 2 ] && [ "$from" = 2 ] && [ "${file%%/*}" != "${target%%/*}" ]; }; then
    echo "$file:$line: ${level[$from]} must not include ${target%%/*} ($target)"; failed=1
  fi
  edges+="${file%/*} ${target%/*}"$'\n'
done < <(xargs grep -nE '^ *# *include "' <<<"$sources")

# The wall: what proves a program shares nothing with what made it.
walls=$(grep -E '^synth/check[^ ]* synth/builder|^synth/builder[^ ]* synth/check' <<<"$edges" | sort -u)
[ -z "$walls" ] || { echo "the checker and the builder must not include each other: $walls"; failed=1; }

# A pair of equal names is a node to tsort, not an edge.
if ! loops=$(sort -u <<<"$edges" | tsort 2>&1 >/dev/null); then
  echo "subfolders include each other in a circle:"; echo "$loops"; failed=1
fi

# Families whose members are one file each may have as many as they have members.
while read -r count folder; do
  case $folder in kernels/coll/algorithms | synth/ops | kernels/cpu/c | kernels/cuda/ops) continue ;; esac
  [ "$count" -le 20 ] || { echo "$folder: $count files; divide it into families of at most 20"; failed=1; }
done < <(sed 's|/[^/]*$||' <<<"$sources" | sort | uniq -c)

# What crosses files begins with mt_; modules have words of their own, as their symbols stay inside.
while IFS= read -r line; do
  [ -z "$line" ] || { echo "$line: functions that cross files begin with mt_"; failed=1; }
done < <(grep '\.h$' <<<"$sources" | grep -vE '^kernels/(cuda|cpu/onednn)/' |
  xargs grep -nE '^(const )?(enum |struct |unsigned )?[a-z_0-9]+ \**[a-z][a-z0-9_]*\(' | grep -vE '[ *]mt_[a-z0-9_]+\(')

only() { # header, places where it may be included
  local header=$1; shift
  while IFS=: read -r file line _; do
    local ok=0
    for place in "$@"; do [[ $file == $place ]] && ok=1; done
    [ $ok = 1 ] || { echo "$file:$line: <$header> belongs in $*"; failed=1; }
  done < <(xargs grep -nE "^ *# *include <$header" <<<"$sources")
}
only mpi.h 'kernels/comm/*' 'launcher/*'
only glpk.h planner/lp/glpk.c
only hwloc.h profiler/measure/topology.c
only dnnl 'kernels/cpu/*'
only cuda 'kernels/cuda/*'
only cudnn 'kernels/cuda/*'
only cublas 'kernels/cuda/*'
only nvrtc.h 'kernels/cuda/*'
only pmix 'launcher/watch/*'
only nccl.h 'kernels/cuda/*'
only utf8proc.h launcher/tokenizer/unicode/unicode.c
only jansson.h 'kernels/base/*'
only xxhash.h 'kernels/base/*'
exit $failed
