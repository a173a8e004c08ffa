#!/usr/bin/env bash
# How much of what a host's GPUs reach alone they reach together: equal ones, and ones made unequal. Alone is measured on
# all of them at the same time, each a job of its own, so that power and heat are as they are together. ROUNDS times in
# turn: alone, together with each of STORAGE, the peer; rates are those of the last half of the steps, ratios are taken
# in each round, which is printed, and then their medians. Clocks are those of the multiprocessors, sampled twice a
# second while they compute together.
#
#   tests/bench/scaling_gpu.sh [equal | unequal]...      # [both]
#
#   equal    BATCH samples of a GPU
#   unequal  on SMS multiprocessors, as many samples: shares by the planner's own choice from a profile (CLUSTER, or one
#            of BUDGET seconds), or SHARES; alone with those of the last of STORAGE; beside even shares, in the first round
#
# MODEL, STEPS, ROUNDS, STORAGE (of "replicated", "split", and these with "+bf16": gradients are sent in bf16, not in
# f32, and with "+engines" at the end: large messages by copy engines), PLAN (more flags of `motley plan`), TEXT (a
# file), KEEP (a folder for documents). PEER: a script that is run as `torchrun PEER MODE LAYERS HEADS WIDTH CONTEXT
# BATCHES [SMS]` in each of the first PEER_ROUNDS rounds; MODE: ddp or fsdp; SIZE: what it takes as "LAYERS HEADS WIDTH
# CONTEXT".
# DEVICE=cpu, RANKS: to try the script without GPUs.
. "$(dirname "$0")/lib.bash"
device=${DEVICE:-cuda} storages=${STORAGE:-replicated split} rounds=${ROUNDS:-3}
model=${MODEL:-gpt2:124m,vocab=50304} batch=${BATCH:-32} steps=${STEPS:-100} size=${SIZE:-12 12 768 1024}
sms=${SMS:-132,132,64,32}
read -ra flags <<<"${PLAN:-}"
if [ "$device" = cuda ]; then
  needs nvidia-smi
  n=$(nvidia-smi -L | wc -l)
else
  n=${RANKS:-2}
fi
[ $# -gt 0 ] || set -- equal unequal
text=${TEXT:-$work/text.txt}
[ -e "$text" ] || seq 1 600000 >"$text"

part() { cut -d, -f"$2" <<<"$1"; }
repeat() { yes "$1" | head -n "$n" | paste -sd,; }
sum() { tr ', ' '\n\n' <<<"$1" | awk '{ s += $1 } END { print s }'; }
median() { tr ' ' '\n' <<<"$1" | sort -g | awk 'NF { v[++k] = $1 } END { if (k) print (v[int((k + 1) / 2)] + v[int(k / 2) + 1]) / 2 }'; }
over() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.4f", a / b }'; }
emulating() { # SMS: the flag; a CPU has a speed
  if [ "$device" = cuda ]; then
    echo "--emulate sm=$1"
  else
    echo "--emulate speed=$(tr , '\n' <<<"$1" | awk '{ print $1 / 132 }' | paste -sd,)"
  fi
}

# stored STORAGE: the flags of its plan
stored() {
  echo "--storage ${1%%+*}"
  case $1 in *+bf16*) echo "--gradient-wire bf16" ;; esac
}

# planned FILE FLAG...: with what it says in FILE.txt
planned() {
  "$motley" plan --model "$model" --precision bf16 --steps "$steps" -o "$1" "${@:2}" >"$1.txt" 2>&1 || { tail -n 5 "$1.txt" >&2; return 1; }
}
# train RANKS PLAN FLAG...: k tokens a second, the last half of the steps
train() {
  mpirun --bind-to none -n "$1" "$motley" train "$2" --device "$device" --data "$text" --val-fraction 0 --no-out --log-every $((steps / 2)) \
    "${@:3}" >"$2.out" 2>&1 || { tail -n 5 "$2.out" >&2; return 1; }
  grep -o '[0-9.]* [kMG]\{0,1\} *tokens/s' "$2.out" | tail -n 1 |
    awk '{ print $1 * ($2 == "M" ? 1000 : $2 == "G" ? 1e6 : $2 == "k" ? 1 : 0.001) }'
}
# alone BATCHES SMS: all ranks, at the same time; SMS "": all there are
alone() {
  local g
  for ((g = 0; g < n; g++)); do
    (
      planned "$work/alone$g" --device "$device" --ranks 1 --batch "$(part "$1" $((g + 1)))"
      # shellcheck disable=SC2046
      CUDA_VISIBLE_DEVICES=$g train 1 "$work/alone$g" $([ -z "$2" ] || emulating "$(part "$2" $((g + 1)))") >"$work/rate$g"
    ) &
  done
  wait
  for ((g = 0; g < n; g++)); do cat "$work/rate$g"; done | paste -sd' '
}
peer() { # BATCHES [SMS]: k tokens a second
  # shellcheck disable=SC2086
  torchrun --nproc-per-node "$n" "$PEER" "${MODE:-ddp}" $size "$@" 2>"$work/peer.txt" |
    grep -o '[0-9]* tokens/s' | awk '{ print $1 / 1000 }'
}
# clocks: lowest and highest of the GPUs while they compute, until it is killed
clocks() {
  [ "$device" = cuda ] || return 0
  nvidia-smi --query-gpu=clocks.sm,utilization.gpu --format=csv,noheader,nounits -lms 500 >"$work/clocks.txt" 2>/dev/null
}
clocks_seen() {
  awk -F, '$2 > 50 { v = $1 + 0; if (!least || v < least) least = v; if (v > most) most = v }
    END { if (most) printf "; %d to %d MHz", least, most }' "$work/clocks.txt" 2>/dev/null || true
}
row() { printf '%-30s %9.0f k tokens/s %s\n' "$@"; }

# in_turn NAME BATCHES SMS: plans are $work/NAME-STORAGE
in_turn() {
  local name=$1 round storage how rate own watching emulate=()
  local -A all=() of=()
  # shellcheck disable=SC2207
  [ -z "$3" ] || emulate=($(emulating "$3"))
  for ((round = 0; round < rounds; round++)); do
    own=$(alone "$2" "$3")
    all[alone]+=" $(sum "$own")"
    for storage in $storages; do
      clocks & watching=$!
      how=nccl
      [ "$storage" = "${storage%+engines}" ] || how=engines
      rate=$(MOTLEY_COLLECTIVES=$how train "$n" "$work/$name-$storage" "${emulate[@]}") || return
      kill "$watching" 2>/dev/null || true
      all[$storage]+=" $rate" of[$storage]+=" $(over "$rate" "$(sum "$own")")"
    done
    if [ -e "$work/$name-even" ] && [ $round = 0 ]; then
      rate=$(train "$n" "$work/$name-even" "${emulate[@]}") || return
      all[even]=$rate
    fi
    if [ -n "${PEER:-}" ] && [ $round -lt "${PEER_ROUNDS:-$rounds}" ]; then
      # shellcheck disable=SC2086
      all[peer]+=" $(peer "$2" $3)"
    fi
    for how in alone $storages peer; do [ -z "${all[$how]:-}" ] || echo "  $name, round $((round + 1)): $how ${all[$how]##* } k"; done
  done
  row "$name: $n alone, together" "$(median "${all[alone]}")" "(the last: $own)"
  for storage in $storages; do
    rate=$(median "${all[$storage]}")
    row "$name, $storage" "$rate" "$(median "${of[$storage]}") of these (each:${of[$storage]})$(clocks_seen)"
    [ -z "${all[even]:-}" ] || row "  even shares" "${all[even]}" "$(over "$rate" "${all[even]}") times that"
    [ -z "${all[peer]:-}" ] || row "  the peer, with these shares" "$(median "${all[peer]}")" "$(over "$rate" "$(median "${all[peer]}")") times that"
  done
}

equal() {
  local storage
  for storage in $storages; do
    # shellcheck disable=SC2046
    planned "$work/equal-$storage" --device "$device" --ranks "$n" --batch $((n * batch)) --even $(stored "$storage") "${flags[@]}"
  done
  in_turn equal "$(repeat "$batch")" ""
}

unequal() {
  local storage taken cluster=${CLUSTER:-$work/cluster.json} emulate by=(--use all)
  if [ "$(tr , '\n' <<<"$sms" | wc -l)" != "$n" ]; then echo "scaling_gpu.sh: SMS is not for $n GPUs" >&2; return 2; fi
  read -ra emulate <<<"$(emulating "$sms")"
  if [ -z "${CLUSTER:-}" ]; then
    mpirun --bind-to none -n "$n" "$motley" profile --device "$device" "${emulate[@]}" --model "$model" --batch $((n * batch)) \
      --precision bf16 --budget "${BUDGET:-30}" -o "$cluster" >"$work/profile.txt" 2>&1 || { tail -n 5 "$work/profile.txt" >&2; return 1; }
  fi
  [ -z "${SHARES:-}" ] || by+=(--shares "$SHARES")
  for storage in $storages; do
    # shellcheck disable=SC2046
    planned "$work/unequal-$storage" --cluster "$cluster" --batch $((n * batch)) "${by[@]}" $(stored "$storage") "${flags[@]}"
    taken=$(grep -A8 '"name": "batch"' "$work/unequal-$storage" | grep -o '"sizes": \[[0-9, ]*' | grep -o '[0-9][0-9, ]*' | head -n 1)
    echo "unequal, $storage: shares ${taken// /} on $sms multiprocessors$(grep -m1 -o 'predicted.*' "$work/unequal-$storage.txt" | sed 's/^/, /')"
  done
  # shellcheck disable=SC2046
  planned "$work/unequal-even" --cluster "$cluster" --use all --batch $((n * batch)) --even $(stored "$storage") "${flags[@]}"
  in_turn unequal "${taken// /}" "$sms"
}

for what in "$@"; do
  case $what in
  equal | unequal) "$what" ;;
  *) echo "scaling_gpu.sh: \"$what\" is neither equal nor unequal" >&2; exit 2 ;;
  esac
done
