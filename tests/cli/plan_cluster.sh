#!/usr/bin/env bash
# motley plan --cluster: searched plans and their predictions; decisions that a person has made; edits priced again; and
# the way from a run back to a plan.
. "$SOURCE/tests/cli/lib.bash"
cluster="cpu-avx512:2 net=400G + cpu:1"
model="--model mlp:context=8,embed=32,hidden=256,layers=1,vocab=64"
job="$model --batch 192 --steps 6"

# figure FILE KEY: the first number of that key. ratio A B: at most
figure() { sed -n "s/.*\"$2\": \([0-9.e-]*\).*/\1/p" "$1" | head -1; }
atmost() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && a <= b * (1 + 1e-9)) }'; }
sizes() { sed -n 's/.*"name": "batch".*"sizes": \[\(.*\)\]}.*/\1/p' "$1" | tr -d ' '; }

if [ ! -f "$(dirname "$MOTLEY")/motley_glpk.so" ]; then
  echo "skipped: built without GLPK"
  exit 77
fi
$MOTLEY plan --cluster "$cluster" --use all $job -o plan.json >said.txt
grep -q '^plan.json: 3 ranks, [0-9a-f]\{32\}$' said.txt || fail "$(cat said.txt)"
grep -q '^predicted  .* a step (.* to .*), .* tokens/s; nominal' said.txt || fail "$(cat said.txt)"
grep -q '^bound  .* the gap is [0-9.]*%: no plan for this model, .* is faster$' said.txt || fail "$(cat said.txt)"
grep -q '^binds  .*one percent more of it saves' said.txt || fail "$(cat said.txt)"
for key in host class; do ! grep -q "\"$key\": \"\"" plan.json || fail "a rank without $key"; done
grep -q '"class": "cpu-avx512.*"memory_bytes": [1-9]' plan.json || fail "$(cat plan.json)"
sizes plan.json | awk -F, '{ exit !(NF == 3 && $1 + $2 + $3 == 192 && $1 > $3 && $2 > $3 && $3 > 0) }' ||
  fail "shares $(sizes plan.json)"
$MOTLEY show plan.json | tr -s ' ' >shown.txt
grep -q '^predicted step by rank' shown.txt || fail "$(cat shown.txt)"
grep -q '^ even shares [0-9.]* [mun]*s +' shown.txt || fail "even shares are not among the rejected: $(cat shown.txt)"
step=$(figure plan.json step_s)
atmost "$(figure plan.json bound_s)" "$step" || fail "the bound is above the step"
# Nothing that was rejected is faster, and no rank's parts are longer than the step.
awk -F'"step_s": ' -v s="$step" '/"why"/ && NF > 1 { n++; if ($2 + 0 < s * (1 - 1e-9)) exit 2 } END { exit !n }' plan.json ||
  fail "a faster plan was rejected: $(cat plan.json)"
sed -n 's/.*"compute_s": \(.*\), "exposed_s": \(.*\), "idle_s": \(.*\)}.*/\1 \2 \3/p' plan.json |
  awk -v s="$step" '{ n++; sum = $1 + $2 + $3; if (sum > s * 1.001 || sum < s * 0.99) exit 2 } END { exit n != 3 }' ||
  fail "parts are not the step: $(cat plan.json)"
$MOTLEY verify plan.json >said.txt || fail "$(cat said.txt)"
refused 2 "which the plan does not have" mpirun -n 3 $MOTLEY train plan.json --data plan.json

# From the plan that is there nothing worse; from another job's plan nothing.
cp plan.json again.json
$MOTLEY plan --cluster "$cluster" --use all $job -o again.json >said.txt
grep -q '^start  *the plan that was in again.json, predicted .*: \(nothing faster was found\|this one is faster\)$' said.txt || fail "$(cat said.txt)"
atmost "$(figure again.json step_s)" "$step" || fail "worse than the last best"
# Why a faster start was not kept.
$MOTLEY plan --cluster "$cluster" --use all $job --strategy factors -o again.json >said.txt
grep -q '^start .*: it was faster, but this one keeps to --strategy factors$' said.txt || fail "$(cat said.txt)"
$MOTLEY plan --help | tr -s ' \n' ' ' | has 'With --cluster the search begins at the plan that it replaces' || fail "--help does not say where a search begins"
sed 's/"steps": 6/"steps": 7/' plan.json >again.json
$MOTLEY plan --cluster "$cluster" --use all $job -o again.json >said.txt
! grep -q '^start' said.txt || fail "started from another job's plan: $(cat said.txt)"
cmp plan.json again.json

# What a person decides stays.
$MOTLEY plan --cluster "$cluster" $job --shares 32,64,96 --micro 16 --storage '*.bias=replicated' --storage split \
  --storage-shares vocab=16,16,32 --sync all_reduce --bucket-bytes 123456 --gradient-wire bf16 \
  --algorithm AllReduce=ring -o fixed.json >said.txt
[ "$(sizes fixed.json)" = 32,64,96 ] || fail "shares $(sizes fixed.json)"
for line in ' "micro_batch": [16, 16, 16],' ' {"pattern": "*.bias", "layout": "replicated"},' ' "sync": "all_reduce",' \
  ' "bucket_bytes": 123456' ' {"name": "storage:vocab", "label": "vocab", "align": 8, "sizes": [16, 16, 32]},'; do
  shows "$line" fixed.json
done
grep -q '"kind": "AllReduce", "algorithm": "ring", "wire": "bf16"' fixed.json || fail "$(cat fixed.json)"
atmost "$step" "$(figure fixed.json step_s)" || fail "what a person decided is faster than what was searched"
$MOTLEY plan --cluster "$cluster" $job --even -o even.json >said.txt
[ "$(sizes even.json)" = 64,64,64 ] || fail "shares $(sizes even.json)"
atmost "$step" "$(figure even.json step_s)" || fail "even shares are faster than what was searched"

# What is never searched may have been faster; that is said.
cp plan.json wire.json
$MOTLEY plan --cluster "$cluster" --use all $job --gradient-wire bf16 -o wire.json >said.txt
$MOTLEY plan --cluster "$cluster" --use all $job -o wire.json >said.txt
grep -q '^start .*: it was faster, but it sends gradients as bf16, which only --gradient-wire chooses$' said.txt || fail "$(cat said.txt)"

# An edit of shares of samples is priced, and printed with the old plan and the best known one; the host is this one, so that it runs here.
rm plan.json
$MOTLEY plan --cluster "$cluster" --use all $job --strategy zero1 -o plan.json >said.txt
sed "s/\"host\": \"[^\"]*\"/\"host\": \"$(hostname)\"/; s/\"sizes\": \[$(sizes plan.json | sed 's/,/, /g')\]/\"sizes\": [64, 64, 64]/;
  s/\"micro_batch\": .*/\"micro_batch\": [64, 64, 64],/" plan.json >edited.json
$MOTLEY plan --check edited.json --cluster "$cluster" -o edited.json >said.txt
tr -s ' ' <said.txt >squeezed.txt
grep -q '^predicted ' said.txt || fail "$(cat said.txt)"
grep -q '^as edited [0-9.]* [mun]*s$' squeezed.txt || fail "$(cat said.txt)"
grep -q '^as it said before [0-9.]* [mun]*s -' squeezed.txt || fail "$(cat said.txt)"
grep -q '^best known [0-9.]* [mun]*s -' squeezed.txt || fail "$(cat said.txt)"
atmost "$(figure edited.json bound_s)" "$(figure plan.json bound_s)" || fail "an edit raised the bound: $(cat said.txt)"
atmost "$(figure plan.json step_s)" "$(figure edited.json step_s)" || fail "even shares are predicted to be faster"
# What was not edited stays as it is, with its prediction: by itself, and on its cluster.
for signed in plan edited; do
  $MOTLEY plan --check $signed.json -o again.json >said.txt && cmp $signed.json again.json || fail "$signed: $(cat said.txt)"
  $MOTLEY plan --check $signed.json --cluster "$cluster" -o again.json >said.txt && cmp $signed.json again.json ||
    fail "$signed on its cluster: $(cat said.txt)"
done
sed -i 's/"sizes": \[64, 64, 64\]/"sizes": [63, 65, 64]/; s/"micro_batch": .*/"micro_batch": [63, 65, 64],/' edited.json
$MOTLEY plan --check edited.json -o dropped.json >said.txt
grep -q 'the prediction was of the plan before the edit' said.txt || fail "$(cat said.txt)"
! grep -q '"prediction"' dropped.json || fail "an old prediction was signed"
$MOTLEY plan $job --speeds 1,1,0.5 -o speeds.json >said.txt # made by speeds: it becomes one for the cluster
! grep -q '"prediction"' speeds.json || fail "predicted without a cluster"
$MOTLEY plan --check speeds.json --cluster "$cluster" -o adopted.json >said.txt
[ "$(sed -n 's/.*"cluster_hash": \(.*\)/\1/p' adopted.json)" = "$(sed -n 's/.*"cluster_hash": \(.*\)/\1/p' plan.json)" ] ||
  fail "not the cluster's: $(cat adopted.json)"
sed -i 's/"sizes": \[63, 65, 64\]/"sizes": [64, 64, 65]/; s/"micro_batch": .*/"micro_batch": [64, 64, 64],/' edited.json
refused 2 "sums to 193, but the job's global batch is 192" $MOTLEY plan --check edited.json --cluster "$cluster" -o x.json
sed -i 's/"sizes": \[64, 64, 65\]/"sizes": [64, 64, 64]/' edited.json
refused 2 "the plan was made for another cluster" $MOTLEY plan --check edited.json --cluster "cpu:3" -o x.json

# It trains, and says what was predicted; from its folder the next plan takes how fast the ranks were.
seq 1 9000 >text.txt
mpirun -n 3 $MOTLEY train edited.json --data text.txt --out run --log-every 1 >said.txt 2>progress.txt
grep -q '^step [0-9.]* [mun]*s, predicted [0-9.]* [mun]*s ([-+][0-9.]*%, [a-z]* the band of -[0-9]*% +[0-9]*%)$' said.txt || fail "$(cat said.txt)"
grep -q '^step 6/6 .* a step, predicted .* ([-+][0-9]*%)  ETA 0:00$' progress.txt || fail "$(cat progress.txt)"
! grep -q '^step 1/6 .*predicted' progress.txt || fail "compared before it was steady: $(cat progress.txt)"
$MOTLEY show run/run.json | tr -s ' ' >shown.txt
grep -q '^ rank host device samples computing predicted waiting predicted' shown.txt || fail "$(cat shown.txt)"

# By hand: rank 0 needed four times as long as predicted, the others exactly so.
sed -n 's/.*"compute_s": \(.*\), "exposed_s".*/\1/p' edited.json >predicted.txt
awk 'NR == FNR { p[n++] = $1 * (n == 1 ? 4 : 1); next }
  /"step_compute_s"/ { sub(/"step_compute_s": [0-9.e-]+/, "\"step_compute_s\": " p[r++]) } 1' predicted.txt run/run.json >new.json
mv new.json run/run.json
$MOTLEY plan --from run --cluster "$cluster" --cluster-out seen.json -o next.json >said.txt
tr -s ' ' <said.txt >squeezed.txt
grep -q '^ *0 .* 64 [0-9]* 0.25$' squeezed.txt || fail "$(cat said.txt)"
grep -q '^ *1 .* 64 [0-9]* 1$' squeezed.txt || fail "$(cat said.txt)"
grep -q '^expected .* faster$' squeezed.txt || fail "$(cat said.txt)"
sizes next.json | awk -F, '{ exit !($1 < 48 && $2 > 64) }' || fail "shares $(sizes next.json)"
hash_of() { sed -n "s/^ *\"$2\": \"\(.*\)\",\{0,1\}$/\1/p" "$1"; }
[ -n "$(hash_of seen.json hash)" ] && [ "$(hash_of seen.json hash)" = "$(hash_of next.json cluster_hash)" ] ||
  fail "not planned for the cluster as it was seen"
$MOTLEY show seen.json >said.txt && fail "nothing stands out: $(cat said.txt)"
grep -q 'rank 0 (node0): at 0.25 of the speed of its class' said.txt || fail "$(cat said.txt)"
refused 2 "was made for another cluster" $MOTLEY explain next.json --cluster "$cluster"
refused 2 "--cluster: has 2 devices, but the run had 3 ranks" $MOTLEY plan --from run --cluster cpu:2 -o x.json
refused 2 "--cluster: its device 0 is a \"cpu\", but rank 0 of the run was a \"cpu-avx512\"" $MOTLEY plan --from run \
  --cluster cpu:3 -o x.json

refused 2 "--cluster: is for 3 ranks, but --shares is for 2" $MOTLEY plan --cluster "$cluster" $job --shares 96,96 -o x.json
refused 2 "--speeds: --cluster says that" $MOTLEY plan --cluster "$cluster" $job --speeds 1,1,1 -o x.json
refused 2 "--hosts: --cluster says that" $MOTLEY plan --cluster "$cluster" $job --hosts a,a,a -o x.json
$MOTLEY plan --cluster "$cluster" $job --memory 1GiB -o capped.json >/dev/null || fail "--memory with --cluster"
grep -q '"memory_bytes": 1073741824' capped.json || fail "the cap is not in the plan: $(grep memory_bytes capped.json)"
refused 2 "does not fit into memory" $MOTLEY plan --cluster "$cluster" $job --memory 1KiB -o x.json
refused 2 "--strategy: \"fast\" is not known here" $MOTLEY plan --cluster "$cluster" $job --strategy fast -o x.json
refused 2 "--strategy: has no use without --cluster" $MOTLEY plan $job --ranks 2 --strategy data -o x.json
refused 2 "--strategy and --storage exclude each other" $MOTLEY plan --cluster "$cluster" $job --strategy data --storage split -o x.json
refused 2 "--storage-speeds: --cluster says that" $MOTLEY plan --cluster "$cluster" $job --storage-speeds 1,1,1 -o x.json
refused 2 "--model is missing" $MOTLEY plan --cluster "$cluster" -o x.json
refused 2 "sum to 193" $MOTLEY plan --cluster "$cluster" $job --shares 65,64,64 -o x.json
refused 2 "storage[0].pattern: \"nosuch*\" has no effect" $MOTLEY plan --cluster "$cluster" $job --storage 'nosuch*=split' -o x.json
refused 2 "all but one must be multiples of 8" $MOTLEY plan --cluster "$cluster" $job --storage-shares vocab=60,2,2 -o x.json
refused 2 "rank 0's share of \"vocab\"" $MOTLEY plan --cluster "$cluster" $job \
  --storage-shares vocab=9223372036854775807,64,1 -o x.json
refused 2 "--micro: is 0 for rank 1" $MOTLEY plan --cluster "$cluster" $job --micro 8,0,8 -o x.json
refused 2 "nosuch" $MOTLEY plan --cluster nosuch:2 $job -o x.json
[ ! -e x.json ] || fail "a refused plan was written"

# Who takes part: a slow rank behind a slow link is left out, with the reason and what it would cost; --use decides.
slow="cpu-avx512:1x2 + cpu-1t:1 net=10M"
$MOTLEY plan --cluster "$slow" $job -o auto.json >said.txt
shows ' "order": [0, 1],' auto.json
sizes auto.json | grep -q ',0$' || fail "the idle rank has samples: $(cat auto.json)"
grep -q '"rank": 2, "why": "slower with it: .* instead of ' auto.json || fail "no reason: $(cat auto.json)"
$MOTLEY plan --cluster "$slow" --use all $job -o all.json >said.txt
! grep -q '"order"' all.json || fail "not all take part: $(cat all.json)"
atmost "$(figure auto.json step_s)" "$(figure all.json step_s)" || fail "all ranks are faster than what was searched"
$MOTLEY plan --cluster "$slow" --use 0,2 $job -o some.json >said.txt
sizes some.json | grep -q '^[0-9]*,0,[0-9]*$' || fail "rank 1 has samples: $(cat some.json)"
grep -q '"rank": 1, "why": "left out by --use"' some.json || fail "$(cat some.json)"
$MOTLEY plan --cluster "$slow" --shares 192,0,0 $job -o given.json >said.txt # given shares: all ranks take part
! grep -q '"order"' given.json || fail "given shares leave ranks out: $(cat given.json)"
$MOTLEY plan --cluster "$slow" --shares 192,0,0 --storage replicated --use auto $job -o given.json >said.txt
shows ' "order": [0],' given.json
$MOTLEY plan --cluster "$slow" --use 0,1 --even $job -o even.json >said.txt # even over those that take part
[ "$(sizes even.json)" = 96,96,0 ] || fail "$(cat even.json)"
refused 2 "--use: names rank 3, but the ranks of the cluster are 0 to 2" $MOTLEY plan --cluster "$slow" --use 0,3 $job -o x.json
refused 2 "--use: rank 1 is listed twice" $MOTLEY plan --cluster "$slow" --use 1,1 $job -o x.json
refused 2 "--use: " $MOTLEY plan --cluster "$slow" --use most $job -o x.json
refused 2 "--use: has no use without --cluster" $MOTLEY plan --ranks 2 --use all $job -o x.json
refused 2 "rank 2 is given a share, but is not among the ranks that take part" $MOTLEY plan --cluster "$slow" --use 0,1 \
  --shares 64,64,64 $job -o x.json

# On GPUs that are many times as fast in bf16, f32 is remarked where nobody has asked for it.
for row in "a10:1x2||1" "a10:1x2|--precision f32|0" "a10:1x2|--precision bf16|0" "cpu:1x2||0"; do
  IFS='|' read -r described precision wanted <<<"$row"
  $MOTLEY plan --cluster $described --model gpt2:layers=2,heads=2,embed=64,context=32,vocab=256 --batch 16 $precision \
    -o precise.json >said.txt
  [ "$(grep -c '^precision  f32, as none was given' said.txt)" = "$wanted" ] || fail "$row: $(cat said.txt)"
done

# More ranks are no slower: of a job so large that few subsets can be simulated, those that slow the step are left out.
many="--model gpt2:layers=33,heads=25,embed=1600,context=1024,vocab=50257 --batch 2048 --precision bf16"
$MOTLEY plan --cluster "h100:32x8 net=400G" $many -o half.json >half.txt
$MOTLEY plan --cluster "h100:64x8 net=400G" $many -o many.json >many.txt
atmost "$(figure many.json step_s)" "$(figure half.json step_s)" || fail "512 ranks are slower than 256: $(cat half.txt many.txt)"
small="--model gpt2:124m --batch 48 --precision bf16"
$MOTLEY plan --cluster "a10:1x4 net=25G" $small -o node.json >node.txt
$MOTLEY plan --cluster "a10:2x4 net=25G" $small -o nodes.json >nodes.txt
atmost "$(figure nodes.json step_s)" "$(figure node.json step_s)" || fail "two nodes are slower than one: $(cat node.txt nodes.txt)"
! grep -q 'strategy zero1' node.json || fail "the plan is of zero1, and among the rejected: $(cat node.json)"
! grep '^limit ' half.txt many.txt || fail "no search was ended"
! grep -Eq '"why": "slower by estimate"(, "step_s": 0)?\}' many.json || fail "slower by what estimate: $(cat many.json)"
$MOTLEY plan --cluster "h100:64x8 net=400G" $many --limit 0.01 -o ended.json >ended.txt
grep -q '^limit .*ended the search after 0.01 s' ended.txt || fail "$(cat ended.txt)"
atmost "$(figure many.json step_s)" "$(figure ended.json step_s)" || fail "more time made it slower: $(cat many.txt ended.txt)"
