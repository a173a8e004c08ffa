#!/usr/bin/env bash
# motley diff: what two plans say differently, and how a script learns it.
. "$SOURCE/tests/cli/lib.bash"
small="--model gpt2:layers=1,heads=2,embed=16,context=8,vocab=40"
$MOTLEY plan $small --speeds 2,1 --hosts big,small --batch 6 -o a.json >said.txt
$MOTLEY plan $small --speeds 2,1 --hosts big,small --batch 6 -o same.json >said.txt
$MOTLEY plan $small --shares 3,3 --hosts big,tiny --batch 6 --storage split --optimizer sgd --lr 0.01 \
  --algorithm AllGather=ring -o b.json >said.txt
$MOTLEY plan $small --speeds 2,1,1 --batch 8 -o c.json >said.txt

# differs CODE A B: the exit code, and the table in out.txt with spaces squeezed.
differs() {
  local code=$1 got=0
  $MOTLEY diff "$2" "$3" >out.raw || got=$?
  [ "$got" = "$code" ] || fail "diff $2 $3 ended with $got: $(cat out.raw)"
  tr -s ' ' <out.raw >out.txt
}
differs 0 a.json same.json
shows 'a.json and same.json say the same' out.txt
sed -i 's/motley 0/motley 9/' same.json # who made it is no difference, and an edit is signed first
refused 2 "same.json: hash: does not fit" $MOTLEY diff a.json same.json
# What no fact tells, as here a split's alignment, makes plans differ all the same; as do NCCL's and windows' memory.
sed '0,/"align": 1/s//"align": 2/' a.json >edited.json
$MOTLEY plan --check edited.json -o aligned.json >said.txt
differs 1 a.json aligned.json
grep -q '^all else, as a hash [0-9a-f]\{32\} [0-9a-f]\{32\}$' out.txt || fail "$(cat out.raw)"
$MOTLEY plan $small --speeds 2,1 --hosts big,small --batch 6 --storage split --overlap all -o pairs.json >said.txt
differs 1 a.json pairs.json
grep -q '^window of rank 0 - [0-9.]* [KM]iB$' out.txt || fail "$(cat out.raw)"

differs 1 a.json b.json
for line in 'optimizer adamw sgd' 'beta 0.9 0.95 -' 'eps 1e-08 -' 'learning rate 0.001 0.01 +900.0%' 'momentum - 0.9' \
  'rank 1: host small tiny' 'rank 0: speed 2 1 -50.0%' 'batch of rank 0 4 3 -25.0%' 'batch of rank 1 2 3 +50.0%' \
  'storage of * replicated split' 'gradients by all_reduce reduce_scatter' 'AllGather - ring' \
  'ReduceScatter - auto, as f32'; do
  grep -qxF -- "$line" out.txt || fail "no '$line' in: $(cat out.raw)"
done
! grep -q '^model\|^seed\|^seq\|^dropout' out.txt || fail "lists what is equal: $(cat out.raw)"
cp out.txt ab.txt

# The other way round, the same facts with the columns exchanged.
differs 1 b.json a.json
grep -qxF 'batch of rank 0 3 4 +33.3%' out.txt || fail "$(cat out.raw)"
[ "$(wc -l <ab.txt)" = "$(wc -l <out.txt)" ] || fail "one way $(cat ab.txt), the other $(cat out.txt)"

# What people see rounded is compared as it is.
$MOTLEY plan $small --speeds 2,1 --hosts big,small --batch 6 --bucket-bytes 4194305 -o near.json >said.txt
differs 1 a.json near.json
grep -qxF 'buckets 4.00 MiB 4.00 MiB +0.0%' out.txt || fail "$(cat out.raw)"

differs 1 a.json c.json # another number of ranks
for line in 'ranks 2 3' 'batch of rank 2 - 2' 'batch of rank 0 4 4'; do
  case $line in
    'batch of rank 0 4 4') ! grep -qxF -- "$line" out.txt || fail "'$line' is no difference" ;;
    *) grep -qxF -- "$line" out.txt || fail "no '$line' in: $(cat out.raw)" ;;
  esac
done

refused 2 "compare what? Name two files" $MOTLEY diff a.json
refused 2 "two files at a time" $MOTLEY diff a.json b.json c.json
refused 2 "none.json: No such file" $MOTLEY diff a.json none.json
echo '{"format": "recipe"}' >other.json
refused 2 "other.json is a \"recipe\"" $MOTLEY diff other.json a.json
refused 2 "which cannot be compared here" $MOTLEY diff other.json other.json

# The same difference of many ranks is one row with a count.
many="--model gpt2:layers=1,heads=2,embed=16,context=8,vocab=40 --ranks 40"
$MOTLEY plan $many --batch 80 -o a.json >/dev/null
$MOTLEY plan $many --batch 160 --shares "$(yes 5 | head -n 20 | paste -sd,),$(yes 3 | head -n 20 | paste -sd,)" -o b.json >/dev/null
! $MOTLEY diff a.json b.json >said.txt || fail "the same plan"
shows "batch of ranks 0 to 19 (20) 2 5 +150.0%" said.txt
shows "batch of ranks 20 to 39 (20) 2 3 +50.0%" said.txt
shows "micro-batch of ranks 20 to 39 (20) 2 3" said.txt
[ "$(wc -l <said.txt)" -lt 20 ] || fail "not folded: $(cat said.txt)"
