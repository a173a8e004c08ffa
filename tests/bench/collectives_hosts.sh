#!/usr/bin/env bash
# How near predicted AllReduce and AllGather come to measured ones on hosts (network namespaces) at 1 Gbit/s each: a
# profile, then every size from 1 KiB to 16 MiB in three divisions (bench_collectives), by the algorithm that is chosen.
# Counts those within 20% from 64 KiB on, and within 40% below. For root. BUDGET: seconds a profile.
#
#   tests/bench/collectives_hosts.sh [HOSTS...]
. "$(dirname "$0")/lib.bash"
needs_hosts
bench=${BENCH:-$PWD/build/release/tests/bench_collectives}

for n in "${@:-2 3}"; do
  for n in $n; do
    rates=()
    for ((i = 0; i < n; i++)); do rates+=(1gbit/1gbit); done
    hosts_switch "${rates[@]}"
    on_hosts -n "$n" "$motley" profile --budget "${BUDGET:-60}" -o "$work/cluster.json" >"$work/profile.txt"
    for kind in AllReduce AllGather; do
      on_hosts -n "$n" "$bench" "$work/cluster.json" --kind $kind --most 16MiB --seconds "${SECONDS_EACH:-0.5}" >"$work/$kind.txt"
      grep predicted/measured "$work/$kind.txt" | sed "s, best .* us , ,"
      awk -v kind=$kind -v n="$n" '
        $1 == kind && match($0, /predicted\/measured +[0-9.]+/) {
          text = substr($0, RSTART, RLENGTH); sub(/.* /, "", text)
          large = $4 == "MiB" || ($4 == "KiB" && $3 >= 64)
          off = text > 1 ? text - 1 : 1 - text
          cases[large]++; within[large] += off <= (large ? 0.2 : 0.4); sum[large] += off
        }
        END { printf "%d hosts, %s: %d of %d within 20%% from 64 KiB to 16 MiB (%.0f%% off in the mean), %d of %d within 40%% below (%.0f%%)\n",
          n, kind, within[1], cases[1], 100 * sum[1] / cases[1], within[0], cases[0], 100 * sum[0] / cases[0] }' "$work/$kind.txt"
    done
    hosts_down
  done
done
