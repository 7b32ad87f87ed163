"""The machine under a run: device, threads; versions and commit."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import torch

from attnexp import __version__
from attnexp.base.errors import UserError
from attnexp.config.schema import Device, TrainConfig
from attnexp.config.settings import Tree
from attnexp.network.guard import kept_streams


def prepare_device(config: TrainConfig) -> torch.device:
    """Set threads, and find the device. Raises `UserError` for one not here."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
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
    """Set CPU threads, grad mode and random streams back at the end."""
    num_threads = torch.get_num_threads()
    with torch.set_grad_enabled(torch.is_grad_enabled()), kept_streams():
        try:
            yield
        finally:
            torch.set_num_threads(num_threads)


def describe_provenance(device: torch.device) -> Tree:
    """Versions, machine and command that produce a result."""
    root = Path(__file__).parents[2]  # of a source checkout
    cpu = torch.cpu.get_capabilities()
    entry = Path(sys.argv[0])
    is_ours = entry.stem == "attnexp" or entry.parts[-2:] == ("attnexp", "__main__.py")
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
        "argv": ["attnexp" if is_ours else sys.argv[0], *sys.argv[1:]],
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
