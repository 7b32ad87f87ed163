"""A sweep whose seeds are added until it is decided: what is declared, done and told."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweeping import Pretend, finished

from attnexp.analysis.families import difference
from attnexp.base.errors import UserError
from attnexp.runs import manifest
from attnexp.runs.manifest import Declaration
from attnexp.runs.result import Run
from attnexp.sweeps import sequential
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import SweepEntry, run_sweep
from attnexp.sweeps.sequential import plan_until_decided, rounds

STUDY = """
baseline: slow
variants:
  slow: [train.lr=1e-9]
  fast: [train.lr=3e-2]
  noisy: [train.lr=1e-9, model.heads=2]
overrides: [data=contrast, train.epochs=2]
"""
"""What learns is far better than what does not; the noisy variant is as bad as the baseline."""


def sweep(tmp_path: Path, *words: str) -> Sweep:
    (tmp_path / "mine.yaml").write_text(STUDY)
    start = [f"study={tmp_path}/mine.yaml", f"out={tmp_path}", "executor.workers=1"]
    return plan_until_decided([*start, *(words or ["seed=range(12)"])], margin=0.0025)


def seeds(planned: Sweep) -> dict[str, int]:
    """Number of seeds of each variant, when the sweep has ended."""
    entries = run_sweep(planned, choose=partial(rounds, planned))
    return Counter(run.label for run in finished(entries))


@pytest.mark.usefixtures("done")
def test_what_is_clear_ends_and_what_is_open_gets_more_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the statistics of today."""
    assert seeds(sweep(tmp_path, "seed=range(9)")) == {"slow": 9, "noisy": 9, "fast": 8}
    assert capsys.readouterr().err.count("fast − slow, 8 seeds: helps") == 2
    study = manifest.load_manifest(tmp_path / "mine")
    assert study is not None
    assert study.declaration == Declaration(metric="final", margin=0.0025, alpha=0.05, g=0.25)
    assert Counter(run.variant for run in study.runs) == {"slow": 9, "noisy": 9, "fast": 8}
    assert study.commands[-1].endswith("'seed=range(9)' --until decided --margin 0.25")
    more = sweep(tmp_path, "seed=range(10)")  # the budget may be raised
    assert seeds(more) == {"slow": 10, "noisy": 10, "fast": 8}


@pytest.mark.parametrize(
    ("slots", "failing_rate", "num_seeds"),
    [
        (7, None, {"slow": 10, "noisy": 10, "fast": 10}),  # two at a time: 8, then 10
        (1, 3e-2, {"slow": 9, "noisy": 9, "fast": 7}),  # a failed run stops its variant
        (1, 1e-9, {"slow": 7, "noisy": 7, "fast": 8}),  # and that of the baseline all
    ],
)
def test_seeds_fill_the_executor_and_a_failed_run_gets_no_more(
    tmp_path: Path,
    pretend: Pretend,
    monkeypatch: pytest.MonkeyPatch,
    slots: int,
    failing_rate: float | None,
    num_seeds: dict[str, int],
) -> None:
    def judge(sweep: Sweep, entries: Sequence[SweepEntry]) -> list[SimpleNamespace]:
        """Every variant is decided at nine seeds."""
        counts = Counter(entry.job.label for entry in entries if isinstance(entry.outcome, Run))
        rows = []
        for variant, n in counts.items():
            word = "undecided" if n < 9 else "helps"
            interval = SimpleNamespace(n=n)
            contrast = difference(variant, "slow")
            row = {"contrast": contrast, "interval": interval, "verdict": word, "words": word}
            rows.append(SimpleNamespace(**row))
        return rows

    monkeypatch.setattr(sequential, "judge", judge)
    monkeypatch.setattr(sequential, "num_slots", lambda *_: slots)
    pretend(fails=lambda config: (config.train.lr, config.seed) == (failing_rate, 2))
    assert seeds(sweep(tmp_path)) == num_seeds


def test_it_ends_where_every_variant_failed(tmp_path: Path, pretend: Pretend) -> None:
    pretend(fails=lambda config: config.train.lr > 1e-9 or config.model.heads == 2)
    assert seeds(sweep(tmp_path)) == {"slow": 8}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["seed=range(5)"], "With 5 seeds nothing can be decided; 8 are the fewest"),
        (["seeds.init=3"], "by seed= alone"),
        (["train=blog,holdout"], "one data set with one protocol"),
    ],
)
def test_what_cannot_be_decided_so_is_reported(
    tmp_path: Path, words: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        sweep(tmp_path, *words)


def test_the_endpoint_is_the_first_of_the_protocol_and_the_budget_64_seeds() -> None:
    with pytest.raises(UserError, match="--until decided compares variants"):
        plan_until_decided(["data=contrast"], margin=0.01)
    words = ["data=contrast", "position=none,sinusoidal", "train=holdout"]
    planned = plan_until_decided(words, margin=0.01)
    assert planned.declaration == Declaration(metric="chosen", margin=0.01)
    assert len(planned.jobs) == 128
