#!/usr/bin/env bash
# Plans with rules written by hand: operators split over heads, ffn, vocab, embed or seq instead of samples train to the same
# losses, on ragged and on empty shares.
. "$SOURCE/tests/cli/lib.bash"
seq 1 4000 >text.txt
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1" | tr -d ' ' | tr , '\n'; }

$MOTLEY plan --model gpt2:layers=1,heads=4,embed=32,context=16,vocab=256 --precision f64 --dropout 0.1 --batch 4 \
  --steps 3 --ranks 3 -o samples.json >said.txt
mpirun -n 3 $MOTLEY train samples.json --data text.txt --out samples >said.txt 2>&1
losses samples/run.json >want.txt
[ "$(wc -l <want.txt)" = 3 ] || fail "no losses: $(cat said.txt)"

# same NAME LABEL ALIGN SIZES...: a plan that splits so, for every operator that has the label, agrees with the other.
same() {
  local name=$1 splits= rules=
  shift
  while [ $# -gt 0 ]; do
    splits+="{\"name\": \"$1\", \"label\": \"$1\", \"align\": $2, \"sizes\": [$3]},"
    rules+="{\"pattern\": \"*\", \"rule\": \"split\", \"split\": \"$1\"},"
    shift 3
  done
  sed "s/^  \"splits\": \[/&$splits/; s/^  \"rules\": \[/&$rules/" samples.json >edited.json
  $MOTLEY plan --check edited.json -o $name.json >said.txt
  grep -q "\"split\": \"${name%%-*}\"" $name.json || fail "$name: the edit was lost"
  $MOTLEY verify $name.json --steps 1 >said.txt
  grep -q '^program *proven' said.txt || fail "$name: $(cat said.txt)"
  mpirun -n 3 $MOTLEY train $name.json --data text.txt --out $name >said.txt 2>&1
  losses $name/run.json | paste - want.txt | awk -v OFMT=%.17g '
    { d = ($1 - $2) / $2; if (d < 0) d = -d; if (!(d < 1e-11)) { print; bad = 1 } } END { exit bad || NR != 3 }' ||
    fail "$name: other losses than splitting samples"
}
same ffn ffn 8 "80, 48, 0"
same heads heads 1 "0, 3, 1"
same vocab vocab 8 "200, 16, 40"
same heads-and-more heads 1 "2, 1, 1" ffn 8 "0, 64, 64" vocab 8 "8, 240, 8"
same embed embed 8 "16, 0, 16"
same seq seq 1 "9, 4, 3"
