"""PyTorch's attention on the shapes of bench_cuda_attention, in bf16 and in the same counting: 16384 positions, 16 heads.

    python3 attention_torch.py [--quick]
"""
import sys
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

POSITIONS, HEADS, REPEATS = 16384, 16, 7


def least(run):
    run()
    times = []
    for _ in range(REPEATS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return min(times)


def rates(backend, s, d, causal):
    b = POSITIONS // s
    qkv = torch.randn(b, s, 3, HEADS, d, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    q, k, v = (qkv[:, :, i].transpose(1, 2).detach().requires_grad_() for i in range(3))
    flops = b * HEADS * s * s * d / (2 if causal else 1)
    with sdpa_kernel(backend):
        o = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        do = torch.randn_like(o)
        forward = least(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
        backward = least(lambda: torch.autograd.grad(o, (q, k, v), do, retain_graph=True))
    return 4 * flops / forward / 1e12, 10 * flops / backward / 1e12


print(torch.cuda.get_device_name(), "torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())
contexts = [1024] if "--quick" in sys.argv else [1024, 2048, 4096, 8192]
for d in (64, 128):
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        rows = ["", ""]
        for s in contexts:
            for causal in (True, False):
                try:
                    pair = ["%9.1f" % rate for rate in rates(backend, s, d, causal)]
                except RuntimeError as problem:
                    print("#", name, s, d, causal, str(problem).splitlines()[0], file=sys.stderr)
                    pair = ["%9s" % "-"] * 2
                rows = [row + cell for row, cell in zip(rows, pair)]
        for row, what in zip(rows, ("forward", "backward")):
            print("%-8s heads of %-4d %-8s" % (what, d, name) + row, flush=True)
