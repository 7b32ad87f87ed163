"""Training and evaluation, ours beside peers, and what our switches do.

Every row is one process beside another, taking turns; a turn trains N batches of 32 synthetic
reviews (80 ids, of 20,000, as unevenly frequent as words) and evaluates as many. All see the same
ids. The network is K's: embedding 128 wide, 8 heads of 16, mean, dropout, one logit; Adam.

    python benchmarks/training.py
    python benchmarks/training.py --cores 1
    python benchmarks/training.py --keras-python /path/to/a/python/with/keras
"""

import argparse
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from _pairs import Table
from _turns import Worker

HERE = Path(__file__).parent

PEERS = {
    "the usual PyTorch": ["usual"],
    "fused attention, a tutorial's loop": ["sdpa"],
    "fused attention, our loop": ["sdpa_ours"],
}
SWITCHES = {
    "ours, malloc as glibc has it": ["ours", "--default-malloc"],
    "ours, 1 thread": ["ours", "--threads=1"],
    "ours, bf16": ["ours", "--precision=bf16"],
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=3, help="turns each (default 3)")
    parser.add_argument("--steps", type=int, default=50, help="batches a turn (default 50)")
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    parser.add_argument(
        "--keras-python",
        metavar="PATH",
        help="a Python that has keras; KERAS_BACKEND chooses its backend",
    )
    parser.add_argument(
        "--cores", type=int, help="let every process use only so many cores (Linux)"
    )
    args = parser.parse_args()
    if args.cores is not None:  # inherited
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-args.cores :])
    keras_python = args.keras_python
    if keras_python is None and importlib.util.find_spec("keras"):
        keras_python = sys.executable

    backend = os.environ.setdefault("KERAS_BACKEND", "tensorflow")  # inherited
    keras = f"K's script on Keras, {backend}"

    table = Table(f"Training and evaluation, {args.steps} batches a turn", "ours")
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "data.npz")
        write_reviews(data, n=32 * args.steps)
        torch_worker = [sys.executable, str(HERE / "_torch_worker.py")]
        commands = {name: [*torch_worker, *kind, data] for name, kind in (PEERS | SWITCHES).items()}
        if keras_python is not None:
            commands[keras] = [keras_python, str(HERE / "_keras_worker.py"), data]
        elif args.only in keras:
            table.skip(keras, "keras is not installed; see --keras-python")
        with Worker([*torch_worker, "ours", data]) as ours:
            for name, command in commands.items():
                if args.only in name:
                    with Worker(command) as peer:
                        table.add(name, ours, peer, args.pairs)


def write_reviews(path: str, *, n: int) -> None:
    """Ids whose frequency falls with their rank as words' does (Zipf); labels at random."""
    random = np.random.default_rng(0)
    frequency = 1 / np.arange(1, 20_000 - 3 + 1)
    ids = 3 + random.choice(len(frequency), size=(n, 80), p=frequency / frequency.sum())
    np.savez(path, ids=ids.astype(np.int32), labels=random.integers(0, 2, n, np.int8))


if __name__ == "__main__":
    main()
