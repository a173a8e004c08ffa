#!/usr/bin/env bash
# motley plan --recompute: less memory, the same numbers; and where the search takes it of itself.
. "$SOURCE/tests/cli/lib.bash"
small="--model gpt2:layers=6,heads=2,embed=32,context=32,vocab=64 --precision f64 --dropout 0.1"
tiny="--model gpt2:layers=4,heads=2,embed=16,context=8,vocab=64 --precision f64 --dropout 0.1" # to be trained

arena() { grep -o '"arena_bytes": [0-9]*' "$1" | grep -o '[0-9]*' | sort -n | tail -1; }

for what in none pointwise segments; do
  $MOTLEY plan $tiny --shares 7,4 --batch 11 --micro 3 --steps 4 --recompute $what -o $what.json >said.txt
  shows " \"recompute\": \"$what\"," $what.json
  $MOTLEY verify $what.json >verified.txt || fail "$what: $(cat verified.txt)"
  head -c 20000 "$SOURCE/README.md" | tr -c '\0-\77' '\1' >data.txt
  mpirun --bind-to none --oversubscribe -n 2 "$MOTLEY" train $what.json --data data.txt --log-every 1 >$what.txt 2>&1 ||
    fail "$what: $(cat $what.txt)"
  grep -o 'parameter hashes equal on 2 ranks ([0-9a-f]*)' $what.txt >$what.hash || fail "$(cat $what.txt)"
  $MOTLEY plan $small --ranks 1 --batch 16 --recompute $what -o one.$what.json >said.txt
done
# The same operators on the same inputs, so the same bits.
cmp none.hash pointwise.hash && cmp none.hash segments.hash
none=$(arena one.none.json) pointwise=$(arena one.pointwise.json) segments=$(arena one.segments.json)
[ $((10 * pointwise)) -lt $((9 * none)) ] || fail "pointwise: $pointwise bytes, none: $none"
[ $((10 * segments)) -lt $((7 * pointwise)) ] || fail "segments: $segments bytes, pointwise: $pointwise"

# One long sample that fits only so; one that fits anyhow.
large="--cluster l4:1x2 --precision bf16 --batch 2 --model gpt2:layers=6,heads=16,embed=1024,vocab=1024"
$MOTLEY plan $large,context=131072 -o long.json >said.txt || fail "$(cat said.txt)"
grep -q '^recompute  ' said.txt || fail "$(cat said.txt)"
if $MOTLEY plan $large,context=131072 --recompute none -o kept.json >said.txt 2>&1; then fail "it fits as it is"; fi
$MOTLEY plan $large,context=4096 -o short.json >said.txt
shows ' "recompute": "none",' short.json

refused 2 "--recompute: \"all\"" $MOTLEY plan $small --ranks 2 --recompute all -o x.json
