"""A sweep whose seeds are added until it is decided: what is declared, taken, said and kept."""

import io
from pathlib import Path

import pytest
from conftest import Command, Json, Refused
from rich.console import Console
from samples import finished, of, only, pretend

from attnexp.analysis.comparison import compare
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.report import formats
from attnexp.runs import manifest
from attnexp.runs.manifest import Declaration
from attnexp.statistics.anytime import Decision, decide
from attnexp.statistics.verdict import Verdict
from attnexp.sweeps import preview
from attnexp.sweeps.plan import Sweep, plan
from attnexp.sweeps.schedule import Entry, run_sweep
from attnexp.sweeps.sequential import plan_until_decided, run_until_decided
from attnexp.sweeps.watch import Watch

STUDY = """
baseline: slow
variants:
  slow: [train.lr=1e-9]
  fast: [train.lr=3e-2]
  noisy: [train.lr=1e-9, model.heads=2]
overrides: [data=contrast, train.epochs=1]
"""
"""Two variants against a baseline can be decided from 8 seeds on, one alone from 7 on. What learns
is far better than what does not; the noisy variant is as bad as the baseline."""

pytestmark = pytest.mark.usefixtures("done")

TWO = "".join(line for line in STUDY.splitlines(keepends=True) if "noisy" not in line)


def sweep(
    tmp_path: Path,
    *words: str,
    max_seeds: int | None = 10,
    margin: float = 0.0025,
    study: str = STUDY,
) -> Sweep:
    (tmp_path / "mine.yaml").write_text(study)
    start = [f"study={tmp_path}/mine.yaml", f"out={tmp_path}", "executor.workers=1"]
    return plan_until_decided([*start, *words], max_seeds=max_seeds, margin=margin)


def seeds(entries: list[Entry]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for run in finished(entries):
        found.setdefault(run.label, []).append(run.result.seed)
    return found


def declared(folder: Path) -> dict[str, tuple[Verdict | None, int]]:
    """What a report of the study says is decided."""
    (study,) = only(manifest.load_runs([folder])).declared
    return {label: (found.verdict, found.n) for label, found in study.decisions.items()}


def test_an_open_variant_gets_more_seeds_and_the_budget_may_be_raised(tmp_path: Path) -> None:
    message: list[dict[str, Decision]] = []
    entries = run_until_decided(sweep(tmp_path), tell=message.append)
    assert seeds(entries) == {
        "slow": [*range(10)], "fast": [*range(8)], "noisy": [*range(10)]
    }  # fmt: skip
    assert [found["noisy"].n for found in message] == [8, 9, 10]
    decided = {"fast": (Verdict.helps, 8), "noisy": (None, 10)}
    assert declared(tmp_path / "mine") == decided
    text = formats.markdown(compare(manifest.load_runs([tmp_path / "mine"])))
    assert "95 %, anytime" in text
    assert message[-1]["noisy"].line in text

    more = sweep(tmp_path, max_seeds=11)
    dry = preview.preview_sweep(more)
    assert (dry["at_most"], len(dry["runs"])) == (True, 33)
    assert sum(run["finished"] for run in dry["runs"]) == 28
    run_until_decided(more)
    assert declared(tmp_path / "mine") == {"fast": (Verdict.helps, 8), "noisy": (None, 11)}
    study = manifest.load(tmp_path / "mine")
    assert study
    assert study.declaration == Declaration(metric="final", margin=0.0025, alpha=0.05, g=0.25)
    assert study.commands[-1].endswith("decided --margin 0.25 --max-seeds 11 --metric final")
    with pytest.raises(UserError, match="settings and data, which cannot change under way"):
        run_until_decided(sweep(tmp_path, "model.d_model=8"))
    with pytest.raises(UserError, match=r"--margin 0\.25, variants slow, fast, noisy"):
        run_until_decided(sweep(tmp_path, margin=0.01))

    # a sweep of so many seeds adds to the study, which is judged by all of them
    words = [f"study={tmp_path}/mine.yaml", f"out={tmp_path}", "executor.workers=1", "seed=9"]
    run_sweep(plan(words))
    assert declared(tmp_path / "mine")["fast"] == (Verdict.helps, 9)


def test_the_seeds_to_add_may_be_named(tmp_path: Path) -> None:
    words = ("seed=range(100,108)",)
    entries = run_until_decided(sweep(tmp_path, *words, max_seeds=None, study=TWO))
    assert seeds(entries)["fast"] == [*range(100, 107)]
    with pytest.raises(UserError, match="leave out --max-seeds"):
        sweep(tmp_path, "seed=range(100,108)")


def test_a_failed_run_stops_its_variant_until_the_command_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        pretend(patch, fails=lambda config: (config.seed, config.train.lr) == (2, 3e-2))
        entries = run_until_decided(sweep(tmp_path, study=TWO))
    assert seeds(entries)["fast"] == [0, 1, 3, 4, 5, 6]
    assert declared(tmp_path / "mine") == {"fast": (None, 6)}
    run_until_decided(sweep(tmp_path, study=TWO))
    assert declared(tmp_path / "mine") == {"fast": (Verdict.helps, 7)}


@pytest.mark.parametrize(
    ("words", "max_seeds", "message"),
    [
        (["seed=range(5)"], None, "With 5 seeds nothing can be decided"),
        (["seeds.init=0,1"], 9, r"seeds\.\* one value"),
        (["model.d_model=8,16,24"], 8, "decided of 8 variants: 10 are the fewest"),
        (["data.max_len=10,20"], 9, "other data or another protocol"),
        (["train=blog,holdout"], 9, "other data or another protocol"),
    ],
)
def test_what_cannot_be_decided_so_is_reported(
    tmp_path: Path, words: list[str], max_seeds: int | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        sweep(tmp_path, *words, max_seeds=max_seeds)


def test_the_metric_is_a_point_of_the_protocol(tmp_path: Path) -> None:
    words = ["data=contrast", "position=none,sinusoidal", f"out={tmp_path}"]

    def metric(*more: str, metric: str | None = None) -> str:
        planned = plan_until_decided([*words, *more], max_seeds=7, margin=0.0025, metric=metric)
        assert planned.declaration
        return planned.declaration.metric

    assert metric() == "final"
    assert metric(metric="best") == "best"
    assert metric("train=holdout") == "chosen"
    with pytest.raises(UserError, match="--metric best: choose one of chosen, final"):
        metric("train=holdout", metric="best")
    with pytest.raises(UserError, match="compares variants; got one"):
        plan_until_decided(["data=contrast"], margin=0.0025)


def test_the_command_says_how_it_stands_and_the_report_what_was_decided(
    here: Command, here_json: Json, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(TWO)
    words = [f"study={tmp_path}/mine.yaml", f"out={tmp_path}", "executor.workers=1"]
    words = ["sweep", *words, "--until", "decided", "--max-seeds", "9"]
    swept = here(*words)
    assert "\nfast: helps by at least 0.25 points: +" in swept.stderr
    tables, _, _ = swept.stdout.rpartition("\nResults: ")
    assert max(map(len, tables.splitlines())) <= 80
    assert "fast against slow, final, declared: helps by at least 0.25 points: " in " ".join(
        tables.split()
    )
    (comparison,) = here_json(*words)["comparisons"]
    (study,) = comparison["declared"]
    assert study["decisions"]["fast"]["verdict"] == "helps"
    assert study["declaration"]["metric"] == "final"
    assert "cannot change under way" in refused(*words, "--metric", "best")


def test_the_live_table_has_what_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=100)
    monkeypatch.setattr(progress, "console", console)
    view = Watch()
    for n in (8, 8, 9):
        d = {"open": [0.01, -0.004] * 4 + [0.01] * (n - 8), "clear": [0.01] * 8}
        view.look(decide({name: of(each) for name, each in d.items()}))
    console.print(view.table([]))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split()[0] for line in lines] == ["open:", "clear:", "open:", "0", "open:"]
    assert lines[1].startswith("clear: helps by at least 0.25 points: +1.00 points [")
    assert sum(line.startswith("clear") for line in lines) == 1
    assert lines[-1].startswith("open: open: +0.38 points [")
