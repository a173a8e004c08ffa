#!/usr/bin/env bash
# Formats and mixtures of --data: the same run on any ranks and across a resume; and what is refused.
. "$SOURCE/tests/cli/lib.bash"
tiny="--model gpt2:layers=1,heads=2,embed=16,context=16,vocab=256 --lr 0.01 --precision f64 --batch 6 --steps 8"
seq 1 2000 >numbers.txt
seq 2001 2300 >more.txt
mkdir shards
seq 3 3 1500 >shards/a.txt
seq 7 7 4000 >shards/b.txt
seq 5 5 5000 | sed 's/.*/{"id": &, "body": "& and more"}/' >lines.jsonl
mixed=(--data "shards/*.txt=3" --data lines.jsonl=1 --data-field body --data bytes:numbers.txt=0.5)
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1"; }

# One rank, two uneven ranks, and one that stops and goes on: the same losses.
$MOTLEY plan $tiny --ranks 1 -o one.json >/dev/null
$MOTLEY plan $tiny --shares 5,1 -o two.json >/dev/null
$MOTLEY train one.json "${mixed[@]}" --out one >one.txt 2>one.err || fail "$(cat one.err)"
has -F 'data shards/*.txt=3: 2 files, ' <one.err || fail "$(cat one.err)"
has -F 'lines.jsonl=1: 1 file, ' <one.err || fail "$(cat one.err)"
mpirun -n 2 $MOTLEY train two.json "${mixed[@]}" --out two >two.txt 2>&1 || fail "$(cat two.txt)"
$MOTLEY train one.json "${mixed[@]}" --out rest --steps 3 >rest.txt 2>&1 || fail "$(cat rest.txt)"
$MOTLEY train one.json "${mixed[@]}" --resume rest >rest.txt 2>&1 || fail "$(cat rest.txt)"
[ "$(losses one/run.json)" = "$(losses rest/run.json)" ] || fail "losses after a resume: $(losses rest/run.json)"
paste -d' ' <(losses one/run.json | tr -d ' ' | tr , '\n') <(losses two/run.json | tr -d ' ' | tr , '\n') |
  awk '{ d = ($1 - $2) / $1; if (d * d > 1e-20) { print; exit 1 } } END { exit NR != 8 }' || fail "two ranks, other losses"
$MOTLEY train one.json --data numbers.txt --out alone >alone.txt 2>&1
[ "$(losses one/run.json)" != "$(losses alone/run.json)" ] || fail "the mixture is as one source"
# Other weights are other data.
$MOTLEY train one.json "${mixed[@]}" --data more.txt=9 --resume one --eval-only >other.txt 2>&1
has "was trained on other data" <other.txt || fail "$(cat other.txt)"

# Tokens as llm.c and nanoGPT write them are the same tokens.
awk 'BEGIN { for (i = 0; i < 2000; i++) printf "\\x%02x\\x00", (i * 37 + i / 7) % 256 }' >hex
printf "$(cat hex)" >raw.bin
{ printf '\x88\xd8\x34\x01\x01\x00\x00\x00\xd0\x07\x00\x00'; head -c 1012 /dev/zero; cat raw.bin; } >head.bin
$MOTLEY train one.json --data raw.bin --out raw >raw.txt 2>&1 || fail "$(cat raw.txt)"
$MOTLEY train one.json --data head.bin --out head >head.txt 2>&1 || fail "$(cat head.txt)"
[ -n "$(losses raw/run.json)" ] && [ "$(losses raw/run.json)" = "$(losses head/run.json)" ] || fail "other tokens"

# The doctor reads all of it.
$MOTLEY doctor one.json "${mixed[@]}" >doctor.txt || true
has "^ok .*data .* bytes, " <doctor.txt || fail "$(cat doctor.txt)"

train="$MOTLEY train one.json"
refused 2 "lines.jsonl: line 1: has no member \"text\"" $train --data lines.jsonl
refused 2 "no file has such a name" $train --data "none/*.txt"
refused 2 "has no weight" $train --data numbers.txt --data shards/a.txt=2
refused 2 "the weight must be above 0" $train --data numbers.txt=0
refused 2 "numbers.txt is given twice" $train --data numbers.txt --data numbers.txt
refused 2 "is binary, not text" $train --data text:raw.bin
refused 2 "is no token file of llm.c" $train --data llmc:numbers.txt
refused 2 "shards: is a folder" $train --data shards
refused 2 "--val and --val-fraction exclude each other" $train --data numbers.txt --val raw.bin --val-fraction 0.2
refused 2 "but each token of it counts once" $train --data numbers.txt --val raw.bin=2
# A bad line stops the run, or is left out: then the run is that of the good lines.
sed '7s/.*/{"id": 7, "body": }/; 9s/.*/{"id": 9}/' lines.jsonl >bad.jsonl
sed '7d; 9d' lines.jsonl >good.jsonl
refused 2 "bad.jsonl: line 7, column 19: " $train --data bad.jsonl --data-field body
has -F -- "--bad-lines skip" <err.txt || fail "$(cat err.txt)"
refused 2 "--bad-lines maybe: must be stop or skip" $train --data bad.jsonl --bad-lines maybe
$train --data bad.jsonl --data-field body --bad-lines skip --out bad >bad.txt 2>&1 || fail "$(cat bad.txt)"
has -F "bad.jsonl: 2 bad lines skipped" <bad.txt || fail "$(cat bad.txt)"
$train --data good.jsonl --data-field body --out good >good.txt 2>&1 || fail "$(cat good.txt)"
[ -n "$(losses bad/run.json)" ] && [ "$(losses bad/run.json)" = "$(losses good/run.json)" ] || fail "other lines"
has "bad line" <good.txt && fail "$(cat good.txt)"
# Validation on what is trained on is said, under any name of the file; --eval-only trains on nothing.
ln -s numbers.txt alias.txt
$train --data numbers.txt --val alias.txt --out shared >shared.txt 2>&1 || fail "$(cat shared.txt)"
has -F -- "--val alias.txt: is trained on too" <shared.txt || fail "$(cat shared.txt)"
$train --data numbers.txt --val alias.txt --resume shared --eval-only >shared.txt 2>&1 || fail "$(cat shared.txt)"
has "is trained on too" <shared.txt && fail "$(cat shared.txt)"
$train --data numbers.txt --val more.txt --out other >other.txt 2>&1 || fail "$(cat other.txt)"
has "is trained on too" <other.txt && fail "$(cat other.txt)"

for flag in "--bad-lines skip" "--data-field body"; do
  refused 2 "${flag% body}: has no use without JSONL" $train --data bytes:numbers.txt $flag --no-out
done
refused 2 "--data-field: there is no --data" $MOTLEY doctor one.json --data-field x
head -c 1999 raw.bin >odd.bin
refused 2 "1999 bytes of tokens of 2 bytes each: a token is cut" $train --data odd.bin
