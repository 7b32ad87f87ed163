"""Where a result came from."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attnexp import __version__


def collect(device: str, threads: int) -> dict[str, Any]:
    """Versions, machine and command that produced a result."""
    return {
        "version": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "numpy": importlib.metadata.version("numpy"),
        "fpmath": os.environ.get("ONEDNN_DEFAULT_FPMATH_MODE", "STRICT"),
        "platform": platform.platform(),
        "device": device,
        "threads": threads,
        "argv": ["attnexp", *sys.argv[1:]],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "resumed": [],
    }


def _commit() -> str | None:
    """The commit of a source checkout, with `+` when it is changed; None when installed."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    git = ["git", "-C", str(root)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
        dirty = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True)
    except OSError:
        return None
    if head.returncode:
        return None
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")
