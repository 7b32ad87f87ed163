"""Whatever is given, the outcome is right or one message: no third. Seeded, so that a case repeats.

What came out of each is printed (`pytest -m slow -s tests/test_fuzz.py`) for docs/reliability.md.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from conftest import Command
from samples import each, write_archive, write_csv, write_folder, write_jsonl, write_parquet
from typer.testing import CliRunner

from attnexp.base import memory
from attnexp.base.errors import UserError
from attnexp.cli import app
from attnexp.config.compose import compose, overlay
from attnexp.config.options import groups
from attnexp.config.schema import DataConfig, DataName, RunConfig, flatten, to_dict
from attnexp.data import encode, hub
from attnexp.data.vectors import load_vectors
from attnexp.model.classifier import build_model
from attnexp.training.run import train_run

pytestmark = pytest.mark.trial

RIGHT, TOLD = "right", "said"


class Outcomes:
    """What became of trials."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.third: list[str] = []

    @contextmanager
    def trial(self, case: object) -> Iterator[None]:
        """Count a trial as right, unless it raises `UserError` or what it must not."""
        try:
            yield
        except UserError:
            self.counts[TOLD] += 1
        except Exception as error:  # the third outcome
            self.third.append(f"{case}: {type(error).__name__}: {error}"[:500])
        else:
            self.counts[RIGHT] += 1

    def check(self, what: str, least: int) -> None:
        """There was no third outcome in at least so many trials."""
        print(f"\n{what}: {self.counts.total()} trials, {dict(self.counts)}")
        assert not self.third, "\n".join(self.third[:20])
        assert self.counts.total() >= least
        assert min(self.counts[RIGHT], self.counts[TOLD]) > 0


# Settings.

INTEGERS = "0 1 2 3 4 7 16 33 -1 1000000000000 1000000000000000000000000000000".split()
OTHERS = "0.5 1e-3 1e20 nan inf -inf null true false abc '' [1,2] {a:1} ${seed} 1,2".split()
SMALL = ["data=contrast", "data.max_len=9", "data.vocab_size=30", "model.d_model=8"]
NO_CHOICE = ("study", "executor", "experiment", "data")


def random_choices(random: Random) -> list[str]:
    """A few choices among the files of `conf/`."""
    return [
        f"{group}={random.choice(groups()[group])}"
        for group in random.sample(list(groups()), random.randint(0, 4))
        if group not in NO_CHOICE
    ]


def random_settings(random: Random, keys: list[str]) -> list[str]:
    """One to three settings, often out of their bounds."""
    kinds = [INTEGERS, INTEGERS, OTHERS]
    chosen = random.sample([*keys, "mask.radius"], random.randint(1, 3))
    return [f"{key}={random.choice(random.choice(kinds))}" for key in chosen]


def works(config: RunConfig) -> None:
    if config.is_network:
        model = build_model(config).eval()
        memory.check(2 * 4 * config.data.max_len, "Two texts as ids")  # as where texts are encoded
        with torch.inference_mode():
            ids = torch.ones(2, config.data.max_len, dtype=torch.int32)
            assert model(ids).shape == (2,)


def test_configs() -> None:
    """Choices as words, and what they compose with settings anew, as where a run is stored."""
    random, outcomes = Random(0), Outcomes()
    stored = to_dict(compose(SMALL))
    while outcomes.counts.total() < 2000 and not outcomes.third:
        words = random_choices(random)
        with outcomes.trial(words):
            config = compose([*SMALL, *words])
            works(config)
            stored = to_dict(config)
        for _ in range(4):
            settings = random_settings(random, [*flatten(stored)])
            with outcomes.trial((words, settings)):
                works(overlay(stored, settings))
    outcomes.check("configs", 2000)


def random_override(random: Random) -> str:
    """A word: half of them values of other kinds, half characters that mean something to Hydra,
    YAML or a shell."""
    keys = [*flatten(to_dict(compose([]))), *groups()]
    if random.random() < 0.5:
        return f"{random.choice(keys)}={random.choice([*INTEGERS, *OTHERS])}"
    start, sign = random.choice(["", "", "+", "~"]), random.choice("===:. ")
    value = "".join(random.choices("ab01.,:=[]{}()'\"\\$*~+-@ é\n\t", k=random.randint(0, 6)))
    return start + random.choice([*keys, "nonsense", ""]) + sign + value


def one_message(command: str, code: int, stderr: str) -> str:
    """The outcome of a command. Raises `AssertionError` for a third."""
    assert "Traceback" not in stderr, f"{command}: {stderr[-300:]}"
    assert code in (0, 1, 2), f"{command}: exit {code}"
    assert (code == 0) or stderr.strip(), f"{command}: exit {code} without a word"
    return RIGHT if code == 0 else TOLD


def in_process(*words: str) -> tuple[int, str]:
    """Exit code and stderr of the command line, called here."""
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return done.exit_code, f"Traceback: {done.exception!r}"
    return done.exit_code, done.stderr


def test_overrides(attnexp: Command) -> None:
    random, counts = Random(1), Counter[str]()
    for i in range(240):
        word = random_override(random)
        if i % 10:
            code, stderr = in_process("config", "--", word)
        else:
            done = attnexp("config", "--", word)
            code, stderr = done.returncode, done.stderr
        counts[one_message(word, code, stderr)] += 1
    print(f"\noverrides: {counts.total()} trials, {dict(counts)}")
    assert min(counts.values()) > 0


# Files.


def mutated(content: bytes, random: Random) -> bytes:
    """Content with one thing wrong."""
    if not content:
        return random.randbytes(3)
    at, size = random.randrange(len(content)), random.choice([1, 3, 16, 400])
    match random.randrange(7):
        case 0:
            return (
                content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :]
            )
        case 1:
            return content[:at]
        case 2:
            return content[:at] + content[at + size :]
        case 3:
            return content[:at] + random.randbytes(size) + content[at:]
        case 4:
            return content[:at] + content[at : at + size] * 2 + content[at + size :]
        case 5:
            return content[:at] + bytes(size) + content[at + size :]
        case _:
            return content[:at] + random.randbytes(size) + content[at + size :]


def rewrite(path: Path, random: Random) -> None:
    path.write_bytes(mutated(path.read_bytes(), random))


def mutate_a_file(home: Path, random: Random) -> None:
    rewrite(random.choice(sorted(path for path in home.rglob("*") if path.is_file())), random)


Mutate = Callable[[Path, Random], None]
FORMATS: dict[str, tuple[int, Callable[[Path], Path], Mutate]] = {
    "tar.gz": (150, lambda tmp: write_archive(tmp / "a.tar.gz"), rewrite),
    "folder": (150, write_folder, mutate_a_file),
    "parquet": (150, lambda tmp: write_parquet(tmp / "imdb"), mutate_a_file),
    "csv": (250, each("{}.csv", write_csv), mutate_a_file),
    "jsonl": (250, each("{}.jsonl", write_jsonl), mutate_a_file),
    "jsonl.gz": (150, each("{}.jsonl.gz", write_jsonl), mutate_a_file),
    "csv.zst": (150, each("{}.csv.zst", write_csv), mutate_a_file),
}


@pytest.mark.parametrize("form", FORMATS)
def test_reviews_in_files(tmp_path: Path, form: str) -> None:
    trials, write, mutate = FORMATS[form]
    random, outcomes = Random(form), Outcomes()
    for i in range(trials):
        home = tmp_path / str(i)
        home.mkdir()
        path = write(home)
        mutate(path, random)
        with outcomes.trial(f"{form} {i}"):
            dataset = encode.load(DataConfig(name=DataName.files, path=str(path), max_len=4))
            assert dataset.train.ids.shape == (len(dataset.train.labels), 4)
        shutil.rmtree(home)
    outcomes.check(form, trials)


@pytest.mark.usefixtures("_own_cache")
def test_the_cache_heals(tmp_path: Path) -> None:
    random = Random(2)
    path = write_parquet(tmp_path / "imdb")
    config = DataConfig(name=DataName.files, path=str(path), max_len=4)
    fingerprint = encode.load(config).fingerprint
    (cached,) = (tmp_path / "cache").glob("*.npz")
    whole = cached.read_bytes()
    for _ in range(150):
        cached.write_bytes(mutated(whole, random))
        assert encode.load(config).fingerprint == fingerprint
    print("\ncache: 150 trials, all right")


def test_the_hubs_cache(tmp_path: Path) -> None:
    random, outcomes = Random(3), Outcomes()
    for i in range(60):
        home = write_parquet(tmp_path / str(i) / "snapshots" / "commit")
        mutate_a_file(home, random)
        with outcomes.trial(i):
            assert set(hub.tables(home)) >= {"train", "test"}
    outcomes.check("hub cache", 60)


def test_vectors(tmp_path: Path) -> None:
    random, outcomes = Random(4), Outcomes()
    path = tmp_path / "vectors.txt"
    lines = [f"word{i} {i / 7:.4f} -{i} 1e-3" for i in range(40)]
    for i in range(150):
        path.write_bytes(mutated("\n".join(lines).encode() + b"\n", random))
        with outcomes.trial(i):
            found = load_vectors(str(path), [f"word{i}" for i in range(40)], 3)
            assert found.rows.shape == (40, 3)
    outcomes.check("vectors", 150)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run."""
    out = tmp_path_factory.mktemp("out")
    words = ["experiment=smoke", "data.limit_train=64", "data.limit_test=64", "train.epochs=1"]
    return train_run(compose([*words, f"out={out}"]))[0]


RUN_FILES = """config.yaml overrides.yaml metrics.jsonl result.json model.safetensors
predictions.safetensors vocabulary.txt run.log""".split()


@pytest.mark.parametrize("name", RUN_FILES)
def test_files_of_a_run(finished: Path, tmp_path: Path, name: str) -> None:
    random, counts = Random(name), Counter[str]()
    for i in range(40):
        path = tmp_path / f"{i}" / "runs" / finished.name
        shutil.copytree(finished, path)
        rewrite(path / name, random)
        for words in (["report", str(path.parents[1])], ["evaluate", str(path)]):
            counts[one_message(f"{words[0]} with {name} {i}", *in_process(*words))] += 1
        shutil.rmtree(path.parents[1])
    print(f"\n{name}: {counts.total()} trials, {dict(counts)}")


SCRAPS: list[Any] = [None, [], {}, "", "x", -1, 0, 1.5, 10**30, float("nan"), True, [[[]]],
                     {"a": 1}]  # fmt: skip


def test_values_of_a_result(finished: Path, tmp_path: Path) -> None:
    """A result that is good JSON, with one value of another kind, or without it."""
    random, counts = Random(5), Counter[str]()
    content = (finished / "result.json").read_text()
    for i in range(200):
        path = tmp_path / f"{i}" / "runs" / finished.name
        shutil.copytree(finished, path)
        tree = json.loads(content)
        branch = tree
        while True:
            key = random.choice(list(branch) if isinstance(branch, dict) else range(len(branch)))
            if not (isinstance(branch[key], dict | list) and branch[key]) or random.random() < 0.2:
                break
            branch = branch[key]
        if random.random() < 0.2:
            del branch[key]
        else:
            branch[key] = random.choice(SCRAPS)
        (path / "result.json").write_text(json.dumps(tree))
        for words in (["report", str(path.parents[1])], ["evaluate", str(path)]):
            case = f"{words[0]} with {key} {str(branch)[:200]}"
            counts[one_message(case, *in_process(*words))] += 1
        shutil.rmtree(path.parents[1])
    print(f"\nvalues of result.json: {counts.total()} trials, {dict(counts)}")
