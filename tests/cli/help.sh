#!/usr/bin/env bash
# Help, and what is said of a wrong command, flag or name: exit code 2, and the nearest that there is.
. "$SOURCE/tests/cli/lib.bash"

# Help in all its forms, of every command.
$MOTLEY help >list.txt
for form in --help -h "-?"; do $MOTLEY "$form" | cmp - list.txt || fail "motley $form"; done
commands=$(sed -n 's/^MT_COMMAND(\([a-z]*\),.*/\1/p' "$SOURCE/launcher/commands/commands.def")
[ "$(wc -w <<<"$commands")" -gt 10 ] || fail "too few commands found to believe"
for command in $commands; do
  grep -q "^  $command " list.txt || fail "$command is not listed"
  $MOTLEY "$command" --help >help.txt || fail "$command --help"
  head -n 1 help.txt | has "^Usage: motley $command" || fail "$(cat help.txt)"
  $MOTLEY "$command" -h | cmp - help.txt || fail "motley $command -h"
  $MOTLEY help "$command" | cmp - help.txt || fail "motley help $command"
  grep -q -- '-h, --help' help.txt || fail "$(cat help.txt)"
  refused 2 "--no-such: is no flag of motley $command" $MOTLEY "$command" --no-such
  [ "$($MOTLEY "$command" --version)" = "$($MOTLEY --version)" ] || fail "$command --version"
done
for bench in plans overlap; do
  $MOTLEY help bench $bench | has "^Usage: motley bench $bench" || fail "help bench $bench"
done
code=0
$MOTLEY plan --help 2>err.txt >/dev/full || code=$?
[ $code = 1 ] && grep -q "standard output" err.txt || fail "$code: $(cat err.txt)"

# near NAME TEXT COMMAND...: refused with TEXT, and NAME is proposed.
near() {
  local name=$1
  shift
  refused 2 "$@"
  grep -qF "  hint: did you mean $name?" err.txt || fail "no '$name': $(cat err.txt)"
}
plan="$MOTLEY plan -o no.json"
near plan '"paln" is no command' $MOTLEY paln
near verify '"verfy" is no command' $MOTLEY help verfy
near --version "--vresion: a command must come first" $MOTLEY --vresion
near --batch "--bacth: is no flag of motley plan" $plan --bacth 3
near --batch "-batch: is no flag of motley plan" $plan -batch 3
near --batch "--bathc: is no flag of motley plan" $plan -n 2 --bathc=3 --even
near --data "--dta: is no flag of motley train" $MOTLEY launch plan.json --hosts hosts -- --dta text.txt
near --checkpoint-every "--checkpoint-evry: is no flag of motley train" $MOTLEY train --checkpoint-evry 3
near gpt2 'there is no model "gtp2"' $plan --model gtp2 --ranks 1
near 124m 'gpt2 has no size "124n"' $plan --model gpt2:124n --ranks 1
near layers 'gpt2 has no option "layer"' $plan --model gpt2:layer=3 --ranks 1
near zero1 '--strategy: "zero" is not known here' $plan --strategy zero
near bf16 '--precision: "pf16" is none of' $plan --precision pf16
near adamw '--optimizer: "adam" is not known here' $plan --optimizer adam
near split '--storage: "splt" is not known here' $plan --storage splt
near AllReduce '--algorithm: "Allreduce" is not known here' $plan --algorithm Allreduce=ring
near ring 'AllReduce has no algorithm "rign"' $plan --algorithm AllReduce=rign
near MiB '--bucket-bytes: must be a number of bytes, not "4mb"' $plan --bucket-bytes 4mb
near h100 '"h10" is not known here' $MOTLEY profile --describe h10:2 -o no.json
near nvlink 'there is no link "nvlonk"' $MOTLEY profile --describe "h100:2 nvlonk=3G" -o no.json
whatif="$MOTLEY whatif --cluster a10:2x2 --model gpt2:124m"
near h200 '"h20" is neither a class of the cluster nor known hardware' $whatif --add h20
near node1 'there is no node "nod1"' $whatif --remove node:nod1
near a10 'there is no class "a1"' $whatif --set class.a1.speed=1
near link 'set "lnik.net=3G": is not understood' $whatif --set lnik.net=3G
near layouts '"plan.json": one file at a time' $MOTLEY show layuots plan.json
near step 'benchmark: "setp" is not known here' $MOTLEY bench setp
$MOTLEY plan --model mlp:tiny --ranks 1 -o plan.json >said.txt
sed 's/"splits"/"spilts"/' plan.json >edited.json
near splits 'unknown key "spilts"' $MOTLEY show edited.json
sed 's/"adamw"/"adam"/' plan.json >edited.json
near adamw '"adam" is not known here' $MOTLEY show edited.json

# What is wrong with a flag that there is; what is near nothing.
refused 2 "--s: may be one of several flags" $plan --s 3
refused 2 "--batch: has no value" $plan --batch
refused 2 "-n: has no value" $plan -n
refused 2 "--even: takes no value" $plan --even=3
refused 2 '"xyzzy" is no command' $MOTLEY xyzzy
! grep -q "did you mean" err.txt || fail "$(cat err.txt)"
code=0
$MOTLEY 2>said.txt || code=$?
[ $code = 2 ] && cmp said.txt list.txt || fail "motley without a command: $code"
# What other programs call a flag; files that are not there yet; flags of train before the --.
hinted() { # HINT COMMAND...
  refused 2 "" "${@:2}"
  grep -qF -- "$1" err.txt || fail "'${*:2}' does not hint '$1': $(cat err.txt)"
}
hinted "it is --batch here" $plan --batch_size 3
hinted "it is --steps here" $plan --epochs=3
hinted "motley plan -o none.json" $MOTLEY verify none.json
hinted "motley profile -o none.json" $MOTLEY plan --cluster none.json --model mlp:tiny -o no.json
hinted '"node1 slots=4"' $MOTLEY launch plan.json --hosts none -- --data plan.json
hinted "flags of \`motley train\` come after --" $MOTLEY launch plan.json --hosts none --val-data plan.json
# Under mpirun once for all ranks.
code=0
mpirun -n 3 $MOTLEY train plan.json --dta x 2>err.txt || code=$?
[ $code = 2 ] && [ "$(grep -c 'is no flag of' err.txt)" = 1 ] || fail "$code: $(cat err.txt)"
