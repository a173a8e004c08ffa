#!/usr/bin/env bash
# --emulate: ranks as slow as the flag says, which train prints and keeps; and what it refuses.
. "$SOURCE/tests/cli/lib.bash"
seq 1 9000 >text.txt
$MOTLEY plan --model gpt2:layers=1,heads=2,embed=32,context=32,vocab=256 --ranks 2 --batch 8 --steps 12 -o plan.json

mpirun -n 2 $MOTLEY train plan.json --data text.txt --out run --val-fraction 0 --emulate speed=1,0.2 >out.txt 2>&1
grep -q '^motley: 2 ranks of emulated speeds 1, 0.2, gpt2:' out.txt || fail "$(cat out.txt)"
# The second rank's device says so itself; that it takes five times as long is for test_device_emulate.
sed -n 's/.*"device": "\([^"]*\)".*"emulated": \([0-9.]*\), "step_compute_s": \([0-9.e-]*\),.*/\2 \3 \1/p' run/run.json >ranks.txt
awk 'NR == 1 { well = $1 == 1 && $2 > 0 && !/emulated/ } NR == 2 { well = well && $1 == 0.2 && $2 > 0 && /emulated speed 0.2( |$)/ }
  END { exit !(well && NR == 2) }' ranks.txt || fail "emulated, seconds, device: $(cat ranks.txt run/run.json)"

# One speed for all; the losses are the same as without.
mpirun -n 2 $MOTLEY train plan.json --data text.txt --out all --val-fraction 0 --steps 3 --emulate speed=0.5 >out.txt 2>&1
grep -q '^motley: 2 ranks of emulated speed 0.5, gpt2:' out.txt || fail "$(cat out.txt)"
[ "$(grep -c '"emulated": 0.5' all/run.json)" = 2 ] || fail "$(cat all/run.json)"
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1" | tr -d ' ' | tr , '\n' | head -3; }
[ "$(losses all/run.json)" = "$(losses run/run.json)" ] || fail "emulation changes what is computed"

$MOTLEY plan --model gpt2:layers=1,heads=2,embed=16,context=16,vocab=256 --ranks 1 --steps 1 -o one.json
train="$MOTLEY train one.json --data text.txt"
$train --emulate speed=1 >out.txt 2>&1
! grep -q emulated out.txt || fail "its own speed is not emulated: $(cat out.txt)"
refused 2 "--emulate speed: gives 3 speeds, but there is 1 rank" $train --emulate speed=1,1,1
refused 2 "--emulate: \"0.5\" does not begin with \"speed=\" or \"sm=\"" $train --emulate 0.5
refused 2 "--emulate speed: item 1 of \"1,\" is empty" $train --emulate speed=1,
refused 2 "--emulate speed: must be a number, not \"fast\"" $train --emulate speed=1,fast
for speed in -1 2 0.001; do
  refused 2 "--emulate speed: is $speed, but must be from 0.01 to 1" $train --emulate "speed=$speed"
done
refused 2 "--emulate sm: a device of kind cpu has no multiprocessors" $train --emulate sm=8
refused 2 "--emulate sm: gives 2 counts, but there is 1 rank" $train --emulate sm=8,16
refused 2 "--emulate sm: is 0, but must be from 1" $train --emulate sm=0
refused 2 "--emulate sm: must be a whole number, not \"1.5\"" $train --emulate sm=1.5
refused 2 "--emulate sm: a device of kind cpu has no multiprocessors" $MOTLEY profile --emulate sm=8 -o cluster.json
