#!/usr/bin/env bash
# motley plan: what it writes, what it refuses, and how an edited plan is signed.
. "$SOURCE/tests/cli/lib.bash"
small="--model gpt2:layers=1,heads=2,embed=16,context=8,vocab=40"

# Shares by speeds (largest remainder), even, exact; a rank without samples.
$MOTLEY plan $small --speeds 1,0.7,0.3 --batch 11 -o a.json >said.txt
grep -q "^a.json: 3 ranks, [0-9a-f]\{32\}$" said.txt || fail "$(cat said.txt)"
shows ' {"name": "batch", "label": "batch", "align": 1, "sizes": [5, 4, 2]},' a.json # 5.5 3.85 1.65
shows ' "micro_batch": [5, 4, 2],' a.json
$MOTLEY plan $small --ranks 3 --even --batch 11 --micro 3 -o b.json >said.txt
shows ' {"name": "batch", "label": "batch", "align": 1, "sizes": [4, 4, 3]},' b.json
shows ' "micro_batch": [3, 3, 3],' b.json
$MOTLEY plan $small --shares 9,0,2 --batch 11 --storage '*.bias=replicated' --storage split --storage-speeds 0,1,1 \
  --storage-shares embed=8,0,8 --lr 0.01 --gradient-wire bf16 --algorithm ReduceScatter=ring -o c.json >said.txt
shows ' {"name": "batch", "label": "batch", "align": 1, "sizes": [9, 0, 2]},' c.json
shows ' {"name": "storage:vocab", "label": "vocab", "align": 8, "sizes": [0, 24, 16]},' c.json
shows ' {"name": "storage:embed", "label": "embed", "align": 8, "sizes": [8, 0, 8]},' c.json
shows ' {"pattern": "*.bias", "layout": "replicated"},' c.json
shows ' {"kind": "ReduceScatter", "algorithm": "ring", "wire": "bf16", "acc": "f32"},' c.json
shows ' "lr_min": 0.001,' c.json
shows ' "sync": "reduce_scatter",' c.json

# Buckets of gradients, where neither a flag nor a cluster says: larger among GPUs.
shows ' "bucket_bytes": 4194304' c.json
$MOTLEY plan $small --ranks 2 --device cuda -o gpus.json >said.txt
shows ' "bucket_bytes": 67108864' gpus.json
shows ' "start": "attention",' gpus.json
$MOTLEY plan $small --ranks 2 --device cuda --bucket-start full -o gpus.json >said.txt
if has start gpus.json; then fail "$(cat gpus.json)"; fi
refused 2 '--bucket-start: "now" is not known here' $MOTLEY plan $small --ranks 2 --bucket-start now -o x.json
# Ranks that begin otherwise train the same.
$MOTLEY plan $small --ranks 2 --bucket-bytes 1000 --bucket-start attention -o begin.json >said.txt
$MOTLEY show begin.json | has 'full buckets start with attention, in buckets of' || fail "$($MOTLEY show begin.json)"
$MOTLEY verify begin.json >said.txt || fail "$(cat said.txt)"

# Large conversions in chunks, so that messages take little memory: in the plan, in the program, proven.
large="--model gpt2:layers=1,heads=2,embed=64,context=8,vocab=1000 --ranks 3 --storage split --sync all_reduce"
$MOTLEY plan $large --staging 64KiB -o chunks.json >said.txt
shows ' "staging_bytes": 65536' chunks.json
$MOTLEY show chunks.json | has 'staging at most 64.0 KiB' || fail "$($MOTLEY show chunks.json)"
$MOTLEY plan $large -o whole.json >said.txt
has staging whole.json && fail "$(cat whole.json)"
for plan in chunks whole; do $MOTLEY show --lowered --rank 0 program $plan.json | grep -c 'comm  ' >$plan.txt; done
[ "$(cat chunks.txt)" -gt "$(cat whole.txt)" ] || fail "$(cat chunks.txt whole.txt)"
$MOTLEY verify chunks.json >said.txt || fail "$(cat said.txt)"
has '^schedule *proven on every rank' said.txt || fail "$(cat said.txt)"
refused 2 '--staging: must be at least 64KiB, not "1KiB"' $MOTLEY plan $large --staging 1KiB -o x.json
sed 's/"staging_bytes": 65536/"staging_bytes": 100/' chunks.json >few.json
refused 2 'gradients.staging_bytes: ' $MOTLEY plan --check few.json -o x.json

# The same request gives the same bytes, on standard output too.
$MOTLEY plan $small --speeds 1,0.7,0.3 --batch 11 -o - >again.json
cmp a.json again.json

refused 2 "--model is missing" $MOTLEY plan --ranks 2 -o x.json
refused 2 "--ranks is missing" $MOTLEY plan $small -o x.json
refused 2 "--out is missing" $MOTLEY plan $small --ranks 2
refused 2 "\"bert\"" $MOTLEY plan --model bert:large --ranks 2 -o x.json
refused 2 "--batch: must be a whole number, not \"x\"" $MOTLEY plan $small --ranks 2 --batch x -o x.json
refused 2 "job: batch: is 0, but must be from 1" $MOTLEY plan $small --ranks 2 --batch 0 -o x.json
refused 2 "job: dropout: is 1.5" $MOTLEY plan $small --ranks 2 --dropout 1.5 -o x.json
refused 2 "--speeds: is for 2 ranks, but --ranks is for 3" $MOTLEY plan $small --ranks 3 --speeds 1,2 -o x.json
refused 2 "every rank's speed is 0" $MOTLEY plan $small --speeds 0,0 -o x.json
refused 2 "the speed of rank 1 is -1" $MOTLEY plan $small --speeds 1,-1 -o x.json
refused 2 "--speeds and --shares exclude each other" $MOTLEY plan $small --speeds 1,1 --shares 4,4 -o x.json
refused 2 "sums to 9, but the job's global batch is 8" $MOTLEY plan $small --shares 5,4 --batch 8 -o x.json
refused 2 "--hosts: item 1 of \"a,,b\" is empty" $MOTLEY plan $small --hosts a,,b -o x.json
refused 2 "--beta1: has no use with --optimizer sgd" $MOTLEY plan $small --ranks 2 --optimizer sgd --beta1 0.9 -o x.json
refused 2 "--algorithm: AllReduce has no algorithm \"magic\"" $MOTLEY plan $small --ranks 2 --algorithm AllReduce=magic -o x.json
refused 2 "the plan's program has no AllToAll" $MOTLEY plan $small --ranks 2 --algorithm AllToAll=direct -o x.json
refused 2 "no parameter is stored by shares of \"batch\"" $MOTLEY plan $small --ranks 2 --storage-shares batch=4,4 -o x.json
refused 2 "of memory, but has 64.0 KiB" $MOTLEY plan $small --ranks 2 --memory 1GiB,64KiB -o x.json
refused 2 "rank 1 on host b needs" $MOTLEY plan $small --hosts a,b --memory 1GiB,64KiB -o x.json
refused 2 "is no flag" $MOTLEY plan $small --ranks 2 plan.json -o x.json
refused 2 "--rank-count: is no flag of motley plan" $MOTLEY plan --rank-count 2
refused 2 "No such file or directory" $MOTLEY plan $small --ranks 2 -o no/such/x.json
refused 2 "--seq: is 0, but must be from 1" $MOTLEY plan $small --ranks 2 --seq 0 -o x.json
# Flags without an effect.
refused 2 "--gather layer: has no use with replicated parameters" $MOTLEY plan $small --ranks 2 --gather layer -o x.json
refused 2 "--gather layer: has no use with replicated parameters" $MOTLEY plan $small --cluster cpu:2 --storage replicated \
  --gather layer -o x.json
for reduce in node micro_batch; do
  refused 2 "--reduce: has no use with one micro-batch" $MOTLEY plan $small --ranks 2 --batch 8 --reduce $reduce -o x.json
  refused 2 "--reduce: has no use with one micro-batch" $MOTLEY plan $small --ranks 2 --batch 8 --micro 4 --reduce $reduce -o x.json
  $MOTLEY plan $small --ranks 2 --batch 8 --micro 2 --reduce $reduce -o several.json >said.txt || fail "$(cat said.txt)"
done
refused 2 "--strategy: has no use with --check" $MOTLEY plan --check several.json --cluster cpu:2 --strategy data -o x.json
refused 2 "--compare: has no use with --check" $MOTLEY plan --check several.json --cluster cpu:2 --compare -o x.json
refused 2 "--ranks: has no use with --models" $MOTLEY plan --models --ranks 2
refused 2 "--ranks: has no use with --document" $MOTLEY plan --ranks 2 --document
refused 2 "a flag of the job: has no use with --strategy list" $MOTLEY plan --strategy list --batch 2
refused 2 "--out: must be a name" $MOTLEY plan $small --ranks 2 -o ""
refused 2 "--algorithm: AllReduce is given twice" $MOTLEY plan $small --ranks 2 --algorithm AllReduce=ring \
  --algorithm AllReduce=tree -o x.json
refused 2 "--clip: must be a number, not \"1e-400\"" $MOTLEY plan $small --ranks 2 --clip 1e-400 -o x.json
refused 2 "storage[0].pattern: \"h.9.*\" has no effect" $MOTLEY plan $small --ranks 2 --storage "h.9.*=split" -o x.json
refused 2 "storage[1].pattern: \"h.0.*\" has no effect" $MOTLEY plan $small --ranks 2 --storage split \
  --storage "h.0.*=replicated" -o x.json
refused 1 "No space left on device" $MOTLEY plan $small --ranks 2 -o /dev/full
[ ! -e x.json ] || fail "a refused plan was written"

# An edit is seen, and signed when it is right.
sed 's/"sizes": \[5, 4, 2\]/"sizes": [4, 5, 2]/; s/"micro_batch": .*/"micro_batch": [2, 5, 2],/' a.json >edited.json
refused 2 "edited.json: hash: does not fit" $MOTLEY show edited.json
$MOTLEY plan --check edited.json -o signed.json >said.txt
$MOTLEY show signed.json | tr -s ' ' >shown.txt
grep -q '^ 0 1 4 36.4% 2 x 2 ' shown.txt || fail "$(cat shown.txt)"
! cmp -s a.json signed.json || fail "the edit was lost"
sed -i 's/"sizes": \[4, 5, 2\]/"sizes": [4, 6, 2]/' edited.json
refused 2 "edited.json: splits[0].sizes: sums to 12, but the job's global batch is 11" $MOTLEY plan --check edited.json -o x.json
sed -i 's/"sizes": \[4, 6, 2\]/"sizes": [4, 5, 2]/; s/^  "rules": \[/&{"pattern": "h.9.*", "rule": "replicate", "split": ""},/' \
  edited.json
refused 2 "rules[0].pattern: \"h.9.*\" has no effect" $MOTLEY plan --check edited.json -o x.json
refused 2 "--check: takes a plan as it is" $MOTLEY plan --check a.json --batch 4 -o x.json

# Algorithms by the size of messages: small ones by one, larger ones by another.
$MOTLEY plan $small --speeds 1,0.7,0.3 --batch 11 --bucket-bytes 2000 --algorithm AllReduce=ring -o sized.json >said.txt
sed -i 's/^\( *{"kind": "AllReduce", "algorithm": \)"ring"\(.*\)},\{0,1\}$/\1"tree"\2, "up_to_bytes": 2048},\n&/' sized.json
$MOTLEY plan --check sized.json -o sized.json >said.txt
$MOTLEY show program sized.json | sed -n 's/^ *AllReduce.* \([0-9]*\) bytes, .*, \([a-z]*\)$/\1 \2/p' >sizes.txt
awk '{ small = $1 <= 2048; n[small]++; if ($2 != (small ? "tree" : "ring")) exit 2 } END { exit !(n[0] && n[1]) }' \
  sizes.txt || fail "$(cat sizes.txt)"

$MOTLEY --version | has -x 'motley [0-9.]*' || fail "version"
$MOTLEY plan --help >said.txt && grep -q -- "--storage-shares=LABEL" said.txt || fail "help"
refused 2 "Usage: motley COMMAND" $MOTLEY
refused 2 "\"frobnicate\" is no command" $MOTLEY frobnicate
refused 2 "--precision f64: runs on CPUs only, but --device is cuda" \
  $MOTLEY plan --model gpt2:layers=1,heads=2,embed=16,context=16,vocab=256 --ranks 1 --device cuda --precision f64 -o no.json
