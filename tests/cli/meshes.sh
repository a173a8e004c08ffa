#!/usr/bin/env bash
# Plans written by hand over two hosts of two ranks each: tensor parallelism, weights gathered for each layer, state
# sharded within hosts, tensors within hosts and samples across. Each is proved, trains to the losses of one rank, and
# loads the checkpoint of the one before bit for bit.
source "$SOURCE/tests/cli/lib.bash"
source "$SOURCE/tests/cli/hosts.bash"
seq 1 1500 | tr '\n' ' ' >text

model=gpt2:layers=2,heads=4,embed=16,context=16,vocab=256,bias=1,tied=1
job="--batch 12 --steps 3 --lr 0.01 --clip 0.5 --seed 7 --precision f64"
hosts=$HOST_A,$HOST_B,$HOST_B,$HOST_A
"$MOTLEY" plan --model $model $job -n 1 -o alone.json >/dev/null
"$MOTLEY" plan --model $model $job --hosts $hosts --storage split -o base.json >/dev/null
"$MOTLEY" train alone.json --data text --out alone >alone.txt 2>&1 || fail "$(cat alone.txt)"

row() { printf '%s{%s}' "${comma-}" "$1" && comma=,; }
split() { row "\"name\": \"$1\", \"label\": \"$2\", \"align\": 1, \"sizes\": [$3]${4:+, \"over\": \"$4\"}"; }
# rule PATTERN SPLIT [INNER]; keep PATTERN [SPLIT [INNER]]: rows; INNER is a name, or names in quotes and brackets
rule() { row "\"pattern\": \"$1\", \"rule\": \"split\", \"split\": \"$2\"${3:+, \"inner\": $3}"; }
replicate() { row "\"pattern\": \"$1\", \"rule\": \"replicate\""; }
keep() { row "\"pattern\": \"$1\", \"layout\": \"split\"${2:+, \"split\": \"$2\"}${3:+, \"inner\": $3}"; }
whole() { row "\"pattern\": \"$1\", \"layout\": \"replicated\""; }
storage() { # OVER: shares of every storage axis
  local all="$1" label extent
  for label in vocab:256 context:16 embed:16 heads:4 ffn:64; do
    extent=${label#*:}
    if [ "$all" = device ]; then
      split storage:${label%:*} ${label%:*} "$((extent / 4)), $((extent / 2)), $((extent / 2)), $((extent * 3 / 4))" device
    else
      split storage:${label%:*} ${label%:*} "$((extent / 4)), $((extent / 2)), 0, $((extent / 4))"
    fi
  done
}
compute_layout() { # WHICH SPLITS: storage as GEMMs divide weights
  keep '*.c_attn.*' "$1heads" && keep '*.attn.c_proj.weight' "$1heads" && keep '*.c_fc.*' "$1ffn"
  keep '*.mlp.c_proj.weight' "$1ffn" && keep wte.weight "$1vocab" && whole '*'
}
# plan NAME MICRO GRADIENTS: a plan of the lists that the functions splits, rules and stored print
plan() {
  {
    sed '/^  "splits"/,$d' base.json
    echo "\"splits\": [$(splits)], \"micro_batch\": [$2],"
    echo "\"rules\": [$(rules)], \"storage\": [$(stored)],"
    echo "\"gradients\": {\"sync\": \"reduce_scatter\", $3 \"bucket_bytes\": 4000}, \"collectives\": []}"
  } >edited.json
  "$MOTLEY" plan --check edited.json -o "$1.json" >said.txt 2>&1 || fail "$1: $(cat said.txt edited.json)"
  "$MOTLEY" verify "$1.json" --steps 1 >said.txt || fail "$1: $(cat said.txt)"
  names+=("$1")
}
names=()

# Tensor parallelism over all ranks, ragged; weights are where they are used.
splits() { split batch batch "12, 0, 0, 0"; split heads heads "2, 1, 1, 0"; split ffn ffn "16, 8, 40, 0"; split vocab vocab "64, 128, 0, 64"; }
rules() { rule '*' heads; rule '*' ffn; rule '*' vocab; replicate '*'; }
stored() { compute_layout ""; }
plan tensor "12, 0, 0, 0" ""

# Everything in shares, gathered when it is used.
splits() { split batch batch "4, 2, 0, 6"; storage all; }
rules() { rule '*' batch; }
stored() { keep '*'; }
plan shares "2, 1, 0, 3" '"gather": "layer", "reduced": "micro_batch",'

# Shares within hosts; each host has everything.
splits() { split batch batch "4, 2, 2, 4"; storage device; }
plan hybrid "2, 1, 1, 2" '"gather": "layer", "reduced": "node",'

# Tensors within hosts, samples across; hosts of unequal work.
splits() {
  split batch batch "8, 4" host && split heads heads "3, 2, 2, 1" device && split ffn ffn "40, 32, 32, 24" device
  split vocab vocab "192, 0, 256, 64" device
}
rules() { rule '*' batch '"heads"'; rule '*' batch '"ffn"'; rule '*' batch '"vocab"'; rule '*' batch; }
stored() { compute_layout ""; }
plan across "4, 2, 2, 4" '"reduced": "node",'

# Hosts that differ: one divides heads, the other all else; its state is divided over hosts.
splits() {
  split batch batch "8, 4" host && split heads heads "3, 2, 2, 1" device && split ffn ffn "40, 32, 32, 24" device
  split rows embed "12, 4" host && split columns ffn "40, 32, 32, 24" device
}
rules() { rule '*' batch '["heads", ""]'; rule '*' batch '["", "ffn"]'; rule '*' batch; }
stored() { keep '*.c_fc.weight' rows '["columns", ""]'; whole '*'; }
plan mixed "8, 4, 4, 8" ""

# Refusals teach.
edit() { sed "$1" edited.json >wrong.json; }
edit 's/"sizes": \[8, 4\], "over": "host"/"sizes": [8, 2, 2], "over": "host"/'
refused 2 "has 3 numbers, but there are 2 hosts" "$MOTLEY" plan --check wrong.json -o no.json
edit 's/"sizes": \[8, 4\], "over": "host"/"sizes": [8, 2], "over": "host"/'
refused 2 "sums to 10, but the job's global batch is 12" "$MOTLEY" plan --check wrong.json -o no.json
edit 's/"sizes": \[12, 4\]/"sizes": [12, 5]/'
refused 2 'split "rows" sums to 17 over hosts, but embed is 16' "$MOTLEY" plan --check wrong.json -o no.json
edit 's|\[3, 2, 2, 1\]|[2, 2, 2, 1]|'
refused 2 "have 3 of split \"heads\", but 4 of" "$MOTLEY" plan --check wrong.json -o no.json
edit 's/"inner": \["heads", ""\]/"inner": ["heads", "", ""]/'
refused 2 "rules[0].inner: lists 3 splits, but must list one for each of 2 hosts" "$MOTLEY" plan --check wrong.json -o no.json
edit 's/"inner": \["heads", ""\]/"inner": "rows"/'
refused 2 'rules[0].inner: "rows" is over hosts, but must be over devices' "$MOTLEY" plan --check wrong.json -o no.json
edit 's/"split": "batch", "inner"/"split": "heads", "inner"/'
refused 2 'rules[0].split: "heads" is over devices, but with "inner" it must be over hosts' \
  "$MOTLEY" plan --check wrong.json -o no.json
edit 's/"split": "rows"/"split": "lines"/'
refused 2 'storage[0].split: no split has the name "lines"' "$MOTLEY" plan --check wrong.json -o no.json
edit 's/"pattern": "\*.c_fc.weight"/"pattern": "*.c_fc.*"/'
refused 2 "divides a label that h.0.mlp.c_fc.bias does not have" "$MOTLEY" plan --check wrong.json -o no.json
edit 's/"micro_batch": \[8, 4, 4, 8\]/"micro_batch": [8, 4, 4, 4]/'
refused 2 "micro_batch[3]: is 4, but rank 0, which has the same samples, has 8" "$MOTLEY" plan --check wrong.json -o no.json
edit 's/"pattern": "\*", "rule": "split", "split": "batch"}/"pattern": "*.ln_1", "rule": "split", "split": "columns"}/'
refused 2 "has no effect" "$MOTLEY" plan --check wrong.json -o no.json
edit "s/\"host\": \"$HOST_A\"/\"host\": \"\"/; s/\"host\": \"$HOST_B\"/\"host\": \"\"/"
refused 2 "the plan's ranks have no hosts" "$MOTLEY" plan --check wrong.json -o no.json

# What people see.
"$MOTLEY" show mixed.json >shown.txt
shows ' operators on samples * split by batch, within hosts by heads, nothing' shown.txt
shows ' parameters, their state *.c_fc.weight split by rows, within hosts by columns, nothing' shown.txt
has 'rows over hosts' <shown.txt || fail "$(cat shown.txt)"
"$MOTLEY" diff across.json mixed.json >different.txt && fail "no difference"
has 'operators \*.*split by batch, within hosts by' <different.txt || fail "$(cat different.txt)"
"$MOTLEY" plan --document >document.txt
for word in over inner occurrence inner_occurrence gather reduced columns tile put_rows groups slabs mix direct; do
  has "\"$word\"" <document.txt || fail "no $word in the document's description"
done

hosts_can || { echo "without two hosts: they want root and network namespaces"; exit 0; }
trap 'hosts_down; rm -rf "$folder"' EXIT
hosts_up ""
losses() { tr -d '\n' <"$1/run.json" | sed -E 's/.*"losses": \[([^]]*)\].*/\1/' | tr -d ' ' | tr ',' '\n'; }
before=alone
for name in "${names[@]}"; do
  train_on_hosts "$name" --out "$PWD/$name"
  "$COMPARE" "$name"/step-*.safetensors alone/step-*.safetensors 0.2 >said.txt || fail "$name: $(cat said.txt)"
  paste -d ' ' <(losses "$name") <(losses alone) | awk '
    { d = ($1 - $2) / $2; if (d < 0) d = -d; if (!(d < 1e-11)) { print; bad = 1 } } END { exit bad || NR != 3 }' ||
    fail "$name: other losses than one rank's"
  train_on_hosts "$name" --resume "$PWD/$before" --out "$PWD/$name.again"
  grep -q "nothing left to train" said.txt || fail "$name: $(cat said.txt)"
  cmp <(tensors "$name.again"/step-*.safetensors) <(tensors "$before"/step-*.safetensors) ||
    fail "$name does not keep what $before has"
  before=$name
done
# Planned again by the speeds that were seen: hosts have other shares, and as many micro-batches each.
"$MOTLEY" plan --from across -o again.json >said.txt 2>&1 || fail "$(cat said.txt)"
"$MOTLEY" verify again.json --steps 1 >said.txt || fail "$(cat said.txt)"
