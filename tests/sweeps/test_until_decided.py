"""A sweep whose seeds are added until it is decided: what is declared, done and told."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from sweeping import Pretend, finished

from attnexp.base.errors import UserError
from attnexp.runs import manifest
from attnexp.runs.manifest import Declaration
from attnexp.runs.result import Run
from attnexp.sweeps import sequential
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import Entry, run_sweep
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


def run(planned: Sweep, told: Callable[[pd.DataFrame], None] = print) -> list[Entry]:
    return run_sweep(planned, choose=partial(rounds, planned, told))


def seeds(entries: list[Entry]) -> dict[str, int]:
    """Number of seeds of each variant."""
    return Counter(run.label for run in finished(entries))


@pytest.mark.usefixtures("done")
def test_what_is_clear_ends_and_what_is_open_gets_more_seeds(tmp_path: Path) -> None:
    """With the statistics of today."""
    planned = sweep(tmp_path)
    told = list[pd.DataFrame]()
    entries = run(planned, told.append)
    found = seeds(entries)
    assert found["slow"] == found["noisy"] == 12
    assert found["fast"] == 8
    assert len(told) == 5
    assert "fast" in [*told[0]["variant"]]
    study = manifest.load(tmp_path / "mine")
    assert study is not None
    assert study.declaration == Declaration(metric="final", margin=0.0025, alpha=0.05, g=0.25)
    assert Counter(run.variant for run in study.runs) == found
    assert study.commands[-1].endswith("'seed=range(12)' --until decided --margin 0.25")

    more = sweep(tmp_path, "seed=range(13)")  # the budget may be raised
    assert seeds(run(more)) == {"slow": 13, "noisy": 13, "fast": 8}
    other = sweep(tmp_path, "model.d_model=8", "seed=range(12)")
    with pytest.raises(UserError, match="cannot change"):
        run(other)


@pytest.fixture
def decided_at_9(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics by which every variant is decided at nine seeds."""

    def judge(runs: Sequence[Run], declaration: Declaration) -> pd.DataFrame:
        counts = Counter(run.label for run in runs)
        verdicts = ["undecided" if n < 9 else "helps" for n in counts.values()]
        return pd.DataFrame({"variant": [*counts], "verdict": verdicts})

    monkeypatch.setattr(sequential, "judge", judge)


@pytest.mark.usefixtures("decided_at_9", "done")
def test_seeds_are_added_as_many_as_fill_the_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two open variants and the baseline seven runs at a time take two seeds: 8, then 10."""
    monkeypatch.setattr(sequential, "num_slots", lambda *_: 7)
    planned = sweep(tmp_path, "seed=range(100,130)")
    entries = run(planned)
    assert {run.result.seed for run in finished(entries)} == {*range(100, 110)}


@pytest.mark.usefixtures("decided_at_9")
@pytest.mark.parametrize(
    ("lr", "found"),
    [(3e-2, {"slow": 9, "noisy": 9, "fast": 7}), (1e-9, {"slow": 7, "noisy": 7, "fast": 8})],
)
def test_a_failed_run_stops_its_variant_and_that_of_the_baseline_all(
    tmp_path: Path, pretend: Pretend, lr: float, found: dict[str, int]
) -> None:
    pretend(fails=lambda config: (config.train.lr, config.seed) == (lr, 2))
    planned = sweep(tmp_path)
    assert seeds(run(planned)) == found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["seed=range(5)"], "With 5 seeds nothing can be decided; 8 are the fewest"),
        (["seeds.init=0,1"], "by seed= alone"),
        (["data.max_len=10,20"], "one data set with one protocol"),
        (["train=blog,holdout"], "one data set with one protocol"),
    ],
)
def test_what_cannot_be_decided_so_is_reported(
    tmp_path: Path, words: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        sweep(tmp_path, *words)


def test_the_endpoint_is_the_first_of_the_protocol_and_the_budget_64_seeds(tmp_path: Path) -> None:
    words = ["data=contrast", "position=none,sinusoidal", f"out={tmp_path}"]
    planned = plan_until_decided([*words, "train=holdout"], margin=0.01)
    assert planned.declaration is not None
    assert (planned.declaration.metric, planned.declaration.margin) == ("chosen", 0.01)
    assert len(planned.jobs) == 128
    with pytest.raises(UserError, match="compares variants"):
        plan_until_decided(["data=contrast"], margin=0.0025)
