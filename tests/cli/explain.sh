#!/usr/bin/env bash
# motley explain: what binds, by what helps.
. "$SOURCE/tests/cli/lib.bash"
job="--model gpt2:layers=1,heads=2,embed=64,context=64,vocab=64 --batch 24 --steps 6"

# gain TEXT: the percentage in the row that begins so.
gain() { sed -n "s/^  $1.*  \([-0-9.]*\)%$/\1/p" said.txt | head -1; }
more() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a > b) }'; }

# Slow computing, a fast network: devices bind, and the faster class does most of the work.
$MOTLEY plan --cluster "cpu:2 net=400G + cpu-avx512-4t:1" --use all $job -o compute.json >said.txt
$MOTLEY explain compute.json --cluster "cpu:2 net=400G + cpu-avx512-4t:1" >said.txt
grep -q '^A step is predicted to take .* tokens a second' said.txt || fail "$(cat said.txt)"
grep -q '^Rank [0-2] (cpu.* on .*) is the one that the others wait for' said.txt || fail "$(cat said.txt)"
grep -q '^The bottleneck is .*one percent more of it saves' said.txt || fail "$(cat said.txt)"
grep -q '^nothing more, shares solved again\|^  nothing more, shares solved again' said.txt || fail "$(cat said.txt)"
grep -q '^  cpu 10% faster (ranks 0-1) ' said.txt || fail "$(cat said.txt)"
grep -q '^  cpu-avx512-4t 10% faster (rank 2) ' said.txt || fail "$(cat said.txt)"
more "$(gain cpu)" 1 || fail "faster devices do not help: $(cat said.txt)"
more "$(gain 'cpu')" "$(gain 'link net')" || fail "the network binds: $(cat said.txt)"

# The same devices behind a modem: the link binds.
slow="cpu-avx512:2 net=10M"
$MOTLEY plan --cluster "$slow" --use all $job -o link.json >said.txt
$MOTLEY explain link.json --cluster "$slow" >said.txt
more "$(gain 'link net')" 20 || fail "a faster network does not help: $(cat said.txt)"
more "$(gain 'link net')" "$(gain cpu-avx512)" || fail "$(cat said.txt)"

# Another cluster's plan, no plan, no cluster.
refused 2 "link.json: cluster_hash: the plan was made for another cluster" $MOTLEY explain link.json --cluster cpu:2
$MOTLEY plan $job --ranks 2 -o speeds.json >said.txt
refused 2 "speeds.json: was made for no cluster" $MOTLEY explain speeds.json --cluster "$slow"
refused 2 "explain what? Name a plan" $MOTLEY explain --cluster "$slow"
refused 2 "--cluster is missing" $MOTLEY explain link.json
refused 2 "one plan at a time" $MOTLEY explain link.json speeds.json --cluster "$slow"
refused 2 "none.json: No such file" $MOTLEY explain none.json --cluster "$slow"
sed 's/"batch": 24/"batch": 25/' link.json >edited.json
refused 2 "edited.json: " $MOTLEY explain edited.json --cluster "$slow"
