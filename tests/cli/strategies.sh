#!/usr/bin/env bash
# The plan of every strategy, for two unlike hosts of two ranks each: it is proved, also on a small model; trains as one
# rank does, with the same validation loss and the same sampled text; goes on from a checkpoint bit for bit; and has
# what it loads from the strategy before.
source "$SOURCE/tests/cli/lib.bash"
source "$SOURCE/tests/cli/hosts.bash"
seq 1 1500 | tr '\n' ' ' >text

model=gpt2:layers=2,heads=5,embed=20,context=16,vocab=256
job="--batch 12 --steps 4 --lr 0.01 --clip 0.5 --seed 7 --precision f64"
strategies="data zero1 factors zero3 hybrid tensor tensor+sequence flat mesh"
known=$("$MOTLEY" plan --strategy list | awk '{ print $1 }' | xargs)
[ "$known" = "$strategies" ] || fail "strategies: $known"

"$MOTLEY" plan --model $model $job -n 1 -o alone.json >/dev/null
"$MOTLEY" train alone.json --data text --out alone >said.txt 2>&1 || fail "$(cat said.txt)"
cluster="cpu:1x2 + cpu-4t:1x2"
for name in $strategies; do
  "$MOTLEY" plan --cluster "$cluster" --model $model $job --strategy "$name" --use all -o made.json >said.txt 2>&1 ||
    fail "$name: $(cat said.txt)"
  for what in "explain made.json --cluster" "whatif --plan made.json --set link.net=100G --cluster"; do
    "$MOTLEY" $what "$cluster" >said.txt 2>&1 || fail "$name: $what: $(cat said.txt)"
  done
  for what in "" layouts program "program --lowered"; do
    "$MOTLEY" show $what made.json >said.txt 2>&1 || fail "$name: show $what: $(cat said.txt)"
  done
  "$MOTLEY" diff made.json made.json >said.txt || fail "$name: differs from itself: $(cat said.txt)"
  sed "s/\"node0\"/\"$HOST_A\"/; s/\"node1\"/\"$HOST_B\"/" made.json >"$name.json"
  "$MOTLEY" plan --check "$name.json" -o "$name.json" >said.txt 2>&1 || fail "$name: $(cat said.txt)"
  "$MOTLEY" verify "$name.json" --steps 2 >said.txt 2>&1 || fail "$name: $(cat said.txt)"
  "$MOTLEY" verify "$name.json" --small --steps 1 >said.txt 2>&1 || fail "$name: $(cat said.txt)"
done
code=0
"$MOTLEY" diff data.json mesh.json >said.txt || code=$?
[ $code = 1 ] && has 'operators \*.*split by batch *split by batch, within hosts by' <said.txt || fail "$(cat said.txt)"
# flat holds the programs by samples: its best may be one of theirs
different=$(for name in ${strategies/flat/}; do grep program_hash "$name.json"; done | sort -u | wc -l)
[ "$different" = 8 ] || fail "$different programs of 8 strategies"

hosts_can || { echo "without two hosts: they want root and network namespaces"; exit 0; }
trap 'hosts_down; rm -rf "$folder"' EXIT
hosts_up ""
numbers() { tr -d '\n ' <"$2/run.json" | grep -o "\"$1\":\[[^]]*\]" | grep -o '[0-9.e-]*' | grep '[0-9]'; }
same_tensors() { cmp <(tensors "$1"/step-00000004.safetensors) <(tensors "$2"/step-00000004.safetensors); }
near() { # WHAT A B: numbers of two runs that differ by rounding
  paste -d ' ' <(numbers "$1" "$2") <(numbers "$1" "$3") | awk '
    { d = ($1 - $2) / $2; if (d < 0) d = -d; if (!(d < 1e-11)) { print; bad = 1 } } END { exit bad || !NR }' ||
    fail "$2: other $1 than $3"
}
"$MOTLEY" sample alone --prompt "1 2" --tokens 40 >alone.txt
before=alone trained=$strategies
if sanitized; then trained="factors zero3 tensor+sequence mesh"; fi # each runs for several times as long
for name in $trained; do
  train_on_hosts "$name" --out "$PWD/$name" --checkpoint-every 2
  "$COMPARE" "$name"/step-00000004.safetensors alone/step-00000004.safetensors 0.2 >said.txt ||
    fail "$name: $(cat said.txt)"
  near losses "$name" alone
  near validation "$name" alone
  cmp <("$MOTLEY" sample "$name" --prompt "1 2" --tokens 40) alone.txt || fail "$name: another text"
  "$MOTLEY" show "$name/run.json" >said.txt 2>&1 || fail "$name: $(cat said.txt)"
  "$MOTLEY" plan --from "$name" -o again.json >said.txt 2>&1 || fail "$name: $(cat said.txt)"
  "$MOTLEY" verify again.json --steps 1 >said.txt 2>&1 || fail "$name again: $(cat said.txt)"
  train_on_hosts "$name" --resume "$PWD/$name/step-00000002.safetensors" --out "$PWD/$name.parts"
  same_tensors "$name.parts" "$name" || fail "$name: two steps and two more are not four"
  train_on_hosts "$name" --resume "$PWD/$before" --out "$PWD/$name.again"
  grep -q "nothing left to train" said.txt || fail "$name: $(cat said.txt)"
  same_tensors "$name.again" "$before" || fail "$name does not keep what $before has"
  near validation "$name.again" "$before"
  before=$name
done
