#!/usr/bin/env bash
# No command destroys a document with what it writes: two outputs in one file, an output that is an input, documents of
# another kind, and measured clusters under described ones are refused before any work.
. "$SOURCE/tests/cli/lib.bash"
job="model=mlp:tiny batch=8 steps=10 precision=f32"
seq 1 2000 >text.txt
plan=(plan --model mlp:tiny --ranks 1 --steps 2)
"$MOTLEY" "${plan[@]}" -o plan.json >said.txt
"$MOTLEY" profile --budget 0.2 -o measured.json >said.txt 2>&1
"$MOTLEY" plan --model mlp:tiny --cluster measured.json --steps 2 -o here.json >said.txt
echo "[]" >old.json
mkdir folder && ln -s ../plan.json folder/link.json && ln old.json folder/old.json && ln -s new.json dangling.json

# kept FILE TEXT COMMAND...: refused with TEXT, and the file is what it was.
kept() {
  local file=$1 text=$2
  shift 2
  cp "$file" before
  refused 2 "$text" "$MOTLEY" "$@"
  cmp -s before "$file" || fail "$*: wrote to $file"
}
# none FILE TEXT COMMAND...: refused with TEXT, and there is still no such file.
none() {
  local file=$1 text=$2
  shift 2
  refused 2 "$text" "$MOTLEY" "$@"
  [ ! -e "$file" ] || fail "$*: wrote $file"
}

# Two outputs in one file, which is there or is not, by whatever names.
none x.json "--out and --json would both write x.json" "${plan[@]}" -o x.json --json=x.json
none x.json "--out and --json would both write $PWD/x.json" "${plan[@]}" -o folder/../x.json --json="$PWD/x.json"
none new.json "would both write new.json" "${plan[@]}" -o dangling.json --json=new.json
kept old.json "would both write folder/old.json" explain here.json --cluster measured.json --trace old.json --json=folder/old.json
none y.json "--out and --raw would both write y.json" profile --budget 0.2 --raw y.json -o y.json
none s.json "--output and --write-cluster would both write s.json" buy --job "$job" --own h100:1x2 \
  --item "name=n based_on=h100 devices=1 price=1" --budget 2 -o s.json --write-cluster s.json

# An output that is an input, by whatever name.
kept measured.json "--out: measured.json is what --cluster names" plan --model mlp:tiny --cluster measured.json -o measured.json
kept text.txt "--trace: ./text.txt is what --data names" train plan.json --data 'text:te*.txt=2' --trace ./text.txt
kept text.txt "--trace: text.txt is what --val names" train plan.json --data plan.json --val text.txt --trace text.txt
kept plan.json "--trace: folder/link.json is what is read" train plan.json --data text.txt --trace folder/link.json
kept plan.json "--json: plan.json is what is read" show plan.json --json=plan.json
kept plan.json "--json: plan.json is what is read" diff here.json plan.json --json=plan.json
kept plan.json "--json: plan.json is what is read" verify plan.json --json=plan.json
kept plan.json "--json: plan.json is what is read" bench plans plan.json --json=plan.json
kept plan.json "--json: plan.json is what is read" doctor plan.json --json=plan.json
kept plan.json "--out: plan.json is what is read" report plan.json -o plan.json
kept plan.json "--json: plan.json is what --check names" plan --check plan.json -o x.json --json=plan.json
kept measured.json "--write-cluster: measured.json is what --own names" buy --job "$job" --own measured.json \
  --item "name=n based_on=h100 devices=1 price=1" --budget 2 --write-cluster measured.json
kept measured.json "--json: measured.json is what --cluster names" whatif --cluster measured.json --model mlp:tiny --json=measured.json
"$MOTLEY" train plan.json --data text.txt --out run >said.txt 2>&1
kept run/plan.json "--out: run/plan.json is what --from names" plan --from run -o run/plan.json
kept run/run.json "--out: run/run.json is what is read" report run -o run/run.json
echo "$(hostname) slots=1" >folder/hostfile
kept folder/hostfile "--out: folder/hostfile is what --hosts names" launch plan.json --hosts folder/hostfile -o folder --dry-run -- --data text.txt

# Documents of another kind, and what is none of ours.
kept measured.json '--out: measured.json is a "motley-cluster", which would be lost' "${plan[@]}" -o measured.json
kept text.txt "--out: text.txt is no document of Motley's, and would be lost" "${plan[@]}" -o text.txt
kept plan.json '--out: plan.json is a "motley-plan"' report measured.json -o plan.json
kept plan.json '--json: plan.json is a "motley-plan"' show measured.json --json=plan.json
kept plan.json '--trace: plan.json is a "motley-plan"' train here.json --data text.txt --trace plan.json
weights=$(echo run/step-*.safetensors)
kept "$weights" '"safetensors"' train here.json --data text.txt --trace "$weights"

# A measured cluster is not replaced by a described one, under the usual name either; described ones replace each other.
kept measured.json "measured.json is a measured cluster, which a described one would replace" profile --describe h100:1x2 -o measured.json
kept measured.json "a measured cluster, which a described one" plan --from run --cluster cpu:1 --cluster-out measured.json -o next.json
cp measured.json cluster.json
kept cluster.json "hint: name another file, or remove that one first" profile --describe "a100-40:1x2" --json
rm cluster.json
"$MOTLEY" profile --describe "a100-40:1x2" --json >said.txt
"$MOTLEY" profile --describe "a100-40:1x4" >said.txt
"$MOTLEY" show cluster.json | has 'a100-40:1x4' || fail "the described cluster was not replaced"

# A document is replaced by one of its kind; an edited plan is signed in its place; empty files and devices are written.
"$MOTLEY" "${plan[@]}" --batch 12 -o plan.json >said.txt
"$MOTLEY" plan --check plan.json -o folder/link.json >said.txt
"$MOTLEY" show plan.json --json=tables.json >said.txt
"$MOTLEY" show here.json --json=tables.json >said.txt
"$MOTLEY" "${plan[@]}" -o /dev/null --json=/dev/null >said.txt
: >empty
"$MOTLEY" "${plan[@]}" -o empty >said.txt
