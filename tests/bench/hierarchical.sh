#!/usr/bin/env bash
# Hierarchical AllReduce, measured: two hosts (network namespaces) of two ranks each with 1 Gbit/s between them, ranks in
# the order of hosts and interleaved. A ring in the order of ranks sends every block over the network once each way in
# the order of hosts, and with every message when interleaved; a hierarchical algorithm sends half of the message each
# way, twice: the limits of the ratios are 1.5 and 3. Printed: times of an AllReduce of 16 MiB, ratios to the ring, and
# which algorithm a plan takes that is made from a profile of these ranks. For root.
#
#   tests/bench/hierarchical.sh      # BUDGET: seconds of each profile; SECONDS_EACH: of each comparison
. "$(dirname "$0")/lib.bash"
needs_hosts
build=${BUILD:-$PWD/build/release}
hosts_up 1gbit

declare -A map=([hosts]=slot [interleaved]=node) least=([hosts]=1.25 [interleaved]=2.2)
# One gradient of 4 Mi elements in f32, and little else: an AllReduce of 16 MiB.
job=(--model mlp:context=8,embed=64,hidden=2048,layers=2 --batch 16)
decisions=(--use all --storage replicated --bucket-bytes 16MiB)
failed=0
for order in hosts interleaved; do
  ranks=(-n 4 --host "$HOST_A:2,$HOST_B:2" --map-by "${map[$order]}")
  hosts_mpirun "${ranks[@]}" "$build/motley" profile --budget "${BUDGET:-60}" "${job[@]}" -o "$work/$order.json" \
    >"$work/$order.txt" 2>&1 || { cat "$work/$order.txt"; exit 1; }
  hosts_mpirun "${ranks[@]}" "$build/tests/bench_collectives" "$work/$order.json" --kind AllReduce --least 16MiB \
    --most 16MiB --list 1 --seconds "${SECONDS_EACH:-10}" >"$work/$order.times" 2>&1 || { cat "$work/$order.times"; exit 1; }
  grep -A7 'f32 .* even' "$work/$order.times"
  "$build/motley" plan --cluster "$work/$order.json" "${job[@]}" "${decisions[@]}" -o "$work/$order.plan.json" >/dev/null
  chosen=$(grep -o '"kind": "AllReduce", "algorithm": "[a-z_]*"' "$work/$order.plan.json" | tail -n 1 | cut -d'"' -f8)
  [ -n "$chosen" ] || { echo "$order: the plan has no AllReduce: $(cat "$work/$order.plan.json")" >&2; exit 1; }
  awk -v order="$order" -v chosen="$chosen" -v least="${least[$order]}" '
    / f32 .* even/ { even = 1 }
    / bf16 / { even = 0 }
    even && $1 == "ring" { ring = $3 }
    even && $1 == chosen { taken = $3 }
    END { enough = taken > 0 && ring / taken >= least
          printf "%s: the plan takes %s: ring/%s %.2f, at least %.2f: %s\n", order, chosen, chosen, ring / taken, least,
            enough ? "yes" : "NO"
          exit !enough }' "$work/$order.times" || failed=1
done
exit $failed
