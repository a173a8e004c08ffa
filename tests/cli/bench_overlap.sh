#!/usr/bin/env bash
# motley bench overlap: what it refuses; all forms on two ranks, and ragged on three; what is printed fits together.
# Which form is faster, and how well that was predicted, is not judged here.
. "$SOURCE/tests/cli/lib.bash"
command -v jq >/dev/null || { echo "needs jq"; exit 77; }
on() { local n=$1; shift; mpirun --oversubscribe --bind-to none -n "$n" $MOTLEY bench overlap "$@"; }
short="--seconds 0.2" # of a shape and form: fewer turns
bench="$MOTLEY bench overlap"

refused 2 'measure what? Name a shape' $bench
refused 2 '--shape: must be M,N,K, not "64,64"' $bench --shape 64,64
refused 2 '--shape: ' $bench --shape 64,0,64
refused 2 '--shape: ' $bench --shape 64x64x64
refused 2 '--form: "gathr" is not known here' $bench --form gathr --shape 64,64,64
refused 2 '--precision: "f8" is not known here' $bench --precision f8 --shape 64,64,64
refused 2 '--shares: must be as 5:3, not "5,3"' $bench --shares 5,3 --shape 64,64,64
refused 2 '--shares: ' $bench --shares 5:0 --shape 64,64,64
refused 2 '--repetitions: ' $bench --repetitions 0 --shape 64,64,64
refused 2 '--seconds: ' $bench --seconds 0 --shape 64,64,64
refused 2 '"more"' $bench --shape 64,64,64 more
refused 2 'there is one rank, and nothing to communicate' $bench --shape 64,64,64
refused 2 '--shares: lists 3 ranks, but there are 2' on 2 --shares 1:1:1 --shape 64,64,64
refused 2 'M 1 is too small: rank 1 would have none of it' on 2 --shape 1,64,64
# The plan is read on all ranks, and one message says what is wrong with it.
for plan in none.json three.json alone.json; do
  case $plan in
    none.json) said='none.json: No such file or directory' ;;
    three.json)
      $MOTLEY plan --model mlp:tiny --ranks 3 -o three.json >/dev/null
      said='three.json: the plan is for 3 ranks, but 2 were started' ;;
    alone.json)
      $MOTLEY plan --model mlp:tiny --ranks 2 -o alone.json >/dev/null
      said='alone.json: it has no overlapped GEMMs' ;;
  esac
  refused 2 "motley: $said" on 2 --plan $plan
  has '^  hint: ' <err.txt || fail "no hint: $(cat err.txt)"
  ! grep -q 'motley: rank' err.txt || fail "a rank without an error is named: $(cat err.txt)"
done
refused 2 'nowhere/b.json' on 2 --shape 64,64,64 --json=nowhere/b.json
refused 2 'is not a kind of device' $bench --shape 64,64,64 --device abacus

# fits FILE CASES: within each case one variant is chosen and one is best; ratios, errors and the summary agree. Cases
# are in the order of what the chosen gains.
fits() {
  jq -e --argjson cases "$2" '
    def near(a; b): (a - b) * (a - b) <= 1e-18 * b * b;
    [.tables[] | select(.name == "variants")] as $tables | (.tables[] | select(.name == "overlap")) as $all |
    (.tables[] | select(.name == "choices") | .rows[0]) as $choices |
    ($tables | length) == $cases and ($all.rows | length) == $cases and $choices.cases == $cases and
    ([$tables[] | .rows | map(select(.eta != null)) as $whole |
      (map(select(.verdict | test("chosen"))) | length) == 1 and (map(select(.verdict | test("best"))) | length) == 1 and
      (map(select(.variant == "GEMM")) | length) == 1 and (map(select(.variant == "sequential" and .speedup == 1)) | length) == 1 and
      ($whole | length) > 3 and (map(.time_s > 0) | all) and
      ($whole | map(.predicted_s > 0 and .speedup > 0 and near(.prediction_error + 1; .predicted_s / .time_s)) | all) and
      ($whole | min_by(.time_s) | .verdict | test("best")) and
      (map(select(.eta == null) | .predicted_s == null and .verdict == "") | all)] | all) and
    ([$all.rows[].speedup] | . == sort) and
    ([$all.rows[] as $line | $tables[] | .rows as $rows |
      select([$rows[0].form, $rows[0].m, $rows[0].n, $rows[0].k] == [$line.form, $line.m, $line.n, $line.k]) |
      ($rows[] | select(.verdict | test("chosen"))) as $chosen | ($rows[] | select(.verdict | test("best"))) as $best |
      $line.chosen == $chosen.variant and $line.best == $best.variant and
      $line.prediction_error == $chosen.prediction_error and
      $line.collective == ($rows | map(select(.eta == null)) | .[1:] | min_by(.time_s) | .variant) and
      ([$line.gemm_s, $line.collective_s, $line.sequential_s, $line.chosen_s, $line.eta, $line.speedup, $line.to_best] | map(. > 0) | all) and
      (if $chosen.variant == $best.variant then $line.to_best == 1 else true end) and
      (if $chosen.variant == "sequential" then $line.speedup == 1 and $line.chosen_s == $line.sequential_s else true end)] | length == $cases and all) and
    $choices.worst_error == ([$tables[].rows[] | select(.eta != null) | .prediction_error | fabs] | max) and
    $choices.least_speedup == ([$all.rows[].speedup] | min) and $choices.least_eta == ([$all.rows[].eta] | min) and
    $choices.no_worse == ($all.rows | map(select(.speedup >= .99)) | length) and
    near($choices.mean_error; [$tables[].rows[] | select(.eta != null) | .prediction_error | fabs] | add / length) and
    $choices.near_best == ($all.rows | map(select(.to_best <= 1.02)) | length)' "$1" >/dev/null || fail "$(cat "$1")"
}

on 2 --shape 96,80,64 --shape 40,24,56 --repetitions 3 $short --json=two.json >out.txt 2>err.txt || fail "$(cat err.txt out.txt)"
fits two.json 6
has 'operands of seed 20261123' out.txt || fail "$(cat out.txt)"
[ "$(jq -r '.tables[] | select(.name == "overlap") | .rows[].form' two.json | sort | uniq -c | tr -s ' ' | tr '\n' ';')" = \
  ' 2 AllGather+GEMM; 2 GEMM+AllReduce; 2 GEMM+ReduceScatter;' ] || fail "$(cat two.json)"
for name in 'chunk 48' 'mix 0' 'mix 4' direct; do has "^  $name " out.txt || fail "no '$name': $(cat out.txt)"; done

# Ragged, of the types that are wider inside; one form, and to standard output.
on 3 --shape 97,53,41 --shares 5:1:2 --precision bf16 --repetitions 2 $short --json >three.json 2>err.txt || fail "$(cat err.txt)"
fits three.json 3
for precision in f64 f16 tf32; do
  on 2 --shape 33,48,70 --shares 2:1 --precision $precision --form reduce --form gather --repetitions 1 $short --json=more.json \
    >out.txt 2>err.txt || fail "$(cat err.txt)"
  fits more.json 2
  has ", 2 ranks; $precision; medians of up to 1 rounds" out.txt || fail "$(cat out.txt)"
done

# Sums as f32, as weights' gradients are: of bf16 they are nothing that a plan by samples does not have.
refused 2 '--wire: must be f32, not "bf16"' $bench --wire bf16 --shape 64,64,64
refused 2 '--wire f32: sums of f64 would be rounded' $bench --wire f32 --precision f64 --shape 64,64,64
on 2 --shape 33,48,70 --precision bf16 --wire f32 --form scatter --form reduce --repetitions 1 $short --json=more.json \
  >out.txt 2>err.txt || fail "$(cat err.txt)"
fits more.json 2
has ', 2 ranks; bf16, sums f32; medians of up to 1 rounds' out.txt || fail "$(cat out.txt)"

# Of a plan: each of its GEMMs is measured, and runs as was fastest in the plan that is written; or apart, where that was
# sequential.
job=(--model gpt2:layers=1,heads=4,embed=32,context=16,vocab=64 --batch 4 --steps 3)
planned() { # FILE FLAG...
  $MOTLEY plan --cluster cpu:1x2 --use all "${job[@]}" -o "$1" "${@:2}" >plan.txt
  sed -i "s/\"host\": \"node0\"/\"host\": \"$(hostname)\"/" "$1"
  $MOTLEY plan --check "$1" -o "$1" >/dev/null
}
planned overlapped.json --strategy tensor --overlap all
planned without.json --strategy tensor --overlap none
planned samples.json --strategy data --precision bf16 --overlap all
on 2 --plan overlapped.json -o fastest.json --repetitions 2 $short --json=of_plan.json >out.txt 2>err.txt || fail "$(cat err.txt out.txt)"
jq -e --slurpfile plan fastest.json '
  ([.tables[] | select(.name == "overlap") | .rows[] | {form, m, n, k, apart: (.best == "sequential")}] | sort) ==
  ([$plan[0].overlapped[] | {form: {gather: "AllGather+GEMM", scatter: "GEMM+ReduceScatter", reduce: "GEMM+AllReduce"}[.form], m,
    n: (if .form == "gather" then .columns else .k end), k: (if .form == "gather" then .k else .columns end),
    apart: (.by == "apart")}] | sort) and ($plan[0].overlapped | length) == 2' of_plan.json >/dev/null ||
  fail "$(cat fastest.json of_plan.json)"
seq 1 2000 >text.txt
for plan in overlapped fastest; do
  mpirun --oversubscribe --bind-to none -n 2 $MOTLEY train $plan.json --data text.txt --out $plan >out.txt 2>&1 || fail "$plan: $(cat out.txt)"
done
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1/run.json" | tr -d ' ' | tr , '\n'; }
paste <(losses overlapped) <(losses fastest) | awk '{ if ($1 / $2 - 1 > 1e-5 || $2 / $1 - 1 > 1e-5) exit 1; n++ } END { exit n != 3 }' ||
  fail "other losses: $(losses overlapped) $(losses fastest)"
refused 2 '--output: there is no plan to write' $bench --shape 64,64,64 -o no.json
refused 2 '--shape: --plan says that already' $bench --plan overlapped.json --shape 64,64,64
refused 2 '--precision: --plan says that already' $bench --plan overlapped.json --precision bf16
refused 2 '--wire: --plan says that already' $bench --plan overlapped.json --wire f32
refused 2 'overlapped.json: the plan is for 2 ranks, but 1 were started' $bench --plan overlapped.json
refused 2 'without.json: it has no overlapped GEMMs' on 2 --plan without.json
on 2 --plan samples.json --repetitions 1 $short --json=of_samples.json >out.txt 2>err.txt || fail "$(cat err.txt out.txt)"
has '^GEMM+AllReduce [0-9,]*, sums f32' out.txt || fail "$(cat out.txt)"
refused 2 '--device cuda: overlapped.json was made for devices of kind cpu' on 2 --device cuda --plan overlapped.json
refused 2 'nowhere/p.json' on 2 --plan overlapped.json -o nowhere/p.json
refused 2 'absent.json' on 2 --plan absent.json
