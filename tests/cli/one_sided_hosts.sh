#!/usr/bin/env bash
# Windows and overlapped GEMMs between two hosts with a link of 1 Gbit/s: what the tests of these check among ranks of
# one host, over TCP; so one schedule gives the same bits in shared memory and between hosts.
set -euo pipefail
. "$SOURCE/tests/cli/hosts.bash"
hosts_can || { echo "needs root, network namespaces and tc"; exit 77; }
trap hosts_down EXIT
hosts_up 1gbit
tests=$(dirname "$MOTLEY")/tests
on_hosts -n 2 "$tests/mpi_window"
on_hosts -n 2 "$tests/mpi_overlap"
