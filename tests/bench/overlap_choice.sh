#!/usr/bin/env bash
# How good the choice of an overlapped form is on this host's CPUs: 66 shapes, a form each in turn, on two and three
# ranks, even and ragged. Is what was chosen as fast as sequential on each, how near the best of all that were tried,
# and how far off are the predictions?
#
#   tests/bench/overlap_choice.sh [REPETITIONS]
#
# All variants of a shape alternate within a run, and ratios are of turns of one round, so that they hold on a machine
# that does other work, too; three ranks on fewer cores wait for each other's cores.
. "$(dirname "$0")/lib.bash"
needs jq
repetitions=${1:-20}
forms=(gather scatter reduce)

# shapes COUNT SEED: M, N and K from 48 to 768, multiples of 8, of at most 2^26 products.
shapes() {
  awk -v count="$1" -v seed="$2" '
    function draw() { seed = (seed * 16807) % 2147483647; return 8 * int(exp(log(6) + (log(96) - log(6)) * seed / 2147483647)) }
    BEGIN { while (n < count) { m = draw(); k = draw(); l = draw(); if (m * k * l <= 2 ^ 26) { print m "," k "," l; n++ } } }'
}

# measure RANKS SHARES COUNT SEED: the forms in turn; a line of JSON for each shape.
measure() {
  local i=0 shape shares=()
  [ "$2" = even ] || shares=(--shares "$2")
  for form in "${forms[@]}"; do eval "of_$form=()"; done
  for shape in $(shapes "$3" "$4"); do
    eval "of_${forms[i++ % 3]}+=(--shape $shape)"
  done
  for form in "${forms[@]}"; do
    local -n list=of_$form
    mpirun --oversubscribe --bind-to none -n "$1" "$motley" bench overlap --form "$form" "${list[@]}" "${shares[@]}" \
      --repetitions "$repetitions" --json="$work/one.json" >"$work/said.txt" || { cat "$work/said.txt"; exit 1; }
    jq -c --arg ranks "$1" --arg shares "$2" '(.tables[] | select(.name == "overlap") | .rows[] | {line: ., $ranks, $shares}),
      (.tables[] | select(.name == "variants") | .rows[] | select(.eta != null) | {error: .prediction_error, $ranks, $shares})' \
      "$work/one.json" >>"$work/all.json"
  done
}

measure 2 even 30 11
measure 2 5:3 18 12
measure 3 even 9 13
measure 3 4:2:1 9 14
jq -rs '
  def figures: [.[] | .line // empty] as $lines | [.[] | .error // empty | fabs] as $errors |
    "\($lines | length) shapes: chosen over sequential x \($lines | map(.speedup) | min * 1000 | round / 1000) at least, x \($lines | map(.speedup) | sort | .[length / 2 | floor] * 1000 | round / 1000) in the median; below .99 on \($lines | map(select(.speedup < 0.99)) | length); sequential chosen on \($lines | map(select(.chosen == "sequential")) | length); within 2% of the best on \($lines | map(select(.to_best <= 1.02)) | length); predictions off by \($errors | add / length * 1000 | round / 10)% on average (\($errors | length) of them)";
  (group_by([.ranks, .shares])[] | "\(.[0].ranks) ranks, \(.[0].shares): " + figures), "all: " + figures' "$work/all.json"
