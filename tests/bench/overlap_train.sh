#!/usr/bin/env bash
# Training on two GPUs of one host with and without overlapped kernels, in turn; beside what the GPUs reach alone, at the
# same time. Rates are those of the last half of the steps, by when the lines of progress come; losses are compared at
# every tenth step, up to the 50th.
#
#   tests/bench/overlap_train.sh [equal | unequal | tensor | samples]...      # [all]
#
#   equal    MODEL, states in shares, BATCH samples of a GPU; and alone
#   unequal  the same on SMS multiprocessors, by a profile (CLUSTER, or one of BUDGET seconds); each alone with its share
#   tensor   LARGE, LARGE_BATCH samples, heads, ffn and vocabulary divided: sums of activations by AllReduce
#   samples  the same, but what is not divided by heads, ffn or vocabulary is by samples: AllGather and ReduceScatter
#
# STEPS (of a run), ROUNDS (of runs in turn), VARIANTS (see variants() below), TEXT (a file), KEEP (a folder for
# documents), KIND (what is described: h100; by nvidia-smi).
# DEVICE=cpu, RANKS=2, with small MODEL and LARGE: to try the script without GPUs.
#
# On two H200, of what is tuned before: a run of 100 steps takes 10 s (equal), 13 s (unequal), 16 s (tensor, samples).
# With an empty MOTLEY_CACHE `motley tune` takes 15 s a part before that, and unequal's profile BUDGET and 5 s.
. "$(dirname "$0")/lib.bash"
. tests/cli/samples.bash
device=${DEVICE:-cuda} ranks=${RANKS:-2} steps=${STEPS:-80} rounds=${ROUNDS:-2} sms=${SMS:-132,64}
model=${MODEL:-gpt2:124m,vocab=50304} batch=${BATCH:-32}
large=${LARGE:-gpt2:774m,vocab=50304} large_batch=${LARGE_BATCH:-16}
kind=${KIND:-cpu-1t} every=10
if [ "$device" = cuda ]; then
  needs nvidia-smi
  [ "$(nvidia-smi -L | wc -l)" -ge "$ranks" ] || { echo "overlap_train.sh: needs $ranks GPUs" >&2; exit 77; }
  [ -n "${KIND:-}" ] || { nvidia-smi -L | grep -q H200 && kind=h200 || kind=h100; }
fi
[ $# -gt 0 ] || set -- equal unequal tensor samples
text=${TEXT:-$work/text.txt}
[ -e "$text" ] || seq 1 600000 >"$text"
part() { cut -d, -f"$2" <<<"$1"; }
emulating() { # SMS: the flag; a CPU has a speed
  if [ "$device" = cuda ]; then
    echo "--emulate sm=$1"
  else
    echo "--emulate speed=$(tr , '\n' <<<"$1" | awk '{ print $1 / 132 }' | paste -sd,)"
  fi
}

# ---- plans ----

# planned FILE FLAG...: with what it says in FILE.txt
planned() {
  "$motley" plan --steps "$steps" --precision bf16 -o "$1" "${@:2}" >"$1.txt" 2>&1 || { cat "$1.txt" >&2; return 1; }
}
# here FILE: a plan for a described cluster, of this host
here() {
  sed "s/\"host\": \"node0\"/\"host\": \"$(hostname)\"/" "$1" >"$1.here"
  "$motley" plan --check "$1.here" -o "$1" >"$1.txt" 2>&1 || { cat "$1.txt" >&2; return 1; }
}
# overlapped FORMS ROWS FILE: another decision, and how each shape runs (see `motley plan --document`)
overlapped() {
  awk -v forms="$1" -v rows="$2" '/^  "overlapped": \[/ { skip = 1 } skip { if (/^  \]/) skip = 0; next }
    /^    "overlapped":/ { next }
    /^  "gradients": \{/ && rows != "" { print "  \"overlapped\": [" rows "]," }
    { print }
    /^  "gradients": \{/ && forms != "none" { print "    \"overlapped\": \"" forms "\"," }' "$3"
}

# ---- runs ----

# train NAME RANKS PLAN FLAG...: NAME.out has the lines of progress, each after the time at which it came
train() {
  mpirun --bind-to none -n "$2" "$motley" train "$3" --device "$device" --data "$text" --val-fraction 0 --no-out \
    --log-every $every "${@:4}" 2>&1 | while IFS= read -r line; do echo "$EPOCHREALTIME $line"; done >"$work/$1.out"
  grep -q " step $steps/" "$work/$1.out" || { tail -n 5 "$work/$1.out" >&2; return 1; }
}
# step_s NAME: of the last half
step_s() {
  sed -n 's/^\([0-9.,]*\) .*step \([0-9]*\)\/.*/\1 \2/p' "$work/$1.out" | tr , . |
    awk -v half=$((steps / 2)) '$2 >= half && !n { t = $1; n = $2 } END { printf "%.9g", ($1 - t) / ($2 - n) }'
}
losses() { sed -n 's/.*step \([0-9]*\)\/.* loss \([0-9.]*\).*/\1 \2/p' "$work/$1.out" | awk '$1 <= 50'; }
apart() { # NAME NAME
  paste <(losses "$1") <(losses "$2") | awk '{ d = $2 - $4; if (d < 0) d = -d; if (d > m) m = d } END { printf "%.4f", m }'
}
row() { printf '%-9s %-16s %9.3f ms a step %s\n' "$1" "$2" "$(awk -v s="$3" 'BEGIN { print 1e3 * s }')" "$4"; }
median() { tr ' ' '\n' <<<"$1" | sort -g | awk 'NF { v[++n] = $1 } END { print (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2 }'; }

# variants PART: plans, "without" first; VARIANTS has others
#   without               --overlap none
#   chosen                what the search takes: by a measured profile that may be overlapped kernels
#   bf16                  without, but gradients are sent in bf16, not in f32 (--gradient-wire bf16)
#   full                  without, but collectives start when their bucket is full (--bucket-start full)
#   all, scatter, ...     --overlap all, ...
#   fastest               as all, and then as `motley bench overlap --plan` found each of them to be fastest
#   PLAN+engines          that plan with MOTLEY_COLLECTIVES=engines: large messages by copy engines
#   PLAN+untuned          that plan with MOTLEY_TUNE=off: other kernels, which round otherwise. How far apart its losses
#                         are is what rounding alone does
variants() {
  if [ -n "${VARIANTS:-}" ]; then echo "$VARIANTS"; return; fi
  case $1 in
  equal) echo "without without+engines full+engines scatter" ;;
  unequal) echo "without without+engines chosen full+engines" ;;
  tensor) echo "without all fastest without+untuned" ;;
  samples) echo "without scatter all fastest without+untuned" ;;
  esac
}
plans_of() { variants "$1" | tr ' ' '\n' | sed 's/+.*//' | awk '!seen[$0]++'; }
flags_of() {
  case $1 in
  without) echo "--overlap none" ;;
  chosen) ;;
  bf16) echo "--overlap none --gradient-wire bf16" ;;
  full) echo "--overlap none --bucket-start full" ;;
  fastest) echo "--overlap all" ;;
  *) echo "--overlap $1" ;;
  esac
}

# in_turn PART SUM FLAG...: all variants in turn; SUM: samples a second of those alone, or ""
in_turn() {
  local what=$1 alone=$2 round variant name line settings
  local -A all=()
  for ((round = 0; round < rounds; round++)); do
    for variant in $(variants "$what"); do
      name=$what-$variant-$round settings=()
      case $variant in
      *+engines) settings=(MOTLEY_COLLECTIVES=engines) ;;
      *+untuned) settings=(MOTLEY_TUNE=off) ;;
      esac
      (
        [ ${#settings[@]} = 0 ] || export "${settings[@]}"
        train "$name" "$ranks" "$work/$what-${variant%+*}.json" "${@:3}"
      ) || return
      all[$variant]+=" $(step_s "$name")"
    done
  done
  for variant in $(variants "$what"); do
    line=$(awk -v w="$(median "${all[without]}")" -v s="$(median "${all[$variant]}")" -v a="$alone" -v b="$(samples_of "$what")" 'BEGIN {
      printf "%.4f times as fast as without", w / s
      if (a != "") printf ", %.4f of the rates alone", b / s / a }')
    row "$what" "$variant" "$(median "${all[$variant]}")" "$line; losses within $(apart "$what-without-0" "$what-$variant-0") (each:$(
      tr ' ' '\n' <<<"${all[$variant]}" | awk 'NF { printf " %.2f", 1e3 * $1 }'))"
  done
}
samples_of() { grep -o '"batch": [0-9]*' "$work/$1-without.json" | head -n 1 | cut -d' ' -f2; }

# alone SHARES SMS: each rank's job of its own, at the same time; samples a second of all
alone() {
  local g shares=$1
  for ((g = 0; g < ranks; g++)); do
    (
      planned "$work/alone$g.json" --model "$model" --device "$device" --ranks 1 --batch "$(part "$shares" $((g + 1)))"
      # shellcheck disable=SC2046
      CUDA_VISIBLE_DEVICES=$g train "alone$g" 1 "$work/alone$g.json" $([ -z "$2" ] || emulating "$(part "$2" $((g + 1)))")
    ) || return &
  done
  wait
  for ((g = 0; g < ranks; g++)); do
    awk -v b="$(part "$shares" $((g + 1)))" -v s="$(step_s "alone$g")" 'BEGIN { print b / s }'
  done | awk '{ sum += $1 } END { print sum }'
}
repeat() { yes "$1" | head -n "$ranks" | paste -sd,; }

# ---- parts ----

tuned() { # PART FLAG...: what is tuned is tuned once, for all variants
  local plan
  for plan in $(plans_of "$1"); do
    [ "$device" = cpu ] || mpirun --bind-to none -n "$ranks" "$motley" tune "$work/$1-$plan.json" "${@:2}" >"$work/tune.txt" 2>&1 ||
      { tail -n 5 "$work/tune.txt" >&2; return 1; }
    measured "$work/$1-$plan.json" || return
  done
}

# measured PLAN: of `fastest`, once it has been tuned: with how each of its overlapped GEMMs was fastest
measured() {
  case $1 in *-fastest.json) ;; *) return 0 ;; esac
  mpirun --bind-to none -n "$ranks" "$motley" bench overlap --plan "$1" -o "$1" --seconds "${SECONDS_EACH:-1}" >"$1.measured" 2>&1 ||
    { tail -n 5 "$1.measured" >&2; return 1; }
  grep -E '^ +(GEMM|AllGather)\+' "$1.measured" | sed 's/^/  /'
}

# plans PART FLAG...: of a described cluster, made for this host
plans() {
  local plan flags
  for plan in $(plans_of "$1"); do
    read -ra flags <<<"$(flags_of "$plan")"
    planned "$work/$1-$plan.json" "${@:2}" "${flags[@]}"
    if [ "$2" = "${described[0]}" ]; then here "$work/$1-$plan.json"; fi
  done
}
described=("--cluster=$kind:1x$ranks" --use all)
job=(--model "$model" --batch $((ranks * batch)))

equal() {
  local rates
  plans equal "${described[@]}" "${job[@]}" --even --storage split --sync reduce_scatter
  tuned equal
  rates=$(alone "$(repeat "$batch")" "")
  in_turn equal "$rates"
}

unequal() {
  local cluster=${CLUSTER:-$work/cluster.json} rates shares emulate
  read -ra emulate <<<"$(emulating "$sms")"
  [ -n "${CLUSTER:-}" ] || mpirun --bind-to none -n "$ranks" "$motley" profile --device "$device" "${emulate[@]}" "${job[@]}" \
    --precision bf16 --budget "${BUDGET:-30}" -o "$cluster" >"$work/profile.txt" 2>&1 || { tail -n 5 "$work/profile.txt" >&2; return 1; }
  plans unequal --cluster "$cluster" --use all "${job[@]}" --storage split --sync reduce_scatter
  tuned unequal "${emulate[@]}"
  shares=$(grep -A8 '"name": "batch"' "$work/unequal-without.json" | grep -o '"sizes": \[[0-9, ]*' | grep -o '[0-9][0-9, ]*' | head -n 1)
  echo "unequal   shares ${shares// /} on $sms multiprocessors"
  rates=$(alone "${shares// /}" "$sms")
  in_turn unequal "$rates" "${emulate[@]}"
}

tensor() {
  plans tensor "${described[@]}" --model "$large" --batch "$large_batch" --strategy tensor
  tuned tensor
  in_turn tensor ""
}

# Rows of the shapes of LARGE as GPT-2 has them, in one kernel
rows() {
  local size m embed vocab k
  size=$(grep -o '"model": "[^"]*' "$1") m=$(awk -v b="$large_batch" -v t="$(field seq "$1")" 'BEGIN { print b * t }')
  embed=$(sed 's/.*embed=\([0-9]*\).*/\1/' <<<"$size") vocab=$(sed 's/.*vocab=\([0-9]*\).*/\1/' <<<"$size")
  for k in "$embed" $((3 * embed)) $((4 * embed)) "$vocab"; do
    echo "{\"form\": \"scatter\", \"m\": $m, \"columns\": $embed, \"k\": $k, \"by\": \"fused\", \"tile\": [128, 256]}"
    [ "$2" = scatter ] ||
      echo "{\"form\": \"gather\", \"m\": $m, \"columns\": $k, \"k\": $embed, \"by\": \"fused\", \"tile\": [128, 256], \"put_rows\": 128}"
  done | paste -sd,
}

samples() {
  local plan base=$work/samples-base.json
  planned "$base" "${described[@]}" --model "$large" --batch "$large_batch" --strategy tensor --overlap none
  by_samples "$base" >"$base.rules"
  for plan in $(plans_of samples); do
    case $plan in
    without) overlapped none "" "$base.rules" ;;
    fastest) overlapped all "" "$base.rules" ;;
    *) overlapped "$plan" "$([ "$device" != cuda ] || rows "$base" "$plan")" "$base.rules" ;;
    esac >"$work/samples-$plan.json"
    here "$work/samples-$plan.json"
  done
  tuned samples
  in_turn samples ""
}

for what in "$@"; do
  case $what in
  equal | unequal | tensor | samples) "$what" ;;
  *) echo "overlap_train.sh: \"$what\" is none of equal, unequal, tensor and samples" >&2; exit 2 ;;
  esac
done
