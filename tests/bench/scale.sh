#!/usr/bin/env bash
# Planning and proving for many ranks and many layers: user time and peak memory, beside their limits.
#
#   tests/bench/scale.sh [NAME...]      some of the cases only: c64 c512 c1000 c10000 wide512 gpus4096 layers1000 verify512
#                                       whatif24
#
# Each row: what is run, user seconds / limit, MiB / limit. Exits with 1 if a limit is exceeded. User time is used, so
# that other work on the machine counts little; on a busy machine it is still up to twice what it is on an idle one.
. "$(dirname "$0")/lib.bash"
set +e # failures are counted
export MOTLEY_MODULES=${MOTLEY_MODULES:-$(dirname "$motley")}
failed=0

# wanted NAME: whether the case was asked for
asked=" $* "
wanted() { [ "$asked" = "  " ] || [[ $asked == *" $1 "* ]]; }

# measure NAME LIMIT_S LIMIT_MIB COMMAND...: may refuse (status 2: a job that cannot be planned), but not fail otherwise
measure() {
  local name=$1 most_s=$2 most_mib=$3 status
  shift 3
  /usr/bin/time -o "$work/time" -f '%U %M' timeout 900 "$@" >"$work/$name.out" 2>&1
  status=$?
  read -r user_s kib < <(tail -n 1 "$work/time")
  awk -v name="$name" -v s="$user_s" -v most_s="$most_s" -v kib="$kib" -v most="$most_mib" -v status="$status" 'BEGIN {
    mib = kib / 1024
    over = s > most_s || mib > most || (status != 0 && status != 2)
    printf "%-11s %8.2f s of %3d (%4.2f)  %7.0f MiB of %4d (%4.2f)%s%s\n", name, s, most_s, s / most_s, mib, most,
           mib / most, status == 2 ? "  refused" : status ? "  failed" : "", over ? "  OVER" : ""
    exit over }' || failed=1
  if [ $status -ne 0 ]; then sed 's/^/            /' "$work/$name.out" | tail -n 3; fi
}

net="net=100G"
five() { echo "h100:${1}x8 $net + a100-80:${1}x8 $net + a40:${1}x8 $net + t4:${2}x8 $net + l4:${2}x8 $net"; }
# eight N: of 1000 ranks, N times
eight() {
  echo "h100:$((25 * $1))x8 $net + h200:$((20 * $1))x8 $net + a100-80:$((20 * $1))x8 $net + a100-40:$((15 * $1))x8 $net" \
    "+ a40:$((15 * $1))x8 $net + t4:$((10 * $1))x8 $net + l4:$((10 * $1))x8 $net + a10:$((10 * $1))x8 $net"
}
sixteen="h100:1x4 $net + a100-80:1x4 $net + a40:1x4 $net + t4:1x2 $net + l4:1x2 $net"
wide=gpt2:layers=96,heads=96,embed=12288

wanted c64 && measure c64 1 1024 "$motley" plan --cluster "$(five 2 1)" --model gpt2:1558m --batch 1024 -o "$work/64.json"
wanted c512 && measure c512 3 1024 "$motley" plan --cluster "$(five 16 8)" --model gpt2:1558m --batch 4096 \
  -o "$work/512.json"
wanted c1000 && measure c1000 3 1024 "$motley" plan --cluster "$(eight 1)" --model gpt2:1558m --batch 8000 \
  -o "$work/1000.json"
wanted c10000 && measure c10000 20 1024 "$motley" plan --cluster "$(eight 10)" --model gpt2:1558m --batch 80000 \
  -o "$work/10000.json"
[ ! -f "$work/10000.json" ] || measure show10000 5 1024 "$motley" show "$work/10000.json"
wanted wide512 && measure wide512 5 1024 "$motley" plan --cluster "$(five 16 8)" --model "$wide" --batch 4096 \
  -o "$work/wide.json"
wanted gpus4096 && measure gpus4096 20 1024 "$motley" plan --cluster "h200:512x8 net=400G" --batch 4096 \
  --model "$wide,context=2048" -o "$work/gpus.json"
wanted layers1000 && measure layers1000 10 1024 "$motley" plan --cluster "$sixteen" --batch 256 \
  --model gpt2:layers=1000,heads=4,embed=256,context=128,vocab=1024 -o "$work/layers.json"
if wanted verify512; then
  [ -f "$work/512.json" ] || "$motley" plan --cluster "$(five 16 8)" --model gpt2:1558m --batch 4096 \
    -o "$work/512.json" >/dev/null
  measure verify512 60 2048 "$motley" verify --no-numeric "$work/512.json"
fi
wanted whatif24 && measure whatif24 3 1024 "$motley" whatif --cluster "h100:1x8 $net + a100-80:1x8 $net + l4:1x8 $net" \
  --model gpt2:124m --batch 96 --change "add 8xh100" --change "set link.net=200G" --change "remove rank:23" \
  --change "remove rank:0"
exit $failed
