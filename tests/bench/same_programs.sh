#!/usr/bin/env bash
# Whether two builds make the same programs, and the same lowered programs, of plans: byte for byte as `show program`
# prints them.
#
#   tests/bench/same_programs.sh BUILD OTHER_BUILD PLAN...      as build/release ../before/build/release plans/*.json
#
# Of more than 16 ranks print-outs fold equal ranks, which older builds do not.
set -uo pipefail
one=${1:?the folder of a build} other=${2:?the folder of another build}
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
differ=0
for plan in "$@"; do
  for what in "" --lowered; do
    # shellcheck disable=SC2086
    MOTLEY_MODULES=$one "$one/motley" show program $what "$plan" >"$work/one" 2>&1
    # shellcheck disable=SC2086
    MOTLEY_MODULES=$other "$other/motley" show program $what "$plan" >"$work/other" 2>&1
    cmp -s "$work/one" "$work/other" && continue
    echo "$plan: show program $what differs: $(cmp "$work/one" "$work/other" 2>&1)"
    differ=$((differ + 1))
  done
done
echo "$# plans: $differ of $((2 * $#)) print-outs differ"
exit $((differ > 0))
