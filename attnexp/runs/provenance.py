"""Provenance of a result."""

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
    """Commit of a source checkout, with `+` if files of it changed; None without a commit."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    asked = ["git", "-C", str(root), "describe", "--always", "--exclude=*", "--abbrev=40"]
    try:
        said = subprocess.run([*asked, "--dirty=+"], capture_output=True, encoding="utf-8")
    except OSError:  # there is no git
        return None
    return said.stdout.strip() or None
