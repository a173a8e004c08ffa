#!/usr/bin/env bash
# Clusters without hardware: described, shown, compared; outliers and differences as exit codes.
. "$SOURCE/tests/cli/lib.bash"

# Described by public figures, and shown as such.
$MOTLEY profile --describe "a100-40:2x8 nvlink=300G net=25G + v100:1x4" -o mixed.json >described.txt
$MOTLEY show mixed.json >mixed.txt
cmp described.txt <(sed '/^no outliers$/d' mixed.txt | sed '$d') || fail "describing does not print what show prints"
shows "description a100-40:2x8 nvlink=300G net=25G + v100:1x4" mixed.txt
shows "20 devices of 2 classes on 3 nodes: 2 nodes of 8 a100-40, 1 node of 4 v100" <(sed 's/^ *//' mixed.txt)
shows " node2 4 - - nvlink2" mixed.txt
shows " 16 to 19 node2 v100 1.000 - 31.7 GiB 4" mixed.txt
grep -qE 'a100-40 +cuda +NVIDIA A100-SXM4-40GB +108 +19.5 Tflop/s +19.5 Tflop/s +312 Tflop/s .* nominal' mixed.txt || fail "$(cat mixed.txt)"
shows " a100-40 v100 net 64 2.94 GB/s 2.94 GB/s 25.0 us 25.0 us" mixed.txt # 25 Gbit/s, of which 0.94
shows "no outliers" mixed.txt
$MOTLEY profile --hardware | has '^ *h100 ' || fail "--hardware lists no h100"
$MOTLEY profile --hardware >out.txt
[ "$(grep 'cannot run here: kernels need sm_75$' out.txt | awk '{print $1}' | xargs)" = "p100 v100-16 v100" ] || fail "$(cat out.txt)"

# The same text gives the same document.
$MOTLEY profile --describe "a100-40:2x8 nvlink=300G net=25G + v100:1x4" -o again.json >/dev/null
cmp mixed.json again.json

refused 2 '--describe: "h100:2 nvlonk=3G": column 8: there is no link "nvlonk"' $MOTLEY profile --describe "h100:2 nvlonk=3G" -o no.json
refused 2 'counts follow the name: h100:1x8 is a node of 8, h100:8 are 8 nodes of one' $MOTLEY profile --describe 8xh100 -o no.json
refused 2 'more than 4096 devices' $MOTLEY profile --describe h100:1000x8 -o no.json
refused 2 '"t5:2": column 1: "t5" is not known here' $MOTLEY profile --describe t5:2 -o no.json
[ ! -e no.json ] || fail "a refused description left a file"
refused 2 "nothing.json: No such file" $MOTLEY profile --describe t4 --measured nothing.json -o no.json
sed 's/"speed": 1,/"speed": 2,/' mixed.json >changed.json
refused 2 "changed.json: hash: does not fit: the document was changed" $MOTLEY show changed.json

# A plan says how the line was understood.
$MOTLEY plan --cluster "h100:2x2" --model mlp:tiny --batch 8 -o plan.json >plan.txt
shows "cluster 2 nodes of 2 h100, nvlink 360 GB/s; messages between nodes reach 2.94 GB/s, of net=25.0 Gbit/s, as nothing else is given" plan.txt

# Differences, and their exit code.
$MOTLEY diff mixed.json again.json >same.txt
shows "mixed.json and again.json say the same" same.txt
$MOTLEY profile --describe "a100-40:2x8 nvlink=300G net=100G + v100:1x4" -o fast.json >/dev/null
got=0
$MOTLEY diff mixed.json fast.json >differ.txt || got=$?
[ "$got" = 1 ] || fail "diff ended with $got: $(cat differ.txt)"
shows "link net: bytes a second 2.94 G 11.8 G +300.0%" differ.txt
! grep -q '^link nvlink' differ.txt || fail "nvlink is the same: $(cat differ.txt)"
refused 2 "nothing.json" $MOTLEY diff mixed.json nothing.json

# A measured cluster with a slow rank, a neighbour and a bad link: printed all the same, and said to scripts. Its class
# and its links can be described with.
slow=$SOURCE/tests/fuzz/corpus/cluster/slow_rank.json
got=0
$MOTLEY show "$slow" >slow.txt || got=$?
[ "$got" = 6 ] || fail "show ended with $got: $(cat slow.txt)"
shows " rank 2 (node1): at 0.55 of the speed of its class, class0" slow.txt
shows " rank 2 (node1): other processes had 42% of its time" slow.txt
shows " rank 0 (node0) to rank 3 (node1), over net: 0.50 of the bandwidth of other pairs" slow.txt
shows " rank 2 on node1: its mask has 1 of 2 cores" slow.txt
shows " 0 . 5.00 GB/s 125 MB/s 62.5 MB/s" slow.txt
$MOTLEY profile --describe "class0:2x3" --measured "$slow" -o more.json >more.txt
shows " net 50.0 us 1.0% 125 MB/s 1.0% 125 MB/s - - measured" more.txt
grep -q 'class0 .* measured$' more.txt || fail "$(cat more.txt)"
