#!/usr/bin/env bash
# How much of what a host's GPUs reach alone they reach together: equal ones, and ones made unequal. Alone is measured on
# all of them at the same time, each a job of its own, so that power and heat are as they are together; rates are means
# of the last half of the steps.
#
#   tests/bench/scaling_gpu.sh [equal | unequal]...      # [both]
#
# MODEL, BATCH (of a GPU), STEPS, SMS (of the unequal ones, for 4 GPUs) and SHARES (of those, alone; together they have
# shares by the rates that they had alone, if SHARES is not given), PLAN (more flags of `motley plan`), TEXT (a file). PEER: a script that is run as `torchrun PEER ddp LAYERS HEADS WIDTH CONTEXT BATCHES [SMS]` in the same
# minutes; SIZE: what it takes as "LAYERS HEADS WIDTH CONTEXT". DEVICE=cpu, RANKS: to try the script without GPUs.
. "$(dirname "$0")/lib.bash"
device=${DEVICE:-cuda}
model=${MODEL:-gpt2:124m,vocab=50304} batch=${BATCH:-32} steps=${STEPS:-100} size=${SIZE:-12 12 768 1024}
sms=${SMS:-132,132,64,32} shares=${SHARES:-45,45,25,13}
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

make_plan() { # FILE RANKS BATCH FLAG...
  "$motley" plan --model "$model" --precision bf16 --device "$device" --ranks "$2" --batch "$3" --steps "$steps" -o "$1" "${@:4}" >"$1.txt"
}
train() { # RANKS PLAN FLAG...: k tokens a second, the last half of the steps
  mpirun --bind-to none -n "$1" "$motley" train "$2" --device "$device" --data "$text" --val-fraction 0 --no-out --log-every $((steps / 2)) \
    "${@:3}" >"$2.out" 2>&1 || { tail -n 5 "$2.out" >&2; return 1; }
  grep -o '[0-9.]* [kMG]\{0,1\} *tokens/s' "$2.out" | tail -n 1 |
    awk '{ print $1 * ($2 == "M" ? 1000 : $2 == "G" ? 1e6 : $2 == "k" ? 1 : 0.001) }'
}
emulating() { # SMS: the flag; a CPU has a speed
  if [ "$device" = cuda ]; then
    echo "--emulate sm=$1"
  else
    echo "--emulate speed=$(tr , '\n' <<<"$1" | awk '{ print $1 / 132 }' | paste -sd,)"
  fi
}
part() { cut -d, -f"$2" <<<"$1"; }

# All ranks alone, at the same time: BATCHES SMS ("" for all there are)
alone() {
  for g in $(seq 0 $((n - 1))); do
    (
      make_plan "$work/alone$g" 1 "$(part "$1" $((g + 1)))"
      # shellcheck disable=SC2046
      CUDA_VISIBLE_DEVICES=$g train 1 "$work/alone$g" $([ -z "$2" ] || emulating "$(part "$2" $((g + 1)))") >"$work/rate$g"
    ) &
  done
  wait
  for g in $(seq 0 $((n - 1))); do cat "$work/rate$g"; done | paste -sd' '
}
repeat() { yes "$1" | head -n "$n" | paste -sd,; }
row() { printf '%-44s %12.0f k tokens/s %s\n' "$@"; }
peer() { # BATCHES [SMS]
  [ -n "${PEER:-}" ] || return 0
  # shellcheck disable=SC2086
  row "the peer, with these shares" "$(torchrun --nproc-per-node "$n" "$PEER" ddp $size "$@" 2>"$work/peer.txt" |
    grep -o '[0-9]* tokens/s' | awk '{ print $1 / 1000 }')"
}
sum() { tr ' ' '\n' <<<"$1" | awk '{ s += $1 } END { print s }'; }

equal() {
  local rates together
  rates=$(alone "$(repeat "$batch")" "")
  make_plan "$work/equal" "$n" $((n * batch)) --even "${flags[@]}"
  together=$(train "$n" "$work/equal")
  row "$n alone, together ($rates)" "$(sum "$rates")"
  row "$n equal" "$together" "$(awk -v t="$together" -v s="$(sum "$rates")" 'BEGIN { printf "%.3f of these", t / s }')"
  peer "$(repeat "$batch")"
}

unequal() {
  local rates together even all taken by
  if [ "$(tr , '\n' <<<"$sms" | wc -l)" != "$n" ]; then echo "SMS and SHARES are not for $n GPUs" >&2; return; fi
  all=$(tr , '\n' <<<"$shares" | awk '{ s += $1 } END { print s }')
  rates=$(alone "$shares" "$sms")
  row "$sms alone, together ($rates)" "$(sum "$rates")"
  if [ -n "${SHARES:-}" ]; then by=(--shares "$SHARES"); else by=(--speeds "${rates// /,}"); fi
  make_plan "$work/unequal" "$n" "$all" "${by[@]}" "${flags[@]}"
  make_plan "$work/even" "$n" "$all" --even "${flags[@]}"
  # shellcheck disable=SC2046
  together=$(train "$n" "$work/unequal" $(emulating "$sms"))
  taken=$(grep -A8 '"name": "batch"' "$work/unequal" | grep -o '"sizes": \[[0-9, ]*' | grep -o '[0-9][0-9, ]*' | head -n 1)
  row "shares ${taken// /}" "$together" "$(awk -v t="$together" -v s="$(sum "$rates")" 'BEGIN { printf "%.3f of these", t / s }')"
  # shellcheck disable=SC2046
  even=$(train "$n" "$work/even" $(emulating "$sms"))
  row "even shares" "$even" "$(awk -v t="$together" -v e="$even" 'BEGIN { printf "%.2f times that", t / e }')"
  peer "$shares" "$sms"
}

for what in "$@"; do
  case $what in
  equal | unequal) "$what" ;;
  *) echo "scaling_gpu.sh: \"$what\" is neither equal nor unequal" >&2; exit 2 ;;
  esac
done
