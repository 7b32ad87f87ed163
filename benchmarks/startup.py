"""How long a command takes before it does anything: whole processes, side by side.

`attnexp --help` beside `attnexp config` (which composes a run's settings), an empty Python, and the
imports that both put off.

    python benchmarks/startup.py
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from _pairs import Measure, Table

PYTHON = sys.executable
ATTNEXP = str(Path(sys.executable).with_name("attnexp"))
PEERS = {
    "attnexp config": [ATTNEXP, "config"],
    "python -c pass": [PYTHON, "-c", "pass"],
    'python -c "import typer"': [PYTHON, "-c", "import typer"],
    'python -c "import torch"': [PYTHON, "-c", "import torch"],
    'python -c "import datasets"': [PYTHON, "-c", "import datasets"],
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5, help="turns each (default 5)")
    args = parser.parse_args()
    table = Table("Start-up, whole processes", "attnexp --help")
    for name, command in PEERS.items():
        table.add(name, process([ATTNEXP, "--help"]), process(command), args.pairs)


def process(command: Sequence[str]) -> Measure:
    """Seconds from start to exit."""

    def measure() -> dict[str, float]:
        started = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return {"process": time.perf_counter() - started}

    return measure


if __name__ == "__main__":
    main()
