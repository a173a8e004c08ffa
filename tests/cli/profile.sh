# motley profile: a document of each shape, emulated speeds, refusals that name the flag.
. "$SOURCE/tests/cli/lib.bash"

# Bad input: said before anything is measured, and no file is made.
refused 2 "--budget: is 0" "$MOTLEY" profile --budget 0
refused 2 "--budget: must be a number" "$MOTLEY" profile --budget soon
refused 2 "--start-deadline: must be more than 0" "$MOTLEY" profile --start-deadline 0
refused 2 "--emulate speed: is 2" "$MOTLEY" profile --emulate speed=2
refused 2 "only flags are expected" "$MOTLEY" profile cluster.json
refused 2 "--measured: has no use without --describe" "$MOTLEY" profile --measured x.json
refused 2 "leave out --budget" "$MOTLEY" profile --describe v100:1x2 --budget 5
refused 2 "there is no model \"bert\"" "$MOTLEY" profile --budget 600 --model gpt2:char --model bert # at once
refused 2 "no/such/folder" "$MOTLEY" profile --budget 1 -o no/such/folder/c.json
refused 2 "gives 3 speeds, but there are 2 ranks" mpirun -n 2 "$MOTLEY" profile --emulate speed=1,1,0.5
[ "$(ls)" = $'err.txt\nout.txt' ] || fail "files were left: $(ls)"

# A rank that does not begin is named, with the flag that gives it longer.
code=0
timeout 600 mpirun -n 1 "$MOTLEY" profile --start-deadline 0.3 : \
  -n 1 sh -c "sleep 600; exec '$MOTLEY' profile" >late.txt 2>&1 || code=$?
[ $code != 0 ] && [ $code != 124 ] || fail "a late rank: code $code: $(cat late.txt)"
grep -q "^motley: rank 1 on .* has not started within .*--start-deadline" late.txt || fail "$(cat late.txt)"

# Alone: no links, and nothing to say of them.
"$MOTLEY" profile --budget 0.5 -o one.json >one.txt 2>progress.txt
grep -q '"source": "measured"' one.json || fail "one.json: $(head -c 400 one.json)"
"$MOTLEY" show one.json >shown.txt || [ $? -eq 6 ] || fail "show ended with $?" # 6: something stands out
grep -qE '^ *0 +' shown.txt || fail "no rank 0: $(cat shown.txt)"
grep -q "measuring 1 rank on 1 host" progress.txt || fail "no progress: $(cat progress.txt)"

# Two ranks, one emulated at a quarter of its speed: what that makes of its times is for tests with times of their own.
mpirun -n 2 "$MOTLEY" profile --budget 2 -o two.json --raw two.csv --emulate speed=1,0.25 >two.txt 2>progress.txt
[ "$(grep -c measuring progress.txt)" = 1 ] || fail "more than one rank speaks: $(cat progress.txt)"
"$MOTLEY" show two.json >shown.txt || [ $? -eq 6 ] || fail "show ended with $?"
[ "$(grep -cE '"speed": [0-9.]*[1-9]' two.json)" = 2 ] || fail "no two speeds: $(grep speed two.json)"
grep -q '"emulated": 0.25' two.json || fail "what was emulated is not written"
for what in AllReduce ReduceScatter AllGather Broadcast AllToAll; do
  grep -q "$what" two.json || fail "no $what in two.json"
done
head -1 two.csv | has -x "probe,what,rank,value" || fail "two.csv: $(head -2 two.csv)"
awk -F, 'NR > 1 && (NF != 4 || $4 + 0 <= 0) { print; bad = 1 } END { exit bad }' two.csv || fail "a sample is no number"
for what in op_s,matmul collective_s,all pair_latency_s,0-1; do
  grep -q "^$what" two.csv || fail "no $what in two.csv"
done
