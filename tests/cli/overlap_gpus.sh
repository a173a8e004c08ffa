#!/usr/bin/env bash
# How overlapped GEMMs run on GPUs is a decision of the plan: chosen for a described cluster where a person wants it,
# shown, compared, edited by hand and refused with where; and the schedules are proven.
. "$SOURCE/tests/cli/lib.bash"
job="--model gpt2:layers=1,heads=4,embed=256,context=256,vocab=512 --batch 16 --precision bf16 --strategy tensor"
job+=" --cluster h200:1x2 --use all"

$MOTLEY plan $job -o alone.json >said.txt
! grep -q '"overlapped"' alone.json || fail "nominal rates alone: $(grep overlapped alone.json)"
$MOTLEY plan $job --overlap all -o all.json >said.txt
grep -q '^  "overlapped": \[' all.json || fail "no rows: $(cat all.json)"
$MOTLEY show all.json >shown.txt
grep -q '^overlapped' shown.txt || fail "rows are not shown: $(cat shown.txt)"
grep -qE '^ *GEMM\+AllReduce +4096 +.* (one kernel|copy engines and GEMMs), ' shown.txt || fail "no row: $(cat shown.txt)"
$MOTLEY diff alone.json all.json >differ.txt || true
grep -qE '^GEMM\+AllReduce of 4096 by .* (one kernel|copy engines and GEMMs)' differ.txt || fail "$(cat differ.txt)"
$MOTLEY show program all.json --lowered >program.txt
grep -qE '; overlapped: 4096 by .*, by (one kernel|copy engines and GEMMs)' program.txt || fail "$(grep overlapped program.txt)"

# GEMMs without rows, here of two groups of ranks with different shares, are shown as they run.
$MOTLEY plan --cluster "a100-40:1x2 nvlink=300G net=100G + a10:1x2" --model gpt2:124m --batch 48 --precision bf16 \
  --overlap all -o groups.json >said.txt
! grep -q '^  "overlapped": \[' groups.json || fail "rows: $(cat groups.json)"
$MOTLEY show program groups.json --lowered >program.txt
$MOTLEY show groups.json | sed -n '/^overlapped/,/^$/s/^ *GEMM+ReduceScatter *\([0-9]*\) *\([0-9]*\) *\([0-9]*\) .*as the device does.*/\1 by \3 by \2/p' |
  sort >shapes.txt
sed -n 's/.*; overlapped: \([0-9 by]*\),.*/\1/p' program.txt | sort -u | cmp - shapes.txt ||
  fail "$(cat shapes.txt), not $(sed -n 's/.*; overlapped: \([0-9 by]*\),.*/\1/p' program.txt | sort -u)"
$MOTLEY show program all.json --lowered >program.txt

# edited SED WORDS: the plan, with other words; refused with WORDS
edited() {
  sed -E "$1" all.json >edited.json
  ! cmp -s all.json edited.json || fail "$1 changes nothing"
  ! $MOTLEY plan --check edited.json -o none.json >said.txt 2>&1 || fail "$1 is accepted"
  has "$2" <said.txt || fail "$1: $(cat said.txt)"
}
edited '0,/"by": "[a-z]*"/s//"by": "magic"/' 'overlapped\[0\].*"magic"'
edited '0,/"tile": \[[0-9]*,/s//"tile": [0,/' 'overlapped\[0\].tile'
edited '0,/"form": "reduce"/s//"form": "gather"/' 'overlapped\[0\].put_rows: is 0, but must be from 1 to '
edited '0,/"tile": \[[0-9]*,/s//"tile": [1000000000000000,/' 'tile\[0\]: is 1000000000000000, but must be from 1 to 1099511627776'

# Rows that decide nothing: of no GEMM of the plan, of a form that it does not overlap, by what cannot run them.
edited '/^    "overlapped": "all"/d' 'overlapped\[0\].form: "reduce" has no effect: gradients.overlapped is "none"'
edited 's/^    "overlapped": "all"/    "overlapped": "gather+scatter"/' 'form: "reduce" has no effect: .* "gather.scatter"'
edited '0,/"m": 4096/s//"m": 999/' 'overlapped\[0\]: has no effect: no GEMM.AllReduce of this plan is of m 999, columns 256, k 256'
edited '0,/"k": 1024/s//"k": 30720/' 'overlapped\[1\]: has no effect: .*k 30720'
has 'hint: there are, m by columns by k: 4096 by 256 by 256' <said.txt || fail "$(cat said.txt)"
for by in '"apart"' '"any", "tile": [16, 16]'; do
  edited "s/^  \"overlapped\": \\[/&{\"form\": \"scatter\", \"m\": 9, \"columns\": 9, \"k\": 9, \"by\": $by},/" \
    'overlapped\[0\]: has no effect: no GEMM.ReduceScatter of this plan'
done
edited '0,/"by": "fused", "tile": \[64/s//"by": "fused", "tile": [100/' '\[0\].by: "fused" has no effect: one kernel has no such tiles'
edited '0,/"host": "node0"/s//"host": "other"/' '\[0\].by: "fused" has no effect: the GEMM is among several hosts'

# One that stays apart is no overlapped instruction any more, and the plan is one again.
count=$(grep -c '; overlapped: ' program.txt)
sed -E '0,/("form": "reduce".*"by": ")[a-z]*".*\}/s//\1apart"}/' all.json >edited.json
$MOTLEY plan --check edited.json -o apart.json >said.txt
$MOTLEY show program apart.json --lowered >program.txt
[ "$(grep -c '; overlapped: ' program.txt)" -lt "$count" ] || fail "none is apart of $count"

# A plan that nobody has edited keeps its bytes, and so what it says of NCCL on its cluster.
grep -q '"communicator_bytes": [1-9]' all.json || fail "no communicators: $(cat all.json)"
for flag in '' --without-idle; do
  $MOTLEY plan --check all.json $flag -o again.json >said.txt
  cmp all.json again.json || fail "signed again with '$flag': $(cat said.txt)"
done
