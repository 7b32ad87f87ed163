"""oneDNN in place of MKL for products of fp32 matrices on the CPU, where that is faster.

It pays on AMD, on the path `pooled` with one layer: 0.9 of MKL's time. It does not on the path
`words` (1.2 with two threads), in fused attention (1.6 to 4) or on Intel (1.1); benchmarks/LOG.md.
"""

from typing import Any

import torch

_matmul: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


def switch_on() -> bool:
    """Let oneDNN multiply on AMD; return whether it does. torch gives it fp32 matrices only if bf16
    is permitted. A CPU without AMX ignores this permission, and a trial shows if this one does."""
    cpu = torch.cpu.get_capabilities()
    is_amd = "AMD" in str(cpu.get("cpu_name"))
    if not is_amd or not cpu.get("avx512_bf16") or cpu.get("amx_tile"):
        return False
    x = torch.randn(256, 128, generator=torch.Generator().manual_seed(0))
    expected = x @ x.T
    _matmul.fp32_precision = "bf16"
    keeps_fp32 = torch.allclose(x @ x.T, expected, rtol=1e-5, atol=1e-4)  # bf16 is off by 0.1
    if not keeps_fp32:
        switch_off()
    return keeps_fp32


def switch_off() -> None:
    """Let MKL multiply, as torch usually does."""
    _matmul.fp32_precision = "none"
