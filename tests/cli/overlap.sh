#!/usr/bin/env bash
# GEMMs that run together with their collectives in training plans: a plan with them, by a flag or by hand, is proven,
# trains to the losses of the plan without them on ragged shares, and gives the same bits in every run; a rank that is
# killed or stopped within one is named.
. "$SOURCE/tests/cli/lib.bash"
seq 1 4000 >text.txt
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1" | tr -d ' ' | tr , '\n'; }
hash_of() { sed -n 's/.*"parameter_hash": "\([0-9a-f]*\)".*/\1/p' "$1" | head -n 1; }
job="--model gpt2:layers=1,heads=4,embed=32,context=16,vocab=256 --dropout 0.1 --batch 4 --steps 3 --ranks 3"

# tensor OUT PRECISION: operators divided over heads, ffn and vocab, with nothing of some on some ranks
tensor() {
  $MOTLEY plan $job --precision "$2" -o samples.json >said.txt
  local splits='' rules='' label
  for label in 'heads 1 2,0,2' 'ffn 8 80,40,8' 'vocab 8 200,16,40'; do
    set -- "$1" "$2" $label
    splits+="{\"name\": \"$3\", \"label\": \"$3\", \"align\": $4, \"sizes\": [$5]}, "
    rules+="{\"pattern\": \"*\", \"rule\": \"split\", \"split\": \"$3\"}, "
  done
  sed "s/^  \"splits\": \[/&$splits/; s/^  \"rules\": \[/&$rules/" samples.json >edited.json
  $MOTLEY plan --check edited.json -o "$1" >said.txt
}

# decided FORMS PLAN OUT: the plan with another decision, edited by hand
decided() {
  sed '/"overlapped":/d; s/^  "gradients": {/&\n    "overlapped": "'"$1"'",/' "$2" >edited.json
  $MOTLEY plan --check edited.json -o "$3" >said.txt
}

train() { # PLAN OUT
  rm -rf "$2"
  mpirun -n 3 $MOTLEY train "$1" --data text.txt --out "$2" >said.txt 2>&1 || fail "$1: $(cat said.txt)"
}

# same PLAN COUNT FORM...: of three ranks' programs, as many instructions; proven; the losses of plain; bits of each run
same() {
  local plan=$1 count=$2
  $MOTLEY show program "$plan" --lowered >program.txt
  [ "$(grep -c '; overlapped: ' program.txt)" = "$count" ] || fail "$plan: $(grep -c '; overlapped: ' program.txt)"
  for form in "${@:3}"; do has "$form (" <program.txt || fail "$plan: no $form"; done
  has '^window ' <program.txt || fail "no window"
  $MOTLEY verify "$plan" --steps 1 >said.txt
  has '^schedule *proven' <said.txt || fail "$plan: $(cat said.txt)"
  train "$plan" one
  train "$plan" two
  losses one/run.json | paste - plain.txt | awk -v OFMT=%.17g -v most="$tolerance" '
    { d = ($1 - $2) / $2; if (d < 0) d = -d; if (!(d < most)) { print; bad = 1 } } END { exit bad || NR != 3 }' ||
    fail "$plan: other losses"
  [ -n "$(hash_of one/run.json)" ] && [ "$(hash_of one/run.json)" = "$(hash_of two/run.json)" ] || fail "$plan: other bits"
}

for precision in f64 f32 tf32 bf16; do
  case $precision in f64) tolerance=1e-11 ;; f32) tolerance=1e-5 ;; tf32) tolerance=1e-6 ;; bf16) tolerance=2e-3 ;; esac
  tensor tensor.json $precision
  train tensor.json plain
  losses plain/run.json >plain.txt
  decided reduce tensor.json reduce.json
  same reduce.json 15 GEMM+AllReduce
done

# GEMMs of one shape whose results have different types: each has its part of the window.
$MOTLEY plan --model gpt2:layers=1,heads=4,embed=64,context=16,vocab=256,ffn=64 --batch 4 --ranks 2 --precision bf16 \
  --gradient-wire bf16 --bucket-bytes 0 --overlap all -o samples.json >said.txt
heads='{"name": "heads", "label": "heads", "align": 1, "sizes": [2,2]}, '
attention='{"pattern": "*attn*", "rule": "split", "split": "heads"}, '
sed "s/^  \"splits\": \[/&$heads/; s/^  \"rules\": \[/&$attention/" samples.json >edited.json
$MOTLEY plan --check edited.json -o types.json >said.txt
$MOTLEY show program types.json --lowered >program.txt
for type in bf16 f32; do
  grep -q "GEMM+AllReduce.* $type\[[0-9 ]*\]@[0-9]*; scratch.*overlapped: 64 by 64 by 64" program.txt || fail "no GEMM to $type"
done
$MOTLEY verify types.json --steps 1 >said.txt

# A plan in which no GEMM can says so: what is reduced here are sums over micro-batches.
$MOTLEY plan $job --storage split --micro 1 --overlap all -o few.json >said.txt
has '^overlap  *all has no effect: no GEMM of this plan' <said.txt || fail "motley plan does not tell: $(cat said.txt)"
$MOTLEY show few.json >shown.txt
has '^window *none: .*("overlapped" is "all")' <shown.txt || fail "motley show does not tell that nothing is overlapped"
! has 'GEMMs run together\|^overlapped' <shown.txt || fail "motley show says both: $(cat shown.txt)"

# States in shares: what the flag decides, and what a hand takes back.
tolerance=1e-11
$MOTLEY plan $job --precision f64 --storage split --storage-shares embed=16,0,16 -o plain.json >said.txt
train plain.json plain
losses plain/run.json >plain.txt
$MOTLEY plan $job --precision f64 --storage split --storage-shares embed=16,0,16 --overlap scatter -o flag.json >said.txt
grep -q '"overlapped": "scatter"' flag.json || fail "the flag is not in the plan"
same flag.json 12 GEMM+ReduceScatter
decided none flag.json none.json
! grep -q overlapped none.json || fail "none is written"
$MOTLEY show program none.json --lowered >program.txt
! grep -q '; overlapped: \|^window' program.txt || fail "something is overlapped"

# Which GEMMs run so is shown, whether they have rows or not: as many of a rank as its program has.
gemms() { # PLAN FORM
  $MOTLEY show "$1" | sed -n '/^overlapped/,/^$/p' |
    awk -v form="$2" '$1 == form && /as the device does, tiles of/ { n += $5 } END { print n + 0 }'
}
[ "$(gemms flag.json GEMM+ReduceScatter)" = 4 ] || fail "flag.json: $($MOTLEY show flag.json)"
[ "$(gemms reduce.json GEMM+AllReduce)" = 5 ] || fail "reduce.json: $($MOTLEY show reduce.json)"
$MOTLEY plan $job --storage split --storage-shares embed=16,0,16 --overlap gather+scatter -o part.json >said.txt
has '^overlap  *gather has no effect: no GEMM of this plan' <said.txt || fail "part.json: $(cat said.txt)"
$MOTLEY show part.json | has '^ *gather has no effect: no GEMM' || fail "part.json: $($MOTLEY show part.json)"
! $MOTLEY plan --check flag.json -o x.json | has '^overlap ' || fail "flag.json has an effect"
refused 2 'is not known' $MOTLEY plan $job --overlap sometimes -o x.json

# Forms are joined in any order, by the flag and by hand.
while read -r says means; do
  $MOTLEY plan $job --storage split --overlap $says -o order.json >said.txt
  grep -qF "\"overlapped\": \"$means\"" order.json || fail "$says: $(grep overlapped order.json)"
  sed "s/\"overlapped\": \"$means\"/\"overlapped\": \"$says\"/" order.json >edited.json
  $MOTLEY plan --check edited.json -o signed.json >said.txt
  cmp order.json signed.json || fail "$says by hand: $(grep overlapped signed.json)"
done <<'FORMS'
scatter+gather gather+scatter
reduce+gather gather+reduce
gather+scatter+reduce all
reduce+scatter+gather all
FORMS
for says in scatter+ +scatter scatter+none scatter,gather; do
  refused 2 'is not known' $MOTLEY plan $job --overlap $says -o x.json
done
$MOTLEY plan $job --device cuda --storage split --storage-shares embed=16,0,16 --overlap scatter -o gpu.json >said.txt
$MOTLEY show program gpu.json --lowered >program.txt
grep -q '; overlapped: ' program.txt && grep -q '^window [1-9]' program.txt || fail "nothing is overlapped on GPUs"

# With a cluster they are there where they are predicted to be faster, and nowhere else.
figure() { sed -n 's/.*"step_s": \([^,]*\),.*/\1/p' "$1" | head -n 1; }
for ranks in 8 2; do
  on="--cluster cpu-1t:1x$ranks --strategy tensor --model gpt2:layers=2,heads=8,embed=64,context=32,vocab=256 --batch 16"
  rm -f chosen.json
  $MOTLEY plan $on -o chosen.json >said.txt
  for forms in none all scatter; do
    rm -f $forms.json
    $MOTLEY plan $on --overlap $forms -o $forms.json >said.txt
    awk -v a="$(figure chosen.json)" -v b="$(figure $forms.json)" 'BEGIN { exit !(a > 0 && a <= b * 1.02) }' ||
      fail "$ranks ranks, $forms: $(figure $forms.json) s, not $(figure chosen.json) s"
  done
  case $ranks in
    8) grep -q '"overlapped": "scatter"' chosen.json && grep -q '"window_bytes": [1-9]' chosen.json ;;
    2) ! grep -q 'overlapped\|window_bytes' chosen.json ;;
  esac || fail "$ranks ranks: $(grep overlapped chosen.json)"
done

# Gathered weights that are sent slab by slab in K, or multiplied by tiles of all ranks' rows, as the plan says by hand:
# proven, the losses of whole rows of one rank each, equal bits.
$MOTLEY plan --model gpt2:layers=1,heads=4,embed=64,context=32,vocab=256 --batch 4 --steps 3 --precision f64 \
  --cluster cpu-1t:1x2 --strategy zero3 --overlap all -o here.json >said.txt
sed "s/node0/$(hostname)/g" here.json >edited.json
$MOTLEY plan --check edited.json -o whole.json >said.txt
gathers() {
  rm -rf "$2"
  mpirun -n 2 $MOTLEY train "$1.json" --data text.txt --out "$2" >said.txt 2>&1 || fail "$1: $(cat said.txt)"
}
gathers whole zero
losses zero/run.json >plain.txt
while read -r name rows says more; do
  says=${says//_/ }
  row='{"form": "gather", "m": 256, "columns": 128, "k": 64, "by": "any", "tile": ['$rows', 128], "put_rows": 20, '$more'}'
  sed "s/^  \"gradients\": {/  \"overlapped\": [$row],\n&/" whole.json >edited.json
  $MOTLEY plan --check edited.json -o $name.json >said.txt
  $MOTLEY show $name.json | has "AllGather+GEMM .* puts of 20 rows, $says" || fail "$name: not shown"
  $MOTLEY show program $name.json --lowered | has "; overlapped: 256 by 128 by 64 .*, $says" || fail "$name: not there"
  $MOTLEY verify $name.json --steps 1 | has '^schedule *proven' || fail "$name: not proven"
  for run in one two; do gathers $name $run </dev/null; done
  losses one/run.json | paste - plain.txt | awk -v OFMT=%.17g '
    { d = ($1 - $2) / $2; if (d < 0) d = -d; if (!(d < 1e-11)) { print; bad = 1 } } END { exit bad || NR != 3 }' ||
    fail "$name: other losses"
  [ -n "$(hash_of one/run.json)" ] && [ "$(hash_of one/run.json)" = "$(hash_of two/run.json)" ] || fail "$name: other bits"
done <<'ROWS'
slabs 32 K_in_3_slabs "slabs": 3
joint 48 rows_of_all_ranks_in_each_tile "joint": true
ROWS
sed '0,/"slabs": 3/s//"slabs": 300/' slabs.json >edited.json
refused 2 'overlapped[0].slabs: is 300' $MOTLEY plan --check edited.json -o x.json
sed '0,/"joint": true/s//&, "slabs": 2/' joint.json >edited.json
refused 2 'overlapped[0].joint: must be absent' $MOTLEY plan --check edited.json -o x.json

# What only GPUs have several implementations for is refused, as are rows of no GEMM of the plan.
sed '0,/"by": "any"/s//"by": "nccl"/; 0,/, "joint": true/s///' joint.json >edited.json
refused 2 'overlapped[0].by: "nccl" has no effect: only GPUs have it' $MOTLEY plan --check edited.json -o x.json
sed '0,/"columns": 128/s//"columns": 127/' joint.json >edited.json
refused 2 'overlapped[0]: has no effect: no AllGather+GEMM of this plan is of m 256, columns 127, k 64' \
  $MOTLEY plan --check edited.json -o x.json

# A rank that is killed, or stopped, while the others wait for its tiles.
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=64,context=64,vocab=256 --batch 6 --steps 1000000 --ranks 3 \
  --storage split --overlap scatter -o long.json >said.txt
for signal in KILL STOP; do
  rm -rf run run.txt
  timeout 120 mpirun -n 3 sh -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec "$@"' sh $MOTLEY train long.json \
    --data text.txt --out run --heartbeat 3 >run.txt 2>&1 &
  job_pid=$!
  wait_for 'grep -q "step *[2-9][0-9]" run.txt'
  kill -$signal "$(cat pid.1)"
  began=$SECONDS code=0
  wait $job_pid || code=$?
  [ $code != 0 ] && [ $code != 124 ] || fail "$signal: code $code: $(cat run.txt)"
  [ $((SECONDS - began)) -le 20 ] || fail "$signal: it took $((SECONDS - began)) s"
  grep -q '^motley: .*rank 1' run.txt || fail "$signal: rank 1 is not named: $(tail -n 5 run.txt)"
  kill -KILL "$(cat pid.1)" 2>>run.txt || true
done
