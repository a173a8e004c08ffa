#!/usr/bin/env bash
# What this program cannot run is refused by name, or predicted and marked: architectures without kernels, precisions
# that a device lacks. What no program of the job fits is refused with what it needs. Needs GLPK, as every plan for a
# cluster.
. "$SOURCE/tests/cli/lib.bash"
small="--model gpt2:layers=2,heads=2,embed=64,context=32,vocab=256 --batch 16"
if ! $MOTLEY plan --cluster cpu:1x1 $small -o none.json 2>&1 >/dev/null; then exit 77; fi
seq 1 9000 >text.txt

refused 2 "cannot run here: v100: has compute capability 7.0, and kernels need 7.5 (sm_75); t4: has compute capability 7.5, and bf16 needs 8.0 (sm_80)" \
  $MOTLEY plan --cluster "v100:1x4 + t4:1x4 net=25G" --model gpt2:124m --batch 64 --precision bf16 -o no.json
grep -q 'hint: .*--hypothetical' err.txt || fail "$(cat err.txt)"
for row in "p100:1x2 f32 p100:" "t4:1x2 bf16 t4:" "t4:1x2 tf32 t4:" "h100:1x2 f64 h100:" "a10:1 + v100:1 f16 v100:"; do
  word=${row##* } row=${row% *}
  refused 2 "cannot run here: $word" $MOTLEY plan --cluster "${row% *}" $small --precision "${row##* }" -o no.json
done
for row in "t4:1x2 f16" "t4:1x2 f32" "a10:1x2 bf16" "h100:1x2 tf32" "cpu:1x2 f64"; do
  $MOTLEY plan --cluster "${row% *}" $small --precision "${row##* }" -o good.json >good.txt || fail "$row"
  ! grep -q hypothetical good.json || fail "$row: $(cat good.json)"
done
! $MOTLEY show good.json | has "cannot run" || fail "$($MOTLEY show good.json)"

# Predicted all the same: the document, its print-outs and its hash say so, and no run takes it.
cluster=v100:1x2
$MOTLEY plan --cluster "$cluster" $small --precision f16 --hypothetical -o v.json >v.txt
why="cannot run here: v100: has compute capability 7.0, and kernels need 7.5 (sm_75)"
shows "$why" v.txt
$MOTLEY show v.json >shown.txt
shows "$why" shown.txt
refused 2 "v.json: is a hypothetical plan, which $why" mpirun -n 2 $MOTLEY train v.json --data text.txt --device cpu
grep -v '"hypothetical"' v.json >edited.json
refused 2 "edited.json: hash: does not fit" $MOTLEY show edited.json
refused 2 "edited.json: $why" $MOTLEY plan --check edited.json --cluster "$cluster" -o no.json
$MOTLEY plan --check v.json --cluster "$cluster" -o signed.json >signed.txt
shows "$why" signed.txt
code=0
$MOTLEY diff v.json good.json >diff.txt || code=$?
[ $code = 1 ] && grep -q '^cannot run here' diff.txt || fail "$code: $(cat diff.txt)"
$MOTLEY plan --cluster "a10:1x2" $small --hypothetical -o a10.json >a10.txt
! grep -q hypothetical a10.json || fail "$(cat a10.json)"
grep -q 'not hypothetical: its devices run it' a10.txt || fail "$(cat a10.txt)"
refused 2 "--hypothetical: has no use without --cluster" $MOTLEY plan --ranks 2 $small --hypothetical -o no.json

# Only devices that take part count.
refused 2 "cannot run here: v100:" $MOTLEY plan --cluster "v100:1x2 + a10:1x2" $small -o no.json
$MOTLEY plan --cluster "v100:1x2 + a10:1x2" $small --use 2,3 -o some.json >some.txt || fail "--use 2,3"
! grep -q '"hypothetical"' some.json || fail "$(cat some.json)"

# What-ifs answer, and mark what cannot run; explain says it too.
$MOTLEY whatif --cluster a10:1x2 $small --precision bf16 --change "add 2xv100@node0, remove 2xa10" --add 2xa10@node0 \
  --json=table.json >table.txt
[ "$(grep -c 'cannot run here: see \[1\]' table.txt)" = 1 ] || fail "$(cat table.txt)"
shows " [1] v100: has compute capability 7.0, and kernels need 7.5 (sm_75)" table.txt
[ "$(grep -c '"cannot_run": "v100: has' table.json)" = 1 ] || fail "$(cat table.json)"
$MOTLEY whatif --cluster v100:1 $small --add h100 --add v100 --set class.v100.speed=0.5 >table.txt
[ "$(grep -c 'cannot run here: see \[1\]' table.txt)" -ge 2 ] && [ "$(grep -c '^  \[' table.txt)" = 1 ] || fail "$(cat table.txt)"
$MOTLEY explain v.json --cluster "$cluster" | has -xF "The plan is hypothetical: it $why." || fail "explain"

# Memory: the least that is needed, of what, and what would do.
refused 2 "gpt2:layers=10,embed=4096,heads=32 does not fit into memory: even with the state sharded, weights gathered for each layer, micro-batches of 1 and --recompute segments, it needs" \
  $MOTLEY plan --cluster t4:1x2 --model gpt2:layers=10,embed=4096,heads=32 --batch 2 -o no.json
grep -Eq '^  hint: [0-9.]+ [MG]iB more on each of them would do, or 1 more of t4$' err.txt || fail "$(cat err.txt)"
$MOTLEY plan --cluster t4:1x3 --model gpt2:layers=10,embed=4096,heads=32 --batch 3 -o three.json >three.txt || fail "one more was said to do"
refused 2 "rank 0 (t4 on node0) needs" $MOTLEY plan --cluster t4:1 --model gpt2:layers=10,embed=4096,heads=32 --batch 2 -o no.json
refused 2 "with --storage split --micro" $MOTLEY plan --cluster t4:1x4 --model gpt2:1558m --batch 4 --storage replicated -o no.json
