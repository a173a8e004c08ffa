"""Throughput of training a Llama in PyTorch, the peer of `motley train` on one GPU.

  python3 tests/bench/llama_torch.py 22 2048 32 4 5632 2048 8 [flash|cudnn] [steps] [clip]
                                     (layers width heads kv-heads ffn context batch)

Untied embeddings of 32,000 tokens, random tokens, weights in f32 under bf16 autocast, fused AdamW, torch.compile,
scaled_dot_product_attention with grouped heads; clip: the largest norm of all gradients, 0 for none. Prints ms a step,
the median over steps, and tokens/s.
"""
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

LAYERS, WIDTH, HEADS, KV_HEADS, FFN, CONTEXT, BATCH = map(int, sys.argv[1:8])
BACKEND = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[(sys.argv[8:9] or ["flash"])[0]]
STEPS = int((sys.argv[9:10] or ["30"])[0])
CLIP = float((sys.argv[10:11] or ["0"])[0])
HEAD, VOCAB = WIDTH // HEADS, 32000


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.k = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.v = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q = rotate(self.q(x).view(b, t, HEADS, HEAD).transpose(1, 2), cos, sin)
        k = rotate(self.k(x).view(b, t, KV_HEADS, HEAD).transpose(1, 2), cos, sin)
        v = self.v(x).view(b, t, KV_HEADS, HEAD).transpose(1, 2)
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(b, t, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
        self.attention = Attention()
        self.gate, self.up = nn.Linear(WIDTH, FFN, bias=False), nn.Linear(WIDTH, FFN, bias=False)
        self.down = nn.Linear(FFN, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.before(x), cos, sin)
        h = self.after(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-5)
        angle = torch.outer(torch.arange(CONTEXT), 1e4 ** -(torch.arange(0, HEAD, 2) / HEAD)).repeat(1, 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, x, y):
        h = self.tokens(x).to(torch.bfloat16)
        cos, sin = self.cos.to(h.dtype), self.sin.to(h.dtype)
        for block in self.blocks:
            h = block(h, cos, sin)
        return F.cross_entropy(self.head(self.norm(h)).view(-1, VOCAB), y.view(-1))


torch.manual_seed(0)
model = Llama().cuda()
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def step():
    x = torch.randint(0, VOCAB, (BATCH, CONTEXT), device="cuda")
    y = torch.randint(0, VOCAB, (BATCH, CONTEXT), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16), sdpa_kernel(BACKEND):
        loss = compiled(x, y)
    loss.backward()
    if CLIP:
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


for _ in range(6):
    step()
times = []
for _ in range(STEPS):
    torch.cuda.synchronize()
    began = time.perf_counter()
    step()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - began)
t = statistics.median(times)
parameters = sum(p.numel() for p in model.parameters())
print(f"PyTorch {torch.__version__} {BACKEND.name}, clip {CLIP:g}: {parameters / 1e6:.1f}M parameters, batch {BATCH}, "
      f"{t * 1e3:.2f} ms/step, {BATCH * CONTEXT / t:.0f} tokens/s, {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
