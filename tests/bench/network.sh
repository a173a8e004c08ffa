#!/usr/bin/env bash
# How near `motley profile` comes to a network's rate: two hosts (network namespaces) with 500 Mbit/s between them, the
# bandwidth that the profile has for the network against what iperf3 carries over the same link. For root.
#
#   tests/bench/network.sh
. "$(dirname "$0")/lib.bash"
needs iperf3
needs_hosts
hosts_up 500mbit
ip netns exec "$HOST_B" iperf3 -s -1 >/dev/null &
for _ in $(seq 50); do # until it listens
  rate=$(ip netns exec "$HOST_A" iperf3 -c 10.77.0.2 -t 1 -J 2>/dev/null |
    awk '/"sum_received"/ { in_sum = 1 } in_sum && /bits_per_second/ { gsub(/[^0-9.e+]/, "", $2); print $2 / 8; exit }') || true
  [ -z "$rate" ] || break
  sleep 0.1
done
on_hosts -n 2 "$motley" profile --budget 5 -o "$work/two.json" >/dev/null
measured=$(awk '/"name": "net"/ { net = 1 } net && match($0, /"bandwidth_Bps": [0-9.e+]+/) {
  print substr($0, RSTART + 17, RLENGTH - 17); exit }' "$work/two.json")
awk -v m="$measured" -v i="$rate" 'BEGIN { printf "profile %.4g B/s, iperf3 %.4g B/s: %.3f\n", m, i, m / i }'
