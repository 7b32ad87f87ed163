"""How much sooner a sweep ends with several runs at a time: whole sweeps, side by side.

The same runs on the embedded corpus, as `executor=local` places them and in other ways on the same
cores. Start-up, planning and the report are included.

    python benchmarks/executors.py
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _pairs import Measure, Table

ATTNEXP = str(Path(sys.executable).with_name("attnexp"))
PEERS = {
    "one run at a time, one thread": ["executor.workers=1", "train.threads=1"],
    "one run at a time, all threads": ["executor.workers=1"],
    "two processes, two threads each": ["executor.threads=2", "executor.workers=2"],
    "executor=submitit": ["executor=submitit"],
    "executor=ray": ["executor=ray"],
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=3, help="turns each (default 3)")
    parser.add_argument("--runs", type=int, default=12, help="of a sweep (default 12)")
    parser.add_argument("--epochs", type=int, default=5, help="of a run (default 5)")
    parser.add_argument("--only", metavar="TEXT", default="", help="rows whose name has it")
    args = parser.parse_args()
    words = ["study=blog", "data=contrast", f"seed=range({args.runs // 2})"]
    words.append(f"train.epochs={args.epochs}")
    table = Table(f"{args.runs} runs of {args.epochs} epochs", "executor=local")
    for name, peer in PEERS.items():
        if args.only in name:
            table.add(name, sweep(words), sweep([*words, *peer]), args.pairs)


def sweep(words: list[str]) -> Measure:
    """Seconds from start to exit, into an empty folder."""

    def measure() -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            command = [ATTNEXP, "sweep", *words, f"out={folder}"]
            subprocess.run(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
            )
            return {"sweep": time.perf_counter() - started}

    return measure


if __name__ == "__main__":
    main()
