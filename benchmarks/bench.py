"""Measure everything that benchmarks/README.md shows: attnexp beside its peers (Linux).

Rows take turns within a round, so that all meet the same load, and every figure is a ratio within a
round. A section is written as soon as it is done, to results.json and from there into the tables of
README.md. None of this is a test: no timing makes anything fail.

    make bench                       generated reviews
    make bench DATA=PATH             IMDB, in any form that data.path takes
    make bench ONLY="study start"    these sections
    python benchmarks/bench.py --tables
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from _machine import Others, cpu
from _reviews import generate
from _tables import better, write_tables
from _turns import Answer, Broken, Row, Tables, Team, Turn, on_cores, say, take_turns
from numpy.typing import NDArray

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.data import encode
from attnexp.training import device

HERE = Path(__file__).parent
ATTNEXP = str(Path(sys.executable).with_name("attnexp"))
TORCH = [sys.executable, str(HERE / "_torch_worker.py")]

OURS, KERAS = "ours", "K's script, Keras on TensorFlow"
BOTH, EACH = "one process on all cores", "a process a core"

TAB = ("_ATTNEXP_COMPLETE=complete_bash", "COMP_WORDS=attnexp\ntrain\nposi", "COMP_CWORD=2")
"""Environment in which bash asks a program for completions."""

NUM_OPERATIONS = 10
"""Number of operations shown by name."""

Splits = Mapping[str, tuple[NDArray[np.int32], NDArray[np.integer]]]
"""Token ids (n, T) and labels (n,) of `train` and `val`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """Settings and data that every section gets."""

    cores: list[int]
    rounds: int
    reviews: int
    keras: list[str]
    """Command of the Keras worker."""
    words: list[str]
    """Overrides that name the data."""
    splits: Splits
    """Encoded data."""
    scratch: Path
    results: Mapping[str, Any]
    """Results of sections measured before."""

    def save(self, splits: Splits) -> str:
        """Write splits to a file that workers read; returns its path."""
        with tempfile.NamedTemporaryFile(dir=self.scratch, suffix=".npz", delete=False) as file:
            (train_ids, train_labels), (val_ids, val_labels) = splits["train"], splits["val"]
            np.savez(
                file,
                train_ids=train_ids,
                train_labels=train_labels,
                val_ids=val_ids,
                val_labels=val_labels,
            )
        return file.name

    def arrangement(self, row: str) -> str:
        """The arrangement in which a row is fastest, from the section `training`."""
        tables: Tables = self.results.get("training", {}).get("tables", {})
        return better(tables)[row][0] if row in better(tables) else EACH


def training(bench: Bench) -> Tables:
    """Time an epoch of training and validation; batch 32, 80 tokens, Adam, fp32."""
    random = np.random.default_rng(0)
    chosen = {}
    for split, (ids, labels) in bench.splits.items():
        rows = random.permutation(len(labels))[: bench.reviews]
        chosen[split] = ids[rows], labels[rows]
    data = bench.save(chosen)
    commands = {
        OURS: [*TORCH, "ours", data],
        "ours, train.fast=false": [*TORCH, "ours", data, "train.fast=false"],
        "fused attention in our loop": [*TORCH, "fused", data],
        "the usual PyTorch": [*TORCH, "usual", data],
        KERAS: [*bench.keras, data],
        "K's script, Keras on JAX": [*bench.keras, data, "--backend=jax"],
    }
    arrangements = {BOTH: [bench.cores], EACH: [[core] for core in bench.cores]}
    with ExitStack() as stack:
        teams: dict[str, dict[str, Turn]] = {
            title: {
                name: stack.enter_context(Team(command, cores))
                for name, command in commands.items()
            }
            for title, cores in arrangements.items()
        }
        return take_turns(teams, bench.rounds)


def operations(bench: Bench) -> Tables:
    """Time the operations of an epoch of training with torch's profiler; one thread."""
    ids, labels = bench.splits["train"]
    few = {"train": bench.reviews, "val": 1}
    data = bench.save({split: (ids[:n], labels[:n]) for split, n in few.items()})
    with Team([*TORCH, "profile", data], [bench.cores[:1]]) as team:
        rounds = [team()["seconds"] for _ in range(bench.rounds + 1)][1:]
    by_operation = pd.DataFrame(rounds).fillna(0.0)  # a row a round; an operation may be absent
    whole = by_operation.sum(axis=1)
    largest = by_operation[list(rounds[0])].sum().nlargest(NUM_OPERATIONS).index
    shown = {"all": whole}
    shown |= {f"`{name}`": by_operation[name] for name in largest}
    shown["the rest"] = whole - by_operation[largest].sum(axis=1)
    rows: dict[str, Row] = {}
    for name, seconds in shown.items():
        rows[name] = {"seconds": {"share": seconds.tolist()}, "figures": {}}
    return {"": rows}


def study(bench: Bench) -> Tables:
    """Time K's whole comparison, from start to exit: 2 variants x 4 seeds x 2 epochs."""
    words = ["study=blog_scaled", "seed=range(4)", "train.epochs=2", *bench.words]
    if bench.arrangement(OURS) == BOTH:
        words.append("executor.workers=1")
    data = bench.save(bench.splits)
    scripts = [
        [*bench.keras, data, "--epochs=2", f"--seed={seed}", *positions]
        for positions in ([], ["--positions"])
        for seed in range(4)
    ]
    one_place = bench.arrangement(KERAS) == BOTH
    places = [bench.cores] if one_place else [[core] for core in bench.cores]

    def ours() -> Answer:
        with tempfile.TemporaryDirectory() as out:
            seconds = timed([ATTNEXP, "sweep", *words, f"out={out}"])
            finished = [json.loads(f.read_text()) for f in Path(out).glob("runs/*/result.json")]
        assert len(finished) == len(scripts)
        accuracy = statistics.fmean(result["final"]["val_accuracy"] for result in finished)
        return {"seconds": {"study": seconds}, "figures": {"accuracy": accuracy}}

    def keras() -> Answer:
        def work(index: int) -> list[float]:
            """Accuracies of the scripts that run on one set of cores, one after another."""
            return [
                json.loads(finish(on_cores(script, places[index])))["figures"]["accuracy"]
                for script in scripts[index :: len(places)]
            ]

        started = time.perf_counter()
        with ThreadPoolExecutor() as pool:
            accuracy = statistics.fmean(chain.from_iterable(pool.map(work, range(len(places)))))
        seconds = time.perf_counter() - started
        return {"seconds": {"study": seconds}, "figures": {"accuracy": accuracy}}

    # Minutes a turn, of which an epoch is one of 16: once says enough.
    return take_turns({"": {OURS: ours, KERAS: keras}}, rounds=1, warm_up=0)


def start(bench: Bench) -> Tables:
    """Time whole processes, from start to exit or to the first step."""
    words = [*bench.words, "data.limit_train=32", "data.limit_test=32", "train.epochs=1"]

    def first_step() -> Answer:
        """Time until a batch is trained, one is validated, and the metrics of both are on disk."""
        with tempfile.TemporaryDirectory() as out:
            started = time.time()
            finish([ATTNEXP, "train", *words, f"out={out}"])
            (metrics,) = Path(out).glob("runs/*/metrics.jsonl")
            return {"seconds": {"process": metrics.stat().st_mtime - started}, "figures": {}}

    def process(*command: str) -> Turn:
        return lambda: {"seconds": {"process": timed(command)}, "figures": {}}

    turns = {
        '`python -c "import torch"`': process(sys.executable, "-c", "import torch"),
        "`attnexp train`, to the first step": first_step,
        "`attnexp --help`": process(ATTNEXP, "--help"),
        "TAB after `attnexp train posi`": process("env", *TAB, ATTNEXP),
        "`attnexp config`": process(ATTNEXP, "config"),
        "`python -c pass`": process(sys.executable, "-c", "pass"),
    }
    return take_turns({"": turns}, bench.rounds)


def window(bench: Bench) -> Tables:
    """Time training on 2 reviews of n tokens a step: attention within 32 tokens, and full."""
    kinds = {
        "mask=window mask.radius=32": ["mask=window", "mask.radius=32"],
        "full": [],
        "full, train.fast=false": ["train.fast=false"],
    }
    tables: Tables = {}
    for n in (512, 2048, 4096):
        sizes = {"train": 2 * 4096 // n, "val": 2}
        data = bench.save(
            {
                split: (ids.reshape(-1)[: sizes[split] * n].reshape(-1, n), labels[: sizes[split]])
                for split, (ids, labels) in bench.splits.items()
            }
        )
        with ExitStack() as stack:
            teams: dict[str, Turn] = {
                name: stack.enter_context(
                    Team([*TORCH, "ours", data, "train.batch_size=2", *words], [bench.cores])
                )
                for name, words in kinds.items()
            }
            tables |= take_turns({f"n = {n:,}": teams}, bench.rounds)
    return tables


SECTIONS: dict[str, Callable[[Bench], Tables]] = {
    section.__name__: section for section in (training, operations, study, start, window)
}


def main() -> None:
    """Run the sections; write results.json and the tables."""
    args = parse_arguments()
    results_file = args.into / "results.json"
    readme = args.into / "README.md"
    results = json.loads(results_file.read_text()) if results_file.exists() else {}
    if args.tables:
        write_tables(readme, results)
        return
    cores = sorted(os.sched_getaffinity(0))[: args.cores]
    os.sched_setaffinity(0, cores)  # and with it all that is started
    origin = device.describe_provenance(torch.device("cpu")) | {"threads": len(cores), "cpu": cpu()}
    del origin["argv"]  # paths of this machine
    with tempfile.TemporaryDirectory() as scratch:
        bench, data = prepare(args, cores, Path(scratch), results)
        origin |= {"reviews": args.reviews, "data": data}
        for name in args.only:
            say(f"{name}: {SECTIONS[name].__doc__}")
            others = Others(cores)
            tables = SECTIONS[name](bench)
            machine = {"load": round(others.load, 2), "others": round(others.cores_taken(), 2)}
            results[name] = {**origin, **machine, "tables": tables}
            say(f"  other processes took {machine['others']} cores meanwhile")
            results_file.write_text(json.dumps(results, indent=1) + "\n")
            write_tables(readme, results)
    say(f"written: {results_file} and the tables of {readme}")


def parse_arguments() -> argparse.Namespace:
    """The words of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=os.environ.get("ATTNEXP_IMDB"), help="as data.path")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--tables", action="store_true", help="measure nothing, write tables again")
    parser.add_argument("--rounds", type=int, default=5, help="that count, after one that does not")
    parser.add_argument("--reviews", type=int, default=3200, help="of a split in an epoch (3200)")
    parser.add_argument("--cores", type=int, default=2, help="how many to use (2)")
    parser.add_argument("--keras", type=Path, default=HERE.parent / ".venv-keras/bin/python")
    parser.add_argument("--into", type=Path, default=HERE, help="where results.json and README are")
    return parser.parse_args()


def prepare(
    args: argparse.Namespace, cores: list[int], scratch: Path, results: Mapping[str, Any]
) -> tuple[Bench, str]:
    """What every section gets, and a line about the data; they are generated if none are named."""
    path = args.data
    if path is None:
        path = scratch / "reviews"
        path.mkdir()
        generate(path, n=25_000)
    words = ["data=files", f"data.path={Path(path).absolute()}"]
    dataset = encode.load_dataset(compose(words).data)
    bench = Bench(
        cores=cores,
        rounds=args.rounds,
        reviews=args.reviews,
        keras=[str(args.keras), str(HERE / "_keras_worker.py")],
        words=words,
        splits={
            "train": (dataset.train.ids, dataset.train.labels),
            "val": (dataset.test.ids, dataset.test.labels),
        },
        scratch=scratch,
        results=results,
    )
    name = Path(args.data).name if args.data else "generated"
    sizes = f"{len(dataset.train.labels):,} + {len(dataset.test.labels):,} reviews"
    return bench, f"{sizes}, {name} ({dataset.fingerprint})"


def timed(command: Sequence[str]) -> float:
    """Seconds from start to exit."""
    started = time.perf_counter()
    finish(command)
    return time.perf_counter() - started


def finish(command: Sequence[str]) -> str:
    """Standard output of a command. Raises `Broken` if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Broken(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")
    return done.stdout


if __name__ == "__main__":
    try:
        main()
    except (Broken, UserError) as error:
        sys.exit(f"bench: {error}")
