"""The machine under a run: device, threads, number format; versions and commit."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from attnexp import __version__
from attnexp.base.errors import UserError
from attnexp.config.schema import Device, TrainConfig
from attnexp.network.fast import REFERENCE, take_fast_path
from attnexp.network.guard import kept_streams

_matmul: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
"""torch's switch for the precision of oneDNN's products."""


def prepare(config: TrainConfig) -> torch.device:
    """Set threads, find the device. Raises `UserError` for one that is not here."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    _matmul.fp32_precision = "none"
    kind = str(config.device)
    if config.device is Device.auto:
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if not torch.get_device_module(kind).is_available():
        raise UserError(
            f"train.device={kind}, but torch {torch.__version__} finds no such device here. Use "
            f"train.device=cpu or train.device=auto."
        )
    return torch.device(kind)


@contextmanager
def restore_process() -> Iterator[None]:
    """Set the number of CPU threads, the grad mode and the random streams back at the end."""
    num_threads = torch.get_num_threads()
    with torch.set_grad_enabled(torch.is_grad_enabled()), kept_streams():
        try:
            yield
        finally:
            torch.set_num_threads(num_threads)


def describe_provenance(device: torch.device) -> dict[str, Any]:
    """Versions, machine and command that produce a result."""
    root = Path(__file__).parents[2]  # of a source checkout
    cpu = torch.cpu.get_capabilities()
    return {
        "version": __version__,
        "commit": commit_of(root) if (root / ".git").exists() else None,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "processor": torch.cuda.get_device_name() if device.type == "cuda" else cpu.get("cpu_name"),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "argv": ["attnexp", *sys.argv[1:]],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache  # The code of a process is what it has imported.
def commit_of(folder: Path) -> str | None:
    """Commit of the repository around a folder, with `+` if files of it changed, or None."""
    if shutil.which("git") is None:
        return None
    describe = "git describe --always --exclude=* --abbrev=40 --dirty=+"
    answer = subprocess.run(describe.split(), cwd=folder, capture_output=True, encoding="utf-8")
    return answer.stdout.strip() or None


def choose_path(model: nn.Module, config: TrainConfig) -> dict[str, str]:
    """Take the path of a model, and the library that multiplies its matrices; return their names.
    On AMD oneDNN takes 0.9 of MKL's time in a single pooled layer, 1.2 of it by hand on two threads
    and 1.6 to 4 in fused attention; on Intel a tenth more in all (benchmarks/LOG.md)."""
    path = take_fast_path(model, config.precision) if config.fast else REFERENCE
    classifier: Any = model
    is_single = path == "pooled" and len(classifier.layers) == 1
    products = "oneDNN" if is_single and _take_onednn() else "default"
    return {"path": path, "products": products}


def _take_onednn() -> bool:
    """Let oneDNN multiply fp32 matrices, on AMD, where it keeps fp32; whether it does. It does when
    asked for bf16 on a processor with bf16 instructions but no AMX, which would really round."""
    cpu = torch.cpu.get_capabilities()
    is_amd = "AMD" in str(cpu.get("cpu_name"))
    if not is_amd or not cpu.get("avx512_bf16") or cpu.get("amx_tile"):
        return False
    x = torch.randn(256, 128, generator=torch.Generator().manual_seed(0))
    expected = x @ x.T
    _matmul.fp32_precision = "bf16"
    keeps_fp32 = torch.allclose(x @ x.T, expected, rtol=1e-5, atol=1e-4)  # bf16 is off by 0.1
    if not keeps_fp32:
        _matmul.fp32_precision = "none"
    return keeps_fp32
