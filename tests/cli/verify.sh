#!/usr/bin/env bash
# motley verify: proofs and the run against one rank, over plans of many kinds.
. "$SOURCE/tests/cli/lib.bash"
small="--model gpt2:layers=1,heads=2,embed=16,context=8,vocab=40"

# plan_and_verify WORDS... : the numbers must be apart by rounding and no more: not by nothing, on several ranks.
plan_and_verify() {
  $MOTLEY plan "$@" -o plan.json >/dev/null
  $MOTLEY verify plan.json >said.txt || fail "'$*': $(cat said.txt)"
  for word in '^program *proven' '^schedule *proven' 'replicas apart by 0$'; do
    grep -q "$word" said.txt || fail "'$*': no '$word' in: $(cat said.txt)"
  done
  grep -q '|dw|/|w| [1-9][0-9.]*e-1[0-9],' said.txt || fail "'$*': $(cat said.txt)"
}
plan_and_verify $small --speeds 1,0.7,0.3 --batch 11 --dropout 0.1
plan_and_verify $small --shares 5,0,2 --batch 7 --storage split --storage-speeds 0,1,2 --micro 2 --clip 0.5
plan_and_verify $small --ranks 5 --batch 3 --storage '*.bias=split' --optimizer sgd --nesterov --precision bf16
plan_and_verify $small --ranks 2 --storage split --sync all_reduce --bucket-bytes 0 --gradient-wire bf16
plan_and_verify $small --ranks 3 --batch 5 --micro 2 --storage split --precision f16 --gradient-wire f16 --clip 0.1
plan_and_verify $small --ranks 2 --optimizer sgd --loss-scale 0.5 --precision tf32
plan_and_verify --model mlp:tiny --speeds 3,1 --batch 9 --storage split --schedule constant --precision f64

$MOTLEY verify plan.json --no-numeric --proof >proof.txt
[ "$(wc -l <proof.txt)" -gt 40 ] || fail "the proof has $(wc -l <proof.txt) lines"
! grep -q '^numeric' proof.txt || fail "a numeric run was not asked for"

# One rank is itself, to the last bit.
$MOTLEY plan $small --ranks 1 -o one.json >/dev/null
$MOTLEY verify one.json --steps 1 | has '1 rank against 1: |dw|/|w| 0,' || fail "$($MOTLEY verify one.json)"

# What is too big for this machine is said to be, and can be run small.
$MOTLEY plan --model gpt2:124m --speeds 1,0.5 --batch 3 --storage split -o big.json >/dev/null
$MOTLEY verify big.json >said.txt
grep -q '^numeric *left out: may take' said.txt || fail "$(cat said.txt)"
$MOTLEY verify big.json --small >said.txt
grep -q '2 ranks against 1: |dw|/|w| [1-9]' said.txt || fail "$(cat said.txt)"

# The small model shrinks extents, so that another axis of a parameter may be the longest: wpe's is "embed" here, and
# "context" there.
$MOTLEY plan --model gpt2:layers=4,heads=4,embed=128,context=64,vocab=256,bias=0 --speeds 1,0.6 --batch 16 \
  --storage split -o axes.json >/dev/null
$MOTLEY verify axes.json --small >said.txt || fail "$(cat said.txt)"
grep -q '2 ranks against 1: |dw|/|w| [1-9]' said.txt || fail "$(cat said.txt)"
$MOTLEY plan --model mlp:embed=64,hidden=96,layers=3 --shares 4,0,5 --batch 9 --storage split -o axes.json >/dev/null
$MOTLEY verify axes.json --small >said.txt || fail "$(cat said.txt)"

refused 2 "verify what? Name a plan" $MOTLEY verify
refused 2 "--steps: is 0" $MOTLEY verify plan.json --steps 0
refused 2 "--no-numeric excludes" $MOTLEY verify plan.json --small --no-numeric
sed -i 's/"steps": 1000/"steps": 1001/' plan.json
refused 2 "plan.json: hash: does not fit" $MOTLEY verify plan.json
