#!/usr/bin/env bash
# Which host, and which direction, a profile names as slow: 2 to 5 hosts (network namespaces) at 1 Gbit/s, of which one
# sends, or receives, 100 Mbit/s only; each host in turn, and none. Prints what was named, the directed figure, and how
# long the profile took. For root. BUDGET: seconds a profile.
#
#   tests/bench/slow_host.sh [HOSTS...]
. "$(dirname "$0")/lib.bash"
needs_hosts
runs=0 wrong=0

# one HOSTS SLOW egress|ingress|none: SLOW is a number from 0
one() {
  local n=$1 slow=$2 direction=$3 rates=() i start named expected figure
  for ((i = 0; i < n; i++)); do
    case $direction,$i in
      egress,$slow) rates+=(100mbit/1gbit) ;;
      ingress,$slow) rates+=(1gbit/100mbit) ;;
      *) rates+=(1gbit/1gbit) ;;
    esac
  done
  hosts_switch "${rates[@]}"
  start=$SECONDS
  on_hosts -n "$n" "$motley" profile --budget "${BUDGET:-60}" --start-deadline 120 -o "$work/cluster.json" >"$work/profile.txt" 2>"$work/err.txt" ||
    { cat "$work/err.txt" >&2; exit 1; }
  named=$(sed -n 's/^  node \(mt.*B\/s.*\): look at.*/\1/p' "$work/profile.txt")
  case $n,$direction in
    *,none) expected= ;;
    2,egress) expected="${HOSTS[slow]} to node ${HOSTS[1 - slow]}: " ;;
    2,ingress) expected="${HOSTS[1 - slow]} to node ${HOSTS[slow]}: " ;;
    *,egress) expected="${HOSTS[slow]} sends at " ;;
    *,ingress) expected="${HOSTS[slow]} receives at " ;;
  esac
  figure=$(awk -v host="\"name\": \"${HOSTS[slow]}\"" -v name="\"${direction}_Bps\": " '$0 ~ host && match($0, name "[0-9.e+]+") {
    print substr($0, RSTART + length(name), RLENGTH - length(name)); exit }' "$work/cluster.json")
  runs=$((runs + 1))
  if [ "$(grep -c . <<<"$named")" -gt 1 ] || [[ $named != "$expected"* ]] || { [ -z "$expected" ] && [ -n "$named" ]; }; then
    wrong=$((wrong + 1)) verdict=WRONG
  else
    verdict=right
  fi
  printf '%d hosts, %-7s of %d: %s in %2d s; %s MB/s of 11.75; "%s"\n' "$n" "$direction" "$slow" $verdict \
    $((SECONDS - start)) "$(awk -v f="${figure:-0}" 'BEGIN { printf "%.1f", 1e-6 * f }')" "$named"
  hosts_down
}

for n in "${@:-2 3 4 5}"; do
  for n in $n; do
    one "$n" 0 none
    for ((host = 0; host < n; host++)); do
      one "$n" "$host" egress
      one "$n" "$host" ingress
    done
  done
done
echo "$((runs - wrong)) of $runs right"
