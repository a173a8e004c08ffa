# motley profile between two hosts: two nodes, and the network's rate as iperf3 finds it on the same link.
. "$SOURCE/tests/cli/lib.bash"
. "$SOURCE/tests/cli/hosts.bash"
hosts_can || { echo "two hosts want root and network namespaces"; exit 77; }
command -v iperf3 >/dev/null || { echo "needs iperf3"; exit 77; }
trap 'hosts_down; rm -rf "$folder"' EXIT
hosts_up 500mbit

ip netns exec "$HOST_B" iperf3 -s -1 >/dev/null &
for _ in $(seq 50); do # until it listens
  rate=$(ip netns exec "$HOST_A" iperf3 -c 10.77.0.2 -t 1 -J 2>/dev/null |
    awk '/"sum_received"/ { in_sum = 1 } in_sum && /bits_per_second/ { gsub(/[^0-9.e+]/, "", $2); print $2 / 8; exit }') || true
  [ -z "$rate" ] || break
  sleep 0.1
done
[ -n "$rate" ] || fail "iperf3 measured nothing"

on_hosts -n 2 "$MOTLEY" profile --budget 5 -o "$PWD/two.json" >two.txt 2>progress.txt || fail "$(cat progress.txt)"
grep -q "measuring 2 ranks on 2 hosts" progress.txt || fail "$(cat progress.txt)"
for host in "$HOST_A" "$HOST_B"; do
  grep -q "{\"name\": \"$host\"" two.json || fail "no node $host in $(cat two.json)"
done
grep -q '"network": "net"' two.json || fail "no network in $(cat two.json)"
measured=$(awk '/"name": "net"/ { net = 1 } net && match($0, /"bandwidth_Bps": [0-9.e+]+/) {
  print substr($0, RSTART + 17, RLENGTH - 17); exit }' two.json)
awk -v m="$measured" -v i="$rate" 'BEGIN { exit !(m / i > 0.6 && m / i < 1.4) }' ||
  fail "measured $measured B/s, iperf3 $rate B/s"
echo "network: $measured B/s, iperf3 $rate B/s"
