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

from attnexp import __version__
from attnexp.base.errors import UserError
from attnexp.config.schema import Device, TrainConfig

_matmul: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
"""torch's switch for the precision of oneDNN's products."""


def prepare(config: TrainConfig) -> torch.device:
    """Set threads and libraries, find the device. Raises `UserError` for one that is not here."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    _use_onednn(config.fast)
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
def restore_threads() -> Iterator[None]:
    """Set the number of CPU threads back at the end of the block, whatever is set within."""
    num_threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def describe_provenance(device: torch.device) -> dict[str, Any]:
    """Versions, machine and command that produce a result."""
    root = Path(__file__).parents[2]  # of a source checkout
    return {
        "version": __version__,
        "commit": commit_of(root) if (root / ".git").exists() else None,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "products": "oneDNN" if _matmul.fp32_precision == "bf16" else "default",
        "argv": ["attnexp", *sys.argv[1:]],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "resumed": [],
    }


@cache  # the code of a process is what it has imported
def commit_of(folder: Path) -> str | None:
    """Commit of the repository that a folder is in, with `+` if files of it changed; None without
    one."""
    if shutil.which("git") is None:
        return None
    describe = "git describe --always --exclude=* --abbrev=40 --dirty=+"
    answer = subprocess.run(describe.split(), cwd=folder, capture_output=True, encoding="utf-8")
    return answer.stdout.strip() or None


def _use_onednn(fast: bool) -> None:
    """Let oneDNN multiply fp32 matrices where it is faster than MKL and keeps fp32.

    It does so when asked for bf16 on a processor that has bf16 instructions and no AMX, which would
    really round; a product is compared before anything rests on it. Only AMD's are asked: there a
    step of training takes two thirds of the time, on Intel's a tenth more (benchmarks/LOG.md).
    """
    _matmul.fp32_precision = "none"
    cpu = torch.cpu.get_capabilities()
    is_amd = "AMD" in str(cpu.get("cpu_name"))
    keeps_fp32 = cpu.get("avx512_bf16") and not cpu.get("amx_tile")
    if not (fast and is_amd and keeps_fp32):
        return
    x = torch.randn(256, 128, generator=torch.Generator().manual_seed(0))
    expected = x @ x.T
    _matmul.fp32_precision = "bf16"
    if not torch.allclose(x @ x.T, expected, rtol=1e-5, atol=1e-4):  # bf16 is off by 0.1
        _matmul.fp32_precision = "none"
