#!/usr/bin/env bash
# motley bench plans: data parallelism against split states, in one run; what is printed and written fits together; all
# plans train the same; refusals by name.
. "$SOURCE/tests/cli/lib.bash"
model="--model gpt2:layers=2,heads=2,embed=32,context=16,vocab=256"
job="$model --batch 8 --lr 0.01 --precision f32"
run() { mpirun --oversubscribe --bind-to none -n 2 $MOTLEY bench plans "$@"; }
seq 1 1500 | tr '\n' ' ' >text

$MOTLEY plan $job --ranks 2 -o whole.json >said.txt
$MOTLEY plan $job --ranks 2 --storage split -o split.json >said.txt
$MOTLEY plan $job --ranks 2 --shares 6,2 --recompute segments -o uneven.json >said.txt

# Numbers of the JSON: all of a key, a line each.
numbers() { grep -o "\"$2\": [^,}]*" "$1" | sed 's/.*: //'; }
# Whether the JSON fits together: medians, ratios within a repetition and their medians, rates, order, errors.
consistent() {
  awk -v plans="$2" -v repetitions="$3" -v tokens="$4" '
    function values(text, into) { gsub(/.*\[|\].*/, "", text); return split(text, into, ", ") }
    function number(text, key) { if (!match(text, "\"" key "\": [^,}]*")) return "none"
      return substr(text, RSTART + length(key) + 4, RLENGTH - length(key) - 4) }
    function median(list, n,   i, j, t, sorted) {
      for (i = 1; i <= n; i++) sorted[i] = list[i] + 0
      for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++)
        if (sorted[j] < sorted[i]) { t = sorted[i]; sorted[i] = sorted[j]; sorted[j] = t }
      return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2 }
    function near(a, b, what) { if (!(a - b <= 1e-9 * b && b - a <= 1e-9 * b)) { print what ": " a ", not " b; bad = 1 } }
    /"plan":/ { p++ }
    /"predicted_s"/ { predicted[p] = number($0, "predicted_s") }
    /"step_s"/ { step[p] = number($0, "step_s") + 0 }
    /"steps_s"/ { if (values($0, list) != repetitions) { print "turns: " $0; bad = 1 }
      for (i = 1; i <= repetitions; i++) turn[p, i] = list[i]
      near(step[p], median(list, repetitions), "median") }
    /"tokens_per_s"/ { near(number($0, "tokens_per_s") * step[p], tokens, "tokens") }
    /"ratio_to_first"/ { first[p] = number($0, "median") + 0; low[p] = number($0, "low") + 0; high[p] = number($0, "high") + 0 }
    /"ratio_to_best"/ { best[p] = number($0, "median") + 0 }
    /"prediction_error": [-0-9n]/ { error[p] = number($0, "prediction_error") }
    /"order"/ { pairs = number($0, "pairs"); right = number($0, "in_order") }
    /"prediction_error": {/ { mean = number($0, "mean"); worst = number($0, "worst") }
    END {
      if (p != plans) { print p " plans"; exit 1 }
      b = 1
      for (i = 2; i <= p; i++) if (step[i] < step[b]) b = i
      for (i = 1; i <= p; i++) {
        for (k = 1; k <= repetitions; k++) { to_first[k] = log(turn[i, k] / turn[1, k]); to_best[k] = log(turn[i, k] / turn[b, k]) }
        near(first[i], exp(median(to_first, repetitions)), "ratio to the first")
        near(best[i], exp(median(to_best, repetitions)), "ratio to the best")
        if (!(low[i] <= first[i] && first[i] <= high[i])) { print "interval"; bad = 1 }
        if (predicted[i] == "null") { if (error[i] != "null") bad = 1; continue }
        off = predicted[i] / step[i] - 1
        if ((off - error[i]) ^ 2 > 1e-18) { print "error " error[i] ", not " off; bad = 1 }
        if (off < 0) off = -off
        sum += off; n++
        if (off > most) most = off
        for (j = 1; j < i; j++) {
          if (predicted[j] == "null" || (step[i] <= 1.05 * step[j] && step[j] <= 1.05 * step[i])) continue
          want++
          good += (step[i] < step[j]) == (predicted[i] + 0 < predicted[j] + 0) && predicted[i] != predicted[j]
        }
      }
      if (n) { near(mean, sum / n, "mean error"); near(worst, most, "worst error") }
      if (pairs != want + 0 || right != good + 0) { print pairs " pairs, " right " right"; bad = 1 }
      exit bad
    }' "$1" || fail "$(cat "$1")"
}

run whole.json split.json uneven.json --repetitions 3 --steps 4 --data text --json=three.json >out.txt 2>err.txt ||
  fail "$(cat err.txt)"
consistent three.json 3 3 128
has 'all in memory together' err.txt || fail "$(cat err.txt)"
[ "$(grep -c '^  [a-z]*\.json ' out.txt)" -eq 3 ] || fail "$(cat out.txt)"
[ "$(grep -c '[0-9] *best ' out.txt)" -eq 1 ] || fail "$(cat out.txt)"
has predictions out.txt && fail "nothing was predicted: $(cat out.txt)"
# The plans train the same, and what `motley train` trains: the loss of the seventh step.
mpirun --oversubscribe --bind-to none -n 2 $MOTLEY train whole.json --data text --val-fraction 0 --steps 7 --out run \
  >said.txt 2>&1 || fail "$(cat said.txt)"
trained=$(tr -d '\n' <run/run.json | sed -E 's/.*"losses": \[([^]]*)\].*/\1/' | tr -d ' ' | cut -d, -f7)
for loss in $(numbers three.json loss); do
  awk -v a="$loss" -v b="$trained" 'BEGIN { d = a / b - 1; exit !(d * d < 1e-10) }' || fail "loss $loss, not $trained"
done

# One program in memory at a time gives the same losses; random tokens.
for how in "" --alone; do
  run whole.json split.json --repetitions 2 --steps 2 --warmup 2 $how --json="two$how.json" >out.txt 2>err$how.txt ||
    fail "$(cat err$how.txt)"
  consistent "two$how.json" 2 2 128
done
has 'one in memory at a time' err--alone.txt || fail "$(cat err--alone.txt)"
[ "$(numbers two.json loss)" = "$(numbers two--alone.json loss)" ] || fail "$(cat two.json two--alone.json)"

# Plans with predictions; one of them leaves a rank out.
if [ -f "$(dirname "$MOTLEY")/motley_glpk.so" ]; then
  for plan in both one; do
    flags="--use all"
    [ $plan = one ] && flags="--use 0"
    $MOTLEY plan --cluster cpu:2 $job $flags -o $plan.json >said.txt || fail "$(cat said.txt)"
    sed -i "s/\"host\": \"[^\"]*\"/\"host\": \"$(hostname)\"/" $plan.json
    $MOTLEY plan --check $plan.json --cluster cpu:2 -o $plan.json >said.txt || fail "$(cat said.txt)"
  done
  run both.json one.json --repetitions 2 --steps 3 --json=predicted.json >out.txt 2>err.txt || fail "$(cat err.txt)"
  consistent predicted.json 2 2 128
  numbers predicted.json predicted_s | has null && fail "$(cat predicted.json)"
  has '^pairs that differ by more than 5%: [01], of which [01] were predicted in the right order$' out.txt ||
    fail "$(cat out.txt)"
  has '^error of predictions: mean [0-9.]*%, worst [0-9.]*% ([a-z]*.json)$' out.txt || fail "$(cat out.txt)"
fi

refused 2 'measure what? Name plans' $MOTLEY bench plans
refused 2 'the plan is for 2 ranks, but 1 process was started' $MOTLEY bench plans whole.json
refused 2 '--steps: ' $MOTLEY bench plans whole.json --steps 0
$MOTLEY plan $job --batch 16 --ranks 2 -o batch.json >said.txt
refused 2 'batch.json: is for another job than whole.json: batch 8, now 16' run whole.json batch.json
$MOTLEY plan ${job/embed=32/embed=64} --ranks 2 -o large.json >said.txt
refused 2 'large.json: is of model gpt2:layers=2,heads=2,embed=64,' run whole.json large.json
$MOTLEY plan $job --ranks 3 -o ranks.json >said.txt
refused 2 'ranks.json: is for 3 ranks, but whole.json is for 2' run whole.json ranks.json
refused 2 'missing.json' run whole.json missing.json
refused 2 'nowhere/out.json' run whole.json --json=nowhere/out.json
sed 's/"steps": 1000/"steps": 999/' whole.json >edited.json
refused 2 'edited.json: hash: does not fit' run whole.json edited.json
