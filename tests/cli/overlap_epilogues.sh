#!/usr/bin/env bash
# Activations that are gathered while their GEMM runs, with biases and GELU: the GEMM ends with the epilogues that it has
# without the gather, and training has the losses of the plan without: in bf16 too, where one rounding more would show.
. "$SOURCE/tests/cli/lib.bash"
. "$SOURCE/tests/cli/samples.bash"
seq 1 4000 >text.txt
losses() { sed -n 's/^ *"losses": \[\(.*\)\]$/\1/p' "$1" | tr -d ' ' | tr , '\n'; }

# Two ranks, uneven.
divided() { # PRECISION OUT
  $MOTLEY plan --model gpt2:layers=2,heads=4,embed=32,context=16,vocab=256 --batch 4 --steps 30 --precision "$1" \
    --cluster cpu-1t:1x2 --use all --strategy tensor --overlap none -o base.json >said.txt
  by_samples base.json |
    sed "/\"name\": \"heads\"/s/\"sizes\": \[[0-9, ]*\]/\"sizes\": [3, 1]/; s/\"node0\"/\"$(hostname)\"/g
      /\"name\": \"ffn\"/s/\"sizes\": \[[0-9, ]*\]/\"sizes\": [48, 80]/
      /\"name\": \"batch\"/s/\"sizes\": \[[0-9, ]*\]/\"sizes\": [1, 3]/
      s/\"micro_batch\": \[[0-9, ]*\]/\"micro_batch\": [1, 3]/" >edited.json
  $MOTLEY plan --check edited.json -o "$2" >said.txt
}

epilogues() { # PLAN: those of GEMMs and of gathers of rank 0
  $MOTLEY show program "$1" --lowered --rank 0 |
    sed -n 's/.* \(fused_matmul\|AllGather+GEMM\) \([a-z_]*\) (.*/\2/p' | sort | tr '\n' ' '
}

train() { # PLAN OUT
  rm -rf "$2"
  mpirun -n 2 $MOTLEY train "$1" --data text.txt --out "$2" >said.txt 2>&1 || fail "$1: $(cat said.txt)"
}

for precision in f64 bf16; do
  case $precision in f64) tolerance=1e-11 ;; bf16) tolerance=2e-5 ;; esac
  divided $precision plain.json
  sed 's/^  "gradients": {/&\n    "overlapped": "gather",/' plain.json >edited.json
  $MOTLEY plan --check edited.json -o gather.json >said.txt
  $MOTLEY show program gather.json --lowered --rank 0 >program.txt
  for epilogue in add gelu; do
    [ "$(grep -c "AllGather+GEMM $epilogue (" program.txt)" = 2 ] || fail "$precision: $(grep GEMM program.txt)"
  done
  [ "$(epilogues plain.json)" = "$(epilogues gather.json)" ] || fail "$precision: $(epilogues gather.json)"
  $MOTLEY verify gather.json --steps 1 | has '^schedule *proven' || fail "$precision: not proven"
  train plain.json plain
  train gather.json gather
  paste <(losses plain/run.json) <(losses gather/run.json) | awk -v OFMT=%.17g -v most="$tolerance" '
    { d = ($1 - $2) / $1; if (d < 0) d = -d; if (!(d < most)) { print; bad = 1 } } END { exit bad || NR != 30 }' ||
    fail "$precision: other losses"
done
