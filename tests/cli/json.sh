#!/usr/bin/env bash
# --json on every command that prints a table: one schema, numbers in base units, nothing else on standard output; the
# numbers are those of the text. Folders of runs in place of their documents.
. "$SOURCE/tests/cli/lib.bash"
command -v jq >/dev/null || { echo "needs jq"; exit 77; }
small=gpt2:layers=1,heads=2,embed=16,context=16,vocab=256
here=$(hostname)

# tables CODE COMMAND...: ends with CODE, prints one document of tables into out.json whose rows have all keys.
tables() {
  local code=$1 got=0
  shift
  "$@" >out.json 2>err.txt || got=$?
  [ "$got" = "$code" ] || fail "$* ended with $got: $(cat err.txt out.json)"
  jq -e -s 'length == 1 and (.[0] | .format == "motley-tables" and .version == 1 and (.tables | length > 0))' out.json >/dev/null ||
    fail "$*: no document of tables: $(cat out.json)"
  jq -e '[.tables[] | (.columns | map(.key)) as $keys | .rows[], .totals[]? | keys_unsorted == $keys] | all' out.json >/dev/null ||
    fail "$*: rows do not have the columns' keys: $(cat out.json)"
  jq -e '[.tables[] | .name, .title, .note, (.columns[] | .key, .title, .unit)] | all(type == "string")' out.json >/dev/null ||
    fail "$*: no strings: $(cat out.json)"
}
value() { jq -r "$1" out.json; } # of the last document

tables 0 $MOTLEY profile --hardware --json
[ "$(value '.tables[] | select(.name == "hardware") | .rows[] | select(.name == "h100") | .bf16_flops > 1e14')" = true ] || fail "$(cat out.json)"
tables 0 $MOTLEY profile --describe "cpu-1t:1x2 memory=10G" -o cluster.json --json
[ "$(value '.tables[] | select(.name == "devices") | .rows | length')" = 2 ] || fail "$(cat out.json)"
[ "$(value '.tables[] | select(.name == "pairs") | .rows | length')" = 2 ] || fail "$(cat out.json)"
tables 0 $MOTLEY show cluster.json --json
job="--model $small --batch 8 --steps 6"
tables 0 $MOTLEY plan --cluster cluster.json $job --compare --use all --hypothetical -o plan.json --json
[ "$(value '.tables[] | select(.name == "written") | .rows[0].hash')" = "$(jq -r .hash plan.json)" ] || fail "$(cat out.json)"
[ "$(value '.tables[] | select(.name == "prediction") | .rows[0].step_s')" = "$(jq .prediction.step_s plan.json)" ] || fail "$(cat out.json)"
[ "$(value '.tables[] | select(.name == "strategies") | .rows | length > 2')" = true ] || fail "$(cat out.json)"
tables 0 $MOTLEY show plan.json --json
[ "$(value '[.tables[] | select(.name == "ranks") | .rows[].batch] | add')" = 8 ] || fail "$(cat out.json)"
[ "$(value '.tables[] | select(.name == "ranks") | .totals[0].batch')" = 8 ] || fail "$(cat out.json)"
[ "$(value '[.tables[] | select(.name == "times") | .rows[].compute_s]')" = "$(jq '[.prediction.times[].compute_s]' plan.json)" ] ||
  fail "$(cat out.json)"
tables 0 $MOTLEY show layouts plan.json --json
[ "$(value '.tables[] | select(.name == "layouts") | .rows | length > 5')" = true ] || fail "$(cat out.json)"
tables 0 $MOTLEY explain plan.json --cluster cluster.json --json
[ "$(value '.tables | map(.name) | contains(["program", "classics", "relaxed"])')" = true ] || fail "$(cat out.json)"
tables 0 $MOTLEY whatif --cluster cluster.json --model $small --batch 8 --add cpu-1t --json
[ "$(value '.tables[0].rows | length')" = 2 ] || fail "$(cat out.json)"
tables 0 $MOTLEY buy --item "name=cpu-1t price=3 most=2" --job "model=$small batch=8 steps=3" --json
[ "$(value '.tables[] | select(.name == "configurations") | .rows | map(.price) | sort == [3, 6]')" = true ] || fail "$(cat out.json)"
tables 0 $MOTLEY verify plan.json --json
[ "$(value '.tables[] | select(.name == "numeric") | .rows[0].difference < 1e-12')" = true ] || fail "$(cat out.json)"
refused 2 "--json excludes --proof" $MOTLEY verify plan.json --json --proof
refused 2 "--json is for documents" $MOTLEY show graph plan.json --json
refused 2 "--json excludes --out -" $MOTLEY plan $job --ranks 2 -o - --json
sed -E 's/("batch": )8/\116/' plan.json >edited.json # errors are no JSON, and stay on stderr
refused 2 "edited.json: " $MOTLEY show edited.json --json

# --json=FILE: the text as always, and the file; the same document as is printed.
$MOTLEY show plan.json >text.txt
$MOTLEY show plan.json --json=file.json >both.txt
cmp text.txt both.txt || fail "--json=FILE changes the text"
tables 0 $MOTLEY show plan.json --json
cmp file.json out.json || fail "--json=FILE has other tables than --json"
refused 2 "nowhere/x.json" $MOTLEY show plan.json --json=nowhere/x.json
# A word after --json is never the file: it would be an operand that is written to.
for command in "bench" "bench plans" "bench overlap" "whatif --cluster cluster.json --model $small --batch 8 --add cpu-1t"; do
  refused 2 '"typed.json" after it' $MOTLEY $command --json typed.json
  has -e '--json=typed.json' <err.txt || fail "$command: $(cat err.txt)"
  [ ! -e typed.json ] || fail "$command --json typed.json writes to it"
done

# A run, by its folder too.
seq 1 4000 >text
$MOTLEY plan $job --shares 5,3 -o two.json >/dev/null
mpirun -n 2 $MOTLEY train two.json --data text --out run >said.txt 2>&1 || fail "$(cat said.txt)"
mpirun -n 2 $MOTLEY train two.json --data text --out run-2 >said.txt 2>&1 || fail "$(cat said.txt)"
tables 0 $MOTLEY show run --json
cp out.json by_folder.json
tables 0 $MOTLEY show run/run.json --json
cmp out.json by_folder.json || fail "a folder is not its run"
[ "$(value '[.tables[] | select(.name == "ranks") | .rows[].samples]' | tr -d ' \n')" = '[5,3]' ] || fail "$(cat out.json)"
[ "$(value '.tables[] | select(.name == "run") | .rows[0].last_step')" = 6 ] || fail "$(cat out.json)"
for what in layouts program graph; do
  cmp <($MOTLEY show $what run) <($MOTLEY show $what two.json) || fail "show $what run"
done
code=0 # times differ, what was trained does not
$MOTLEY diff run run-2 >differs.txt || code=$?
[ "$code" -le 1 ] || fail "$(cat differs.txt)"
! grep -E '^(model|plan|last loss|parameters|steps) ' differs.txt || fail "two runs of one plan differ"
sed 's/"first_step": 1,/"first_step": 2,/' run/run.json >other.json
tables 1 $MOTLEY diff run other.json --json
[ "$(value '.tables[0].rows[] | select(.what == "first step") | .second')" = 2 ] || fail "$(cat out.json)"
tables 0 $MOTLEY plan --from run -o again.json --json
[ "$(value '[.tables[] | select(.name == "shares") | .rows[].share] | add')" = 8 ] || fail "$(cat out.json)"
$MOTLEY verify run --no-numeric >said.txt || fail "verify of a folder"
mkdir empty
refused 2 "empty: is a folder without a run.json" $MOTLEY show empty
refused 2 "empty: is a folder without a run.json" $MOTLEY diff empty run

# Measured and judged here.
tables 0 $MOTLEY bench attention --seconds 0.001 --json
[ "$(value '.tables[] | select(.name == "attention") | .rows | length > 3')" = true ] || fail "$(cat out.json)"
tables 0 mpirun -n 2 $MOTLEY bench plans two.json --repetitions 1 --steps 1 --json
[ "$(value '.tables[0].rows[0].plan')" = two.json ] || fail "$(cat out.json)"
tables 0 mpirun -n 2 $MOTLEY bench plans --json two.json --repetitions 1 --steps 1
tables 0 mpirun -n 2 $MOTLEY doctor two.json --json
[ "$(value '.tables[] | select(.name == "counts") | .rows[0].failures')" = 0 ] || fail "$(cat out.json)"
tables 0 mpirun -n 2 $MOTLEY profile --budget 0.5 -o measured.json --json
[ "$(value '.tables[] | select(.name == "devices") | .rows | length')" = 2 ] || fail "$(cat out.json)"
[ "$(value '[.tables[] | select(.name == "nodes") | .rows[].node] == ["'"$here"'"]')" = true ] || fail "$(cat out.json)"
