#!/usr/bin/env bash
# Where a command prints to: full disks and closed streams are reported, and nothing printed ends up in another file.
. "$SOURCE/tests/cli/lib.bash"
seq 1 2000 >text.txt
$MOTLEY plan --model mlp:tiny --ranks 1 --steps 2 -o plan.json >said.txt

# ignored COMMAND...: with nowhere to print, the command fails and says so.
ignored() {
  local code=0
  "$@" >/dev/full 2>err.txt || code=$?
  [ $code = 1 ] && grep -q '^motley: standard output: No space left on device$' err.txt || fail "'$*' on a full disk: $code, $(cat err.txt)"
  code=0
  "$@" >&- 2>err.txt || code=$?
  [ $code = 1 ] && grep -q '^motley: standard output: ' err.txt || fail "'$*' without output: $code, $(cat err.txt)"
}
$MOTLEY train plan.json --data text.txt --out run >said.txt 2>&1
ignored $MOTLEY --help
ignored $MOTLEY --version
ignored $MOTLEY plan --model mlp:tiny --ranks 1 -o other.json
ignored $MOTLEY show plan.json
ignored $MOTLEY show graph --model mlp:tiny
ignored $MOTLEY plan --models
ignored $MOTLEY plan --document
ignored $MOTLEY plan --strategy list
ignored $MOTLEY profile --hardware --json
ignored $MOTLEY verify plan.json
ignored $MOTLEY sample run -n 3
ignored $MOTLEY train plan.json --data text.txt

# Every standard stream closed: the checkpoint is as it should be.
$MOTLEY train plan.json --data text.txt --out silent <&- >&- 2>&- && fail "output was lost, and it ended with 0"
cmp run/step-00000002.safetensors silent/step-00000002.safetensors || fail "the checkpoint differs"
