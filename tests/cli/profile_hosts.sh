#!/usr/bin/env bash
# motley profile between hosts: nodes, a network whose messages went over the links, and the host and direction that is
# slow. Rates differ 50 times, so that no verdict depends on how busy the machine is.
. "$SOURCE/tests/cli/lib.bash"
. "$SOURCE/tests/cli/hosts.bash"
hosts_can || { echo "hosts want root and network namespaces"; exit 77; }
trap 'hosts_down; rm -rf "$folder"' EXIT

# profiled RANKS: the document of that many ranks, in cluster.json
profiled() {
  on_hosts -n "$1" "$MOTLEY" profile --budget 4 --start-deadline 120 -o "$PWD/cluster.json" >profile.txt 2>progress.txt || fail "$(cat progress.txt)"
  grep -q "measuring $1 ranks on ${#HOSTS[@]} hosts" progress.txt || fail "$(cat progress.txt)"
  for host in "${HOSTS[@]}"; do
    grep -q "{\"name\": \"$host\"" cluster.json || fail "no node $host in $(document)"
  done
  grep -q '"network": "net"' cluster.json || fail "no network in $(document)"
}
# figure PATTERN NAME: of the document's row that matches
figure() { awk -v pattern="$1" -v name="\"$2\": " '$0 ~ pattern && match($0, name "[0-9.e+]+") {
  print substr($0, RSTART + length(name), RLENGTH - length(name)); exit }' cluster.json; }
# document: what of it is short
document() { grep -v '"op": \|"coll' cluster.json; }
# slow PATTERN NAME: 20 Mbit/s, of which messages reach 2.35 MB/s. A busy machine and lost packets take some of it, but
# not as much as bits for bytes would; and messages of which half has been sent when a busy rank begins to take them seem
# faster, which is less than what the others are.
slow() {
  awk -v m="$(figure "$1" "$2")" 'BEGIN { exit !(m > 0.2 * 2.35e6 && m < 2 * 2.35e6) }' ||
    fail "$1: $2 is $(figure "$1" "$2"), not 2.35 MB/s"
}
# fast PATTERN NAME: three times that at least, as naming needs, on the busiest machine
fast() {
  awk -v m="$(figure "$1" "$2")" 'BEGIN { exit !(m > 3 * 2.35e6) }' || fail "$1: $2 is $(figure "$1" "$2")"
}
# named TEXT: a host that is named, in the document and in what is printed; a busy machine may slow another one as well
named() {
  grep -q "\"node $1" cluster.json || fail "\"node $1\" is not in $(document)"
  grep -q "^  node $1" profile.txt || fail "$(cat profile.txt)"
}

# Three hosts, of which the last sends far less.
hosts_switch 1gbit/1gbit 1gbit/1gbit 20mbit/1gbit
profiled 3
slow "\"name\": \"${HOSTS[2]}\"" egress_Bps
fast "\"name\": \"${HOSTS[2]}\"" ingress_Bps
fast "\"name\": \"${HOSTS[0]}\"" egress_Bps
fast "\"name\": \"${HOSTS[1]}\"" egress_Bps
slow '"a": 0, "b": 2' reverse_Bps
fast '"a": 0, "b": 2' bandwidth_Bps
slow '"a": 1, "b": 2' reverse_Bps
named "${HOSTS[2]} sends at [0-9.]* [kM]B/s, others at"
hosts_down

# Two, of which the first receives far less: the direction.
hosts_switch 1gbit/20mbit 1gbit/1gbit
profiled 2
slow "\"name\": \"${HOSTS[0]}\"" ingress_Bps
fast "\"name\": \"${HOSTS[0]}\"" egress_Bps
slow '"a": 0, "b": 1' reverse_Bps
named "${HOSTS[1]} to node ${HOSTS[0]}: [0-9.]* [kM]B/s"
