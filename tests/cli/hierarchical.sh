#!/usr/bin/env bash
# Hierarchical collectives on plans whose ranks share hosts unevenly: each program is proved and computes what one rank
# does, on two hosts (network namespaces) too; what a program's hash says of hosts; refusals.
source "$SOURCE/tests/cli/lib.bash"
source "$SOURCE/tests/cli/hosts.bash"
seq 1 1500 | tr '\n' ' ' >text

model=gpt2:layers=2,heads=4,embed=16,context=16,vocab=256,bias=1,tied=1
job="--batch 10 --steps 5 --lr 0.01 --clip 0.5 --seed 7 --precision f64"
phases="--algorithm AllReduce=hierarchical --algorithm ReduceScatter=hierarchical --algorithm AllGather=hierarchical"
pipeline="--algorithm AllReduce=hierarchical_tree --algorithm ReduceScatter=hierarchical_pipeline
  --algorithm AllGather=hierarchical_pipeline"
flat="--algorithm AllReduce=ring --algorithm ReduceScatter=ring --algorithm AllGather=ring"

make() { # NAME FLAG...
  local name=$1
  shift
  "$MOTLEY" plan --model $model $job "$@" -o "$name.json" >/dev/null
}
hash_of() { grep -o '"program_hash": "[0-9a-f]*"' "$1.json"; }

# Ragged (3 + 1 + 2), interleaved, one share zero; sharded and whole.
for algorithms in "$phases" "$pipeline"; do
  make ragged --hosts a,b,a,c,c,a --shares 3,0,1,2,2,2 --storage split --storage-speeds 1,2,0,1,3,1 $algorithms
  make pairs --hosts a,a,b,b --shares 4,3,2,1 --storage split --micro 2 $algorithms
  for name in ragged pairs; do
    "$MOTLEY" verify "$name.json" >"$name.txt" || fail "$algorithms: $(cat "$name.txt")"
  done
done
for algorithm in hierarchical hierarchical_pipeline hierarchical_tree; do
  make whole --hosts a,b,a --shares 4,3,3 --storage replicated --algorithm AllReduce=$algorithm
  "$MOTLEY" verify whole.json >whole.txt || fail "$algorithm: $(cat whole.txt)"
done

# Hosts are part of a program only where an algorithm depends on them.
make none -n 4 --shares 4,3,2,1 --storage split $flat
make one --hosts a,a,a,a --shares 4,3,2,1 --storage split $flat
make two --hosts a,a,b,b --shares 4,3,2,1 --storage split $flat
[ "$(hash_of none)" = "$(hash_of one)" ] && [ "$(hash_of none)" = "$(hash_of two)" ] || fail "hosts are hashed"
make in_order --hosts a,a,b,b --shares 4,3,2,1 --storage split $phases
make renamed --hosts x,x,y,y --shares 4,3,2,1 --storage split $phases
make interleaved --hosts a,b,a,b --shares 4,3,2,1 --storage split $phases
[ "$(hash_of in_order)" = "$(hash_of renamed)" ] || fail "names of hosts are hashed"
[ "$(hash_of in_order)" != "$(hash_of interleaved)" ] || fail "other hosts, other schedules, the same hash"

# shellcheck disable=SC2086
refused 2 'algorithm "hierarchical" is for ranks on several hosts' \
  "$MOTLEY" plan --model $model $job -n 3 --storage replicated --algorithm AllReduce=hierarchical -o no.json
refused 2 'algorithm "hierarchical" is for ranks on several hosts' \
  "$MOTLEY" plan --model $model $job --hosts a,b,c --storage replicated --algorithm AllReduce=hierarchical -o no.json

# Two hosts of two ranks each, interleaved, against one rank.
hosts_can || { echo "without two hosts: they want root and network namespaces"; exit 0; }
trap 'hosts_down; rm -rf "$folder"' EXIT
hosts_up ""
make alone -n 1
"$MOTLEY" train alone.json --data text --out alone >alone.txt 2>&1 || fail "$(cat alone.txt)"
make hosts --hosts "$HOST_A,$HOST_B,$HOST_B,$HOST_A" --shares 4,3,2,1 --storage split $pipeline
on_hosts -n 4 "$MOTLEY" train "$PWD/hosts.json" --data "$PWD/text" --out "$PWD/hosts" --start-deadline 120 \
  >hosts.txt 2>&1 || fail "$(cat hosts.txt)"
grep -q "parameter hashes equal on 4 ranks" hosts.txt || fail "$(cat hosts.txt)"
"$COMPARE" hosts/step-*.safetensors alone/step-*.safetensors 0.2 || fail "parameters"
