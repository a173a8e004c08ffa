#!/usr/bin/env bash
# How good the choice of an overlapped form is on this host: 66 shapes, a form each in turn, even and uneven shares. Is
# what was chosen as fast as sequential on each, how near the best of all that were tried, and how far off are the
# predictions?
#
#   tests/bench/overlap_choice.sh [REPETITIONS]                  # CPUs: two and three ranks
#   DEVICE=cuda SECONDS_EACH=2 tests/bench/overlap_choice.sh     # two GPUs; a case takes so long, and a few seconds more
#
# All variants of a shape alternate within a run, and ratios are of turns of one round, so that they hold on a machine
# that does other work, too; three ranks on fewer cores wait for each other's cores. PARTS="1 3": only those of the four
# parts (ranks and shares); KEEP: a folder in which PART-FORM.json, what `motley bench overlap` measured, and all.json, a
# line for each shape, stay.
. "$(dirname "$0")/lib.bash"
needs jq
device=${DEVICE:-cpu} repetitions=${1:-20} seconds=${SECONDS_EACH:-2}
forms=(gather scatter reduce)
: >"$work/all.json"

# shapes COUNT SEED SHARES: M, N and K. On CPUs from 48 to 768, multiples of 8, of at most 2^26 products; on GPUs from
# 1024 to 16384, multiples of 128, of at most 2^40, and in each fifth 16 to 256 rows, but at least 8 of each rank.
shapes() {
  awk -v count="$1" -v seed="$2" -v shares="$3" -v gpu="$([ "$device" = cuda ] && echo 1 || echo 0)" '
    function draw(unit, least, most) {
      seed = (seed * 16807) % 2147483647
      return unit * int(exp(log(least) + (log(most) - log(least)) * seed / 2147483647))
    }
    BEGIN {
      parts = split(shares, share, ":"); least = share[1]
      for (r = 1; r <= parts; r++) { sum += share[r]; if (share[r] < least) least = share[r] }
      few = parts > 1 ? int((sum + 2 * least - 1) / (2 * least)) : 1
      while (n < count) {
        if (!gpu) { m = draw(8, 6, 96); k = draw(8, 6, 96); l = draw(8, 6, 96) }
        else { m = draw(128, 8, 128); k = draw(128, 8, 128); l = draw(128, 8, 128); if (n % 5 == 4) m = draw(16, few, 16) }
        if (m * k * l <= (gpu ? 2 ^ 40 : 2 ^ 26) && !seen[m, k, l]++) { print m "," k "," l; n++ }
      }
    }'
}

# measure PART RANKS SHARES COUNT SEED: the forms in turn; a line of JSON for each shape.
measure() {
  local i=0 shape shares=()
  case " ${PARTS:-1 2 3 4} " in *" $1 "*) ;; *) return ;; esac
  [ "$3" = even ] || shares=(--shares "$3")
  for form in "${forms[@]}"; do eval "of_$form=()"; done
  for shape in $(shapes "$4" "$5" "$3"); do
    eval "of_${forms[i++ % 3]}+=(--shape $shape)"
  done
  for form in "${forms[@]}"; do
    local -n list=of_$form
    local measured=$work/$1-$form.json
    mpirun --oversubscribe --bind-to none -n "$2" "$motley" bench overlap --device "$device" --form "$form" "${list[@]}" \
      "${shares[@]}" "${limit[@]}" --json="$measured" >"$work/said.txt" 2>&1 || { cat "$work/said.txt"; exit 1; }
    jq -c --arg ranks "$2" --arg shares "$3" '(.tables[] | select(.name == "overlap") | .rows[] | {line: ., $ranks, $shares}),
      (.tables[] | select(.name == "variants") | .rows[] | select(.eta != null) | {error: .prediction_error, $ranks, $shares})' \
      "$measured" >>"$work/all.json"
  done
}

if [ "$device" = cuda ]; then
  limit=(--seconds "$seconds")
  measure 1 2 even 36 21
  measure 2 2 5:3 15 22
  measure 3 2 7:1 9 23
  measure 4 2 even 6 24
else
  limit=(--repetitions "$repetitions")
  measure 1 2 even 30 11
  measure 2 2 5:3 18 12
  measure 3 3 even 9 13
  measure 4 3 4:2:1 9 14
fi
jq -rs '
  def figures: [.[] | .line // empty] as $lines | [.[] | .error // empty | fabs] as $errors |
    "\($lines | length) shapes: chosen over sequential x \($lines | map(.speedup) | min * 1000 | round / 1000) at least, x \($lines | map(.speedup) | sort | .[length / 2 | floor] * 1000 | round / 1000) in the median; below .99 on \($lines | map(select(.speedup < 0.99)) | length); sequential chosen on \($lines | map(select(.chosen == "sequential")) | length); within 2% of the best on \($lines | map(select(.to_best <= 1.02)) | length); predictions off by \($errors | add / length * 1000 | round / 10)% on average (\($errors | length) of them)";
  (group_by([.ranks, .shares])[] | "\(.[0].ranks) ranks, \(.[0].shares): " + figures), "all: " + figures' "$work/all.json"
