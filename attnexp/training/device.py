"""The machine under a run: device, threads, number format, memory."""

import ctypes
import sys
from typing import Any

import torch

from attnexp.base.errors import UserError
from attnexp.config.schema import Device, TrainConfig

_matmul: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
"""torch's switch for the precision of oneDNN's products."""


def prepare(config: TrainConfig) -> torch.device:
    """Set threads and libraries, find the device. Raises `UserError` for one that is not here."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    _keep_freed_memory()
    _use_onednn(config.fast)
    has_cuda = torch.cuda.is_available()
    is_here = {
        Device.auto: True,
        Device.cpu: True,
        Device.cuda: has_cuda,
        Device.mps: torch.backends.mps.is_available(),
    }
    if not is_here[config.device]:
        raise UserError(
            f"train.device={config.device}, but torch {torch.__version__} finds no "
            f"{config.device.upper()} device here. Use train.device=cpu or train.device=auto."
        )
    if config.device is Device.auto:
        return torch.device("cuda" if has_cuda else "cpu")
    return torch.device(config.device)


def products() -> str:
    """Library that multiplies fp32 matrices on the CPU: `oneDNN`, `MKL`, or `torch` without."""
    if _matmul.fp32_precision == "bf16":
        return "oneDNN"
    return "MKL" if torch.backends.mkl.is_available() else "torch"


def peak_rss_bytes() -> int:
    """Peak memory of this process; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _use_onednn(wanted: bool) -> None:
    """Let oneDNN multiply fp32 matrices where it is faster than MKL and keeps fp32.

    It does so when asked for bf16 on a processor that has bf16 instructions and no AMX, which would
    really round; a product is compared before anything rests on it. Only AMD's are asked: there a
    step of training takes two thirds of the time, on Intel's a tenth more (benchmarks/LOG.md).
    """
    _matmul.fp32_precision = "none"
    can = torch.cpu.get_capabilities()
    is_amd = "AMD" in str(can.get("cpu_name"))
    if wanted and is_amd and can.get("avx512_bf16") and not can.get("amx_tile"):
        x = torch.randn(256, 128, generator=torch.Generator().manual_seed(0))
        expected = x @ x.T
        _matmul.fp32_precision = "bf16"
        if not torch.allclose(x @ x.T, expected, rtol=1e-5, atol=1e-4):  # bf16 is off by 0.1
            _matmul.fp32_precision = "none"


def _keep_freed_memory() -> None:
    """Ask glibc to keep the step's big buffers instead of mapping them anew every step.

    Some 6 % of the training time on CPU (benchmarks/LOG.md); other allocators ignore it.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        m_trim_threshold, m_mmap_max = -1, -4  # names and numbers of malloc.h
        mallopt(m_mmap_max, 0)
        mallopt(m_trim_threshold, 2**31 - 1)
