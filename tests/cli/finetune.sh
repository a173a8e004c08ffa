#!/usr/bin/env bash
# examples/finetune.sh in few steps: what it finetunes begins at the weights that it has pretrained, and gets better.
. "$SOURCE/tests/cli/lib.bash"
if ! command -v bible >/dev/null; then
  echo "skipped: no package bible-kjv"
  exit 77
fi
STEPS=30 MORE=30 WORK=$PWD/work MOTLEY=$MOTLEY "$SOURCE/examples/finetune.sh" >said.txt 2>&1 || fail "$(tail -n 20 said.txt)"
mapfile -t losses < <(sed -n 's/^validation loss \([0-9.]*\) after.*/\1/p' said.txt)
[ ${#losses[@]} = 3 ] || fail "$(cat said.txt)"
awk -v before="${losses[1]}" -v after="${losses[2]}" 'BEGIN { exit !(after < before - 0.1 && before < 6.5) }' ||
  fail "validation losses of ${losses[*]}"
for file in config.json tokenizer.json model.safetensors.index.json; do
  [ -s "work/tuned/$file" ] || fail "the tuned folder has no $file: $(ls work/tuned)"
done
