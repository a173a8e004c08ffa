#!/usr/bin/env bash
# GEMMs that run together with their collectives end with epilogues. Activations that are gathered: with the epilogues
# that the GEMM has without the gather, and training has the losses of the plan without: in bf16 too, where one rounding
# more would show. Sums, scattered along samples or for all ranks: with the biases that are operators of their own
# without, so that in bf16 there is a rounding less.
. "$SOURCE/tests/cli/lib.bash"
. "$SOURCE/tests/cli/samples.bash"
seq 1 4000 >text.txt
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1" | tr -d ' ' | tr , '\n'; }

# Two ranks, uneven; what is not divided by heads, ffn or vocabulary is divided by samples, or not at all.
divided() { # PRECISION HOW OUT
  $MOTLEY plan --model gpt2:layers=2,heads=4,embed=32,context=16,vocab=256 --batch 4 --steps 30 --precision "$1" \
    --cluster cpu-1t:1x2 --use all --strategy tensor --overlap none -o base.json >said.txt
  case $2 in samples) by_samples base.json ;; *) cat base.json ;; esac |
    sed "/\"name\": \"heads\"/s/\"sizes\": \[[0-9, ]*\]/\"sizes\": [3, 1]/; s/\"node0\"/\"$(hostname)\"/g
      /\"name\": \"ffn\"/s/\"sizes\": \[[0-9, ]*\]/\"sizes\": [48, 80]/
      /\"name\": \"batch\"/s/\"sizes\": \[[0-9, ]*\]/\"sizes\": [1, 3]/
      s/\"micro_batch\": \[[0-9, ]*\]/\"micro_batch\": [1, 3]/" >edited.json
  $MOTLEY plan --check edited.json -o "$3" >said.txt
}

decided() { # FORMS PLAN OUT: the plan with these overlapped
  sed "s/^  \"gradients\": {/&\n    \"overlapped\": \"$1\",/" "$2" >edited.json
  $MOTLEY plan --check edited.json -o "$3" >said.txt
  $MOTLEY show program "$3" --lowered --rank 0 >program.txt
  $MOTLEY verify "$3" --steps 1 | has '^schedule *proven' || fail "$3: not proven"
}

epilogues() { # PLAN: those of GEMMs and of gathers of rank 0
  $MOTLEY show program "$1" --lowered --rank 0 |
    sed -n 's/.* \(fused_matmul\|AllGather+GEMM\) \([a-z_]*\) (.*/\2/p' | sort | tr '\n' ' '
}

train() { # PLAN OUT
  rm -rf "$2"
  mpirun -n 2 $MOTLEY train "$1" --data text.txt --out "$2" >said.txt 2>&1 || fail "$1: $(cat said.txt)"
}

same_losses() { # PLAIN OVERLAPPED TOLERANCE: of two runs
  paste <(losses "$1/run.json") <(losses "$2/run.json") | awk -v OFMT=%.17g -v most="$3" '
    { d = ($1 - $2) / $1; if (d < 0) d = -d; if (!(d < most)) { print; bad = 1 } } END { exit bad || NR != 30 }'
}

# biased PLAN FORM: both projections of both layers are sums of this form with their bias
biased() {
  [ "$(grep -c " $2 add (" program.txt)" = 4 ] || fail "$1: $(grep GEMM program.txt)"
  ! grep -q ' add (h\.[01]\.[a-z]*\.c_proj\.add_bias)' program.txt || fail "$1: $(grep c_proj.add_bias program.txt)"
}

for precision in f64 bf16; do
  case $precision in f64) tolerance=1e-11 loose=1e-11 ;; bf16) tolerance=2e-5 loose=5e-4 ;; esac
  divided $precision samples plain.json
  train plain.json plain
  $MOTLEY show program plain.json --lowered --rank 0 | has ' add (h\.0\.mlp\.c_proj\.add_bias)' || fail "no bias apart"
  decided gather plain.json gather.json
  for epilogue in add gelu; do
    [ "$(grep -c "AllGather+GEMM $epilogue (" program.txt)" = 2 ] || fail "$precision: $(grep GEMM program.txt)"
  done
  [ "$(epilogues plain.json)" = "$(epilogues gather.json)" ] || fail "$precision: $(epilogues gather.json)"
  train gather.json gather
  same_losses plain gather "$tolerance" || fail "$precision: other losses"
  decided scatter plain.json scatter.json
  biased scatter.json GEMM+ReduceScatter
  train scatter.json scatter
  same_losses plain scatter "$loose" || fail "$precision, scattered: other losses"
  decided all plain.json all.json
  biased all.json GEMM+ReduceScatter

  divided $precision tensor whole.json
  train whole.json whole
  decided reduce whole.json reduce.json
  biased reduce.json GEMM+AllReduce
  train reduce.json reduce
  same_losses whole reduce "$loose" || fail "$precision, for all: other losses"
done
