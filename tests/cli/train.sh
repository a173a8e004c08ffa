#!/usr/bin/env bash
# motley train: what it prints and writes, the same numbers on any ranks, and what it refuses.
. "$SOURCE/tests/cli/lib.bash"
small="--model gpt2:layers=2,heads=2,embed=16,context=16,vocab=256 --lr 0.01 --warmup 3"
seq 1 9000 >text.txt

# losses FILE: one a line, full digits
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1" | tr -d ' ' | tr , '\n'; }
# near A B TOLERANCE: the losses of two runs agree, relative
near() {
  losses "$1" >near.a && losses "$2" >near.b
  [ -s near.a ] && [ "$(wc -l <near.a)" = "$(wc -l <near.b)" ] || fail "$1 and $2 have other numbers of losses"
  paste near.a near.b | awk -v tol="$3" '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > tol) { print; bad = 1 } }
    END { exit bad }' || fail "losses of $1 and $2 differ by more than $3"
}

# Two uneven ranks: it learns, says so once, and writes everything down.
$MOTLEY plan $small --speeds 1,0.5 --batch 6 --steps 60 --storage split -o two.json
mpirun -n 2 $MOTLEY train two.json --data text.txt --out two --eval-every 25 --log-every 20 --trace trace.json \
  --hash-every 10 >two.txt 2>progress.txt
[ "$(grep -c '^step [0-9]*/60 ' progress.txt)" = 3 ] || fail "$(cat progress.txt)"
[ "$(grep -c '^validation loss .* after step \(25\|50\|60\) ' two.txt)" = 3 ] || fail "$(cat two.txt)"
[ "$(grep -c 'parameter hashes equal on 2 ranks' two.txt)" = 1 ] || fail "$(cat two.txt)"
[ "$(losses two/run.json | wc -l)" = 60 ] || fail "run.json has not 60 losses"
losses two/run.json | awk 'NR == 1 { a = $1 } { z = $1 } END { exit !(a > 5.4 && a < 5.7 && z < 3) }' ||
  fail "the loss did not fall from about ln 256: $(losses two/run.json | sed -n '1p;$p' | tr '\n' ' ')"
for pid in 0 1; do
  for tid in 0 1; do
    grep -q "\"ph\": \"X\", \"pid\": $pid, \"tid\": $tid, .*\"step\": 2" trace.json || fail "no trace of $pid/$tid"
  done
done
[ -e two/step-00000060.safetensors ] || fail "no checkpoint"
grep -q '^step [0-9.]* [mun]*s$' two.txt || fail "no measured step: $(cat two.txt)"

# The run's document as tables, and the plan that it ran.
cmp two.json two/plan.json || fail "the folder has another plan"
$MOTLEY show two/run.json | tr -s ' ' >shown.txt
grep -q '^run finished, by motley' shown.txt || fail "$(cat shown.txt)"
grep -q '^steps 1 to 60 of 96 tokens$' shown.txt || fail "$(cat shown.txt)"
grep -q "^ 1 $(hostname) cpu, .* 2 [0-9.]* [mun]*s " shown.txt || fail "$(cat shown.txt)"
[ "$(grep -c '^\(validation\| [0-9.]* after step\)' shown.txt)" = 3 ] || fail "$(cat shown.txt)"
awk -F'[:,]' '/"step_s":/ { s = $2 } /"train_s":/ { t = $2 } END { exit !(s > 0 && s < t) }' two/run.json ||
  fail "step_s is wrong: $(grep _s two/run.json)"

# fp64 with dropout and clipping: the same losses on 1, 2 and 3 ranks, one without samples, storage split otherwise.
exact="$small --precision f64 --dropout 0.1 --clip 0.5 --batch 6 --steps 12"
$MOTLEY plan $exact --ranks 1 -o f1.json
$MOTLEY plan $exact --shares 5,1 --micro 2,1 -o f2.json
$MOTLEY plan $exact --shares 2,0,4 --storage split --storage-speeds 0,1,2 -o f3.json
$MOTLEY train f1.json --data text.txt --out f1 >f1.txt 2>&1
mpirun -n 2 $MOTLEY train f2.json --data text.txt --out f2 >f2.txt 2>&1
mpirun -n 3 $MOTLEY train f3.json --data text.txt --out f3 >f3.txt 2>&1
near f1/run.json f2/run.json 1e-11
near f1/run.json f3/run.json 1e-11

# bf16 is near.
$MOTLEY plan $small --precision bf16 --shares 4,2 --batch 6 --steps 10 -o b16.json
$MOTLEY plan $small --precision f32 --shares 4,2 --batch 6 --steps 10 -o f32.json
mpirun -n 2 $MOTLEY train b16.json --data text.txt --out b16 >b16.txt 2>&1
mpirun -n 2 $MOTLEY train f32.json --data text.txt --out f32 >f32.txt 2>&1
near b16/run.json f32/run.json 0.02

# A window model has one target a sample.
$MOTLEY plan --model mlp:tiny --lr 0.01 --shares 20,12 --batch 32 --steps 60 -o mlp.json
mpirun -n 2 $MOTLEY train mlp.json --data text.txt --out mlp >mlp.txt 2>&1
losses mlp/run.json | awk 'NR == 1 { a = $1 } { z = $1 } END { exit !(z < a / 2) }' ||
  fail "the window model learns nothing"

# Tokens of llm.c's format; validation from a file of its own; evaluation alone.
{ printf '\210\330\064\001\001\000\000\000\350\003\000\000'; head -c 1012 /dev/zero
  awk 'BEGIN { for (i = 0; i < 1000; i++) printf "%c%c", 1 + i % 7, 0 }'; } >tokens.bin
od -An -tu4 -N4 tokens.bin | has 20240520 || fail "the test's own header is wrong"
$MOTLEY plan --model gpt2:layers=1,heads=2,embed=16,context=16,vocab=8 --ranks 1 --batch 4 --steps 5 -o bin.json
$MOTLEY train bin.json --data tokens.bin --val tokens.bin >said.txt 2>&1
grep -q '^validation loss .* after step 5 (999 tokens)' said.txt || fail "$(cat said.txt)"
mpirun -n 2 $MOTLEY train two.json --data text.txt --resume two --eval-only >again.txt 2>&1
want=$(grep -o 'validation loss [0-9.]* after step 60' two.txt)
[ "$(grep -o 'validation loss [0-9.]* after step 60' again.txt)" = "$want" ] || fail "not $want: $(cat again.txt)"

# Refusals.
refused 2 "train what? Name a plan" $MOTLEY train --data text.txt
refused 2 "--data is missing" $MOTLEY train two.json
refused 2 "the plan is for 2 ranks, but 1 process" $MOTLEY train two.json --data text.txt
refused 2 "no/text: No such file" $MOTLEY train bin.json --data no/text
refused 2 "token 0 is 49, but the model's vocabulary has 8" $MOTLEY train bin.json --data text.txt
refused 2 "--resume and --init exclude" $MOTLEY train bin.json --data tokens.bin --resume two --init two
refused 2 "--val-fraction 1.5" $MOTLEY train bin.json --data tokens.bin --val-fraction 1.5
refused 2 "--eval-only: there is no validation part" $MOTLEY train bin.json --data tokens.bin --val-fraction 0 \
  --eval-only
refused 2 "--deadline: must be more than 0" $MOTLEY train bin.json --data tokens.bin --deadline 0
refused 2 "--eval-every: there is no validation part" $MOTLEY train bin.json --data tokens.bin --val-fraction 0 \
  --eval-every 1
refused 2 "there is no folder for checkpoints" $MOTLEY train bin.json --data tokens.bin --no-out --keep 3
refused 2 "--val and --val-fraction exclude" $MOTLEY train bin.json --data tokens.bin --val tokens.bin --val-fraction 0.5
refused 2 "--eval-only: takes no steps" $MOTLEY train bin.json --data tokens.bin --eval-only --hash-every 1
refused 2 "--data: must be a name" $MOTLEY train bin.json --data ""
refused 2 "--trace: no/trace.json: making" $MOTLEY train bin.json --data tokens.bin --trace no/trace.json
mkfifo pipe
refused 2 "pipe: not a regular file" timeout 300 $MOTLEY train bin.json --data pipe
refused 2 "pipe: not a regular file" timeout 300 $MOTLEY train bin.json --data tokens.bin --init pipe
if [ "$(id -u)" != 0 ]; then
  mkdir locked && chmod a-w locked
  refused 2 "--out locked: checkpoints cannot be written there" $MOTLEY train bin.json --data tokens.bin --out locked
fi
refused 2 "--keep: is 0" $MOTLEY train bin.json --data tokens.bin --keep 0
sed 's/"steps": 5,/"steps": 6,/' bin.json >edited.json
refused 2 "edited.json: hash" $MOTLEY train edited.json --data tokens.bin

# Mixtures, by name; and once, however many ranks see it.
sed 's/1/2/' text.txt >other.txt
refused 2 "the data is not the same on all ranks: rank 0" mpirun -n 1 $MOTLEY train two.json --data text.txt : \
  -n 1 $MOTLEY train two.json --data other.txt
refused 2 "the plan is not the same on all ranks: rank 0" mpirun -n 1 $MOTLEY train two.json --data text.txt : \
  -n 1 $MOTLEY train f2.json --data text.txt
mpirun -n 2 $MOTLEY train two.json --data none.txt >said.txt 2>&1 && fail "no data, and it ran"
[ "$(grep -c 'none.txt' said.txt)" = 1 ] || fail "reported more than once: $(cat said.txt)"

# Too little memory: which rank, and how much.
$MOTLEY plan --model gpt2:layers=2,heads=2,embed=512,context=64,vocab=256 --shares 8,1000000 --batch 1000008 \
  -o huge.json
refused 2 "rank 1 on $(hostname) lacks" mpirun -n 2 $MOTLEY train huge.json --data text.txt

# A run that diverges ends, and says so.
$MOTLEY plan $small --ranks 1 --lr 1e30 --lr-min 1e30 --warmup 0 --clip 0 --batch 2 --steps 50 -o wild.json
refused 7 "training has diverged" $MOTLEY train wild.json --data text.txt --out wild
grep -q '"ended": "diverged"' wild/run.json || fail "$(cat wild/run.json)"
