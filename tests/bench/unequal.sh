#!/usr/bin/env bash
# Two ranks of unequal speed: the step of a solved plan against the ideal, and against even shares.
#
#   tests/bench/unequal.sh emulate|quota|competitor [ROUNDS]
#
# The second rank is slow because its compute is stretched to twice its time, because a cgroup gives it half of a core,
# or because something else works on its core. The ideal is what both ranks do alone, at the same time, each with a job
# of its own share: batch / (rate 0 + rate 1). quota and competitor need two cores, quota needs root.
. "$(dirname "$0")/lib.bash"
slowness=${1:?emulate, quota or competitor}
rounds=${2:-3}
steps=4
model=gpt2:layers=6,heads=6,embed=384,context=256,vocab=256,bias=0
batch=48
stop() { kill $(jobs -p) 2>/dev/null || true; tidy; [ -z "${group:-}" ] || rmdir "$group" 2>/dev/null || true; }
trap stop EXIT
seq 1 400000 >"$work/text.txt"
emulate=() slow=()
case $slowness in
  emulate) emulate=(--emulate speed=1,0.5) ;;
  quota)
    printf '#!/bin/sh\necho $$ >%s/cgroup.procs\nexec "$@"\n' "${group:=$(
      if [ -d /sys/fs/cgroup/cpu ]; then echo /sys/fs/cgroup/cpu; else echo /sys/fs/cgroup; fi)/motley-slow}" >"$work/slow"
    mkdir -p "$group"
    if [ -f "$group/cpu.max" ]; then echo "50000 100000" >"$group/cpu.max"
    else echo 100000 >"$group/cpu.cfs_period_us"; echo 50000 >"$group/cpu.cfs_quota_us"; fi
    chmod +x "$work/slow"
    slow=("$work/slow") ;;
  competitor) setsid taskset -c 1 sh -c 'while :; do :; done' & ;;
  *) echo "unequal.sh: emulate, quota or competitor, not \"$slowness\"" >&2; exit 2 ;;
esac

both() { mpirun --bind-to none -n 1 "$motley" "$@" : -n 1 "${slow[@]}" "$motley" "$@"; }
shares() { grep -A8 '"name": "batch"' "$1" | grep -o '"sizes": \[[0-9, ]*' | grep -o '[0-9][0-9, ]*' | head -n 1 | tr -d ' '; }
job=(--model $model --batch $batch --steps "$steps")

both profile "${emulate[@]}" "${job[@]}" --budget "${BUDGET:-150}" -o "$work/cluster.json" >"$work/profile.txt"
"$motley" plan --cluster "$work/cluster.json" "${job[@]}" -o "$work/solved.json"
"$motley" plan --cluster "$work/cluster.json" "${job[@]}" --shares $((batch / 2)),$((batch / 2)) -o "$work/even.json"
solved=$(shares "$work/solved.json")
speed=(1 0.5)
for r in 0 1; do
  "$motley" plan --model $model --ranks 1 --batch "$(cut -d, -f$((r + 1)) <<<"$solved")" --steps "$steps" \
    -o "$work/alone$r.json" >/dev/null
done

train=(--data "$work/text.txt" --val-fraction 0)
keep() { field step_s "$work/$1/run.json" >>"$work/$1.steps"; rm -rf "${work:?}/$1"; }
median() { sort -g "$work/$1.steps" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }
for ((round = 0; round < rounds; round++)); do # in turn, as the machine's own speed drifts
  for plan in solved even; do
    both train "$work/$plan.json" "${train[@]}" --out "$work/$plan" "${emulate[@]}" >"$work/$plan.txt" 2>&1
    predicted=$(field predicted_step_s "$work/$plan/run.json")
    [ $plan = even ] || expected=$predicted
    keep $plan
  done
  for r in 0 1; do # each rank alone with its share, at the same time
    alone=("$motley" train "$work/alone$r.json" "${train[@]}" --out "$work/alone$r")
    [ "$slowness" = emulate ] && alone+=(--emulate "speed=${speed[r]}")
    [ $r = 0 ] || alone=("${slow[@]}" "${alone[@]}")
    taskset -c $r "${alone[@]}" >"$work/alone$r.txt" 2>&1 &
    running[r]=$!
  done
  wait "${running[@]}"
  keep alone0 && keep alone1
done

awk -v batch=$batch -v shares="$solved" -v solved="$(median solved)" -v even="$(median even)" -v predicted="$expected" \
  -v a="$(median alone0)" -v b="$(median alone1)" 'BEGIN {
    split(shares, x, ","); ideal = batch / (x[1] / a + x[2] / b)
    printf "shares %s: %.3f s a step (predicted %.3f), ideal %.3f s: %.3f of it; even %.3f s: %.2f times faster\n",
      shares, solved, predicted, ideal, solved / ideal, even, even / solved }'
