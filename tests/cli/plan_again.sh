#!/usr/bin/env bash
# motley plan --from: shares by the speeds that a run has seen. The run is real, its times are written in by hand.
. "$SOURCE/tests/cli/lib.bash"
seq 1 9000 >text.txt
$MOTLEY plan --model gpt2:layers=1,heads=2,embed=16,context=16,vocab=256 --shares 8,0,8 --micro 4 --batch 16 --steps 4 \
  --hosts "$(hostname),$(hostname),$(hostname)" --storage split -o plan.json >said.txt
mpirun -n 3 $MOTLEY train plan.json --data text.txt --out run >said.txt 2>&1
cmp plan.json run/plan.json || fail "the run's folder has another plan"

# times STEP RANK0 RANK2: what the steps took, and what two ranks computed of that.
times() {
  sed -i "s/\"step_s\": [0-9.e-]*/\"step_s\": $1/" run/run.json
  awk -v a="$2" -v c="$3" '/"step_compute_s"/ { sub(/"step_compute_s": [0-9.e-]+/, "\"step_compute_s\": " (n++ ? c : a)) } 1' \
    run/run.json >new.json && mv new.json run/run.json
}
# Rank 2 is half as fast as rank 0: 10.67 and 5.33 of 16. Of 250 ms, 200 were computing; 137.5 will be.
times 0.25 0.1 0.2
for from in run run/run.json; do
  $MOTLEY plan --from $from -o next.json >said.txt
  tr -s ' ' <said.txt >squeezed.txt
  grep -qx ' *0 .* 100 ms 8 11 1' squeezed.txt || fail "$(cat said.txt)"
  grep -qx ' *2 .* 200 ms 8 5 0.5' squeezed.txt || fail "$(cat said.txt)"
  grep -qxF 'expected 188 ms a step instead of 250 ms: 33% faster' squeezed.txt || fail "$(cat said.txt)"
done
shows ' {"name": "batch", "label": "batch", "align": 1, "sizes": [11, 0, 5]},' next.json
shows ' "micro_batch": [4, 0, 4],' next.json
! $MOTLEY diff plan.json next.json >said.txt || fail "the same plan"
! grep -q 'storage\|gradients\|optimizer' said.txt || fail "more than the shares changed: $(cat said.txt)"
$MOTLEY verify next.json >said.txt || fail "$(cat said.txt)"
(cd run && $MOTLEY plan --from run.json -o ../same.json) >said.txt
cmp next.json same.json

# As fast as one another: nothing is gained.
times 0.25 0.2 0.2
$MOTLEY plan --from run -o same.json >said.txt
tr -s ' ' <said.txt | has -xF 'expected no gain: steps take 250 ms as they are' || fail "$(cat said.txt)"

refused 2 "none/run.json: No such file" $MOTLEY plan --from none/run.json -o x.json
refused 2 "is a \"motley-plan\", not a \"motley-run\"" $MOTLEY plan --from plan.json -o x.json
refused 2 "--from: takes the job and its decisions from the run's plan, not from --model" $MOTLEY plan --from run \
  --model mlp:tiny -o x.json
refused 2 "--from: takes the job and its decisions from the run's plan, not from the job's flags" $MOTLEY plan --from run \
  --batch 8 -o x.json
refused 2 "--check and --from exclude each other" $MOTLEY plan --from run --check plan.json -o x.json
refused 2 "--cluster-out: has no use without --from and --cluster" $MOTLEY plan --from run --cluster-out c.json -o x.json
refused 2 "--limit: has no use without --cluster" $MOTLEY plan --from run --limit 3 -o x.json
refused 2 "--limit: must be more than 0" $MOTLEY plan --cluster c.json --limit 0 -o x.json
refused 2 "--out is missing" $MOTLEY plan --from run
cp -r run odd
cp next.json odd/plan.json
refused 2 "odd/run.json: plan_hash: the run is of another plan" $MOTLEY plan --from odd -o x.json
rm odd/plan.json
refused 2 "the plan in the folder of odd/run.json: odd/plan.json: No such file" $MOTLEY plan --from odd -o x.json
cp plan.json odd/plan.json
sed -i 's/"samples": 0/"samples": 1/' odd/run.json
refused 2 "odd/run.json: ranks[1].samples: is 1, but its plan gives the rank 0" $MOTLEY plan --from odd -o x.json
sed -i 's/"samples": 1\b/"samples": 0/; s/"step_s": [0-9.e-]*/"step_s": 0/' odd/run.json
refused 2 "odd/run.json: the run has no times of steps" $MOTLEY plan --from odd -o x.json
[ ! -e x.json ] || fail "a refused plan was written"
