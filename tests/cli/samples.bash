# A GPT's tensor-parallel plan, of which what is not divided by heads, ffn or vocabulary is divided by samples: tensor and
# sequence parallel. For tests and benchmarks.

# by_samples FILE: the plan FILE, so divided
by_samples() {
  local rules='' pattern split
  while read -r pattern split; do
    rules+="    {\"pattern\": \"$pattern\", \"rule\": \"split\", \"split\": \"$split\"},\n"
  done <<'END'
h.*.attn.c_proj.add_bias* batch
h.*.attn.residual* batch
h.*.mlp.c_proj.add_bias* batch
h.*.mlp.c_proj* ffn
h.*.mlp.c_fc* ffn
h.*.mlp.gelu* ffn
h.*.attn* heads
lm_head* vocab
loss.exp_sum* vocab
loss.pick* vocab
loss.max* vocab
loss.nll/grad_x vocab
* batch
END
  awk -v rules="${rules%,\\n}\n" '
    /^  "rules": \[/ { print; printf "%s", rules; inside = 1 }
    inside && /^  \]/ { inside = 0 }
    /"kind": "(Broadcast|AllToAll)"/ { next } # which it has no use for then
    !inside' "$1" | sed -z 's/,\n  \]/\n  ]/g'
}
