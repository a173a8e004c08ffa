#!/usr/bin/env bash
# One plan with overlapped GEMMs on one host, by shared memory, and on two with a link of 1 Gbit/s, by one-sided MPI: the
# same bits.
. "$SOURCE/tests/cli/lib.bash"
. "$SOURCE/tests/cli/hosts.bash"
hosts_can || { echo "needs root, network namespaces and tc"; exit 77; }
trap 'hosts_down; rm -rf "$folder"' EXIT
hash_of() { sed -n 's/.*"parameter_hash": "\([0-9a-f]*\)".*/\1/p' "$1" | head -n 1; }
seq 1 4000 >text.txt
$MOTLEY plan --model gpt2:layers=1,heads=4,embed=32,context=16,vocab=256 --batch 4 --steps 5 --ranks 2 --storage split \
  --storage-speeds 2,1 --overlap scatter -o plan.json >said.txt
mpirun -n 2 $MOTLEY train plan.json --data text.txt --out here >said.txt 2>&1 || fail "$(cat said.txt)"
hosts_up 1gbit
on_hosts -n 2 $MOTLEY train "$folder/plan.json" --data "$folder/text.txt" --out "$folder/there" >said.txt 2>&1 ||
  fail "between hosts: $(cat said.txt)"
[ -n "$(hash_of here/run.json)" ] && [ "$(hash_of here/run.json)" = "$(hash_of there/run.json)" ] ||
  fail "other bits between hosts: $(hash_of here/run.json) and $(hash_of there/run.json)"
