"""A sweep whose seeds are added until it is decided: what is declared, taken, said and kept."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Command, Refused
from rich.console import Console
from samples import fail_with, finished, on_a_terminal, only, result

from attnexp.analysis.comparison import compare
from attnexp.base import progress
from attnexp.base.errors import RunFailed, UserError
from attnexp.report import formats
from attnexp.report.html import page
from attnexp.runs import manifest
from attnexp.runs.declaration import Declaration
from attnexp.runs.result import Run
from attnexp.statistics.sequential import Design, chances, decide, design
from attnexp.statistics.verdict import Verdict
from attnexp.sweeps import preview
from attnexp.sweeps.plan import Sweep, plan
from attnexp.sweeps.schedule import Entry, run_sweep
from attnexp.sweeps.sequential import InterimResult, plan_until_decided, run_until_decided
from attnexp.sweeps.watch import Watch

STUDY = """
baseline: slow
variants:
  slow: [train.lr=1e-9]
  fast: [train.lr=3e-2]
  twin: [train.lr=1e-9]
overrides: [data=contrast, data.order_fraction=0, data.limit_train=256, data.limit_test=128,
  model.d_model=16, train.epochs=1, train.threads=1]
"""
"""Words tell the label, so what learns is far better than what does not. With 8 seeds and looks at
6, 7 and 8, the twin can be shown to be one at 6, the fast one at 7: at 6 of two variants each may
spend 206 rows of signs of 10,000, and 312 reach as far as all of one sign."""

DECIDED = {"fast": (Verdict.helps, 7), "twin": (Verdict.equivalent, 6)}


def sweep(tmp_path: Path, *words: str, max_seeds: int = 8, margin: float = 0.0025) -> Sweep:
    (tmp_path / "mine.yaml").write_text(STUDY)
    start = [f"study={tmp_path}/mine.yaml", f"out={tmp_path}", "executor.workers=1"]
    return plan_until_decided([*start, *words], max_seeds=max_seeds, margin=margin)


def seeds(entries: list[Entry]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for run in finished(entries):
        found.setdefault(run.label, []).append(run.result.seed)
    return found


def reported(tmp_path: Path, *studies: str) -> dict[str, tuple[Verdict | None, int]]:
    """What a report of the folders says was decided."""
    comparison = only(manifest.load_runs([tmp_path / name for name in studies or ["mine"]]))
    (study,) = comparison.sequential
    return {label: (found.verdict, found.n) for label, found in study.decisions.items()}


def test_a_decided_variant_gets_no_more_seeds_and_the_baseline_goes_on(tmp_path: Path) -> None:
    looks: list[InterimResult] = []
    planned = sweep(tmp_path)
    entries = run_until_decided(planned, tell=looks.append)
    assert seeds(entries) == {
        "slow": [0, 1, 2, 3, 4, 5, 6],
        "fast": [0, 1, 2, 3, 4, 5, 6],
        "twin": [0, 1, 2, 3, 4, 5],
    }
    first, second = looks
    assert (first.n, second.n) == (6, 7)
    assert first.decisions["fast"].verdict is None
    assert first.chances.keys() == {"fast"}
    assert first.chances["fast"] > 0.9
    assert second.chances == {}
    found = {label: (one.verdict, one.n) for label, one in second.decisions.items()}
    assert found == DECIDED == reported(tmp_path)
    runs = manifest.load_runs([tmp_path / "mine"])
    compared = compare(runs)
    for text in (formats.markdown(compared), formats.latex(compared), page(runs, compared)):
        assert "Sequential test" in text
    dry = preview.preview_sweep(planned)
    assert (dry.at_most, len(dry.runs), sum(run.finished for run in dry.runs)) == (True, 24, 21)

    study = manifest.load(tmp_path / "mine")
    assert study
    assert study.declaration == planned.declaration
    assert study.commands[-1].endswith("--until decided --max-seeds 8 --margin 0.25 --metric peak")
    with pytest.raises(UserError, match=r"other settings or data.*cannot change under way"):
        run_until_decided(sweep(tmp_path, "model.heads=2"))

    # seeds beyond, of a sweep of so many, belong to the study and change no decision
    fixed = plan([f"study={tmp_path}/mine.yaml", f"out={tmp_path}", "executor.workers=1", "seed=7"])
    run_sweep(fixed)
    runs = manifest.load_runs([tmp_path / "mine"])
    assert len(runs) == 20 + 3
    assert reported(tmp_path) == DECIDED

    # and another study that has them under the same names hides nothing
    manifest.record(
        tmp_path / "other",
        manifest.Manifest(
            variants={run.label: {} for run in runs},
            commands=["attnexp sweep"],
            runs=[
                manifest.Entry(variant=run.label, seed=str(run.result.seed), run_id=run.path.name)
                for run in runs
            ],
        ),
    )
    assert reported(tmp_path, "other", "mine") == reported(tmp_path, "mine", "other") == DECIDED


def test_failed_runs_and_killed_sweeps_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[InterimResult] = []
    with monkeypatch.context() as patch:
        fail_with(patch, RunFailed("the loss is nan"), seed=2, lr=3e-2)
        entries = run_until_decided(sweep(tmp_path), tell=looks.append)
    assert seeds(entries)["fast"] == [0, 1, 3, 4, 5]  # three more after the gap, and none counts
    assert [(each.decisions["fast"].n, each.decisions["twin"].n) for each in looks] == [(0, 6)]
    with monkeypatch.context() as patch:
        fail_with(patch, KeyboardInterrupt(), seed=6, lr=3e-2)
        with pytest.raises(KeyboardInterrupt, match="1 of 2 runs are done"):
            run_until_decided(sweep(tmp_path))
    assert reported(tmp_path) == {"fast": (None, 6), "twin": DECIDED["twin"]}
    run_until_decided(sweep(tmp_path))
    assert reported(tmp_path) == DECIDED


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"metric": "peak"}, "--metric final, not peak"),
        ({"design": design(7)}, "--max-seeds 6, not 7"),
        ({"design": design(6, margin=0.01)}, "--margin 0.25, not 1"),
        ({"runs": {"a": ("1",), "c": ("2",)}}, "variants a, b, not a, c"),
        ({"runs": {"b": ("2",), "a": ("1",)}}, "variants a, b, not b, a"),  # the baseline
        ({"runs": {"a": ("1",), "b": ("3",)}}, "other settings or data"),
    ],
)
def test_what_was_declared_stays(changed: dict[str, Any], told: str) -> None:
    first = Declaration(design=design(6), metric="final", runs={"a": ("1",), "b": ("2",)})
    again = replace(first, finished_before=3)  # the same, although runs have been done since
    first.expect(again)
    with pytest.raises(UserError, match=told):
        first.expect(replace(first, **changed))


@pytest.mark.parametrize(
    ("words", "max_seeds", "told"),
    [
        (["seed=range(5)"], 8, "leave out seed="),
        (["seeds.init=0,1"], 8, r"seeds\.\* one value"),
        (["model.d_model=8,16,24"], 6, "With 6 seeds nothing can be decided of 8 variants"),
        (["data.max_len=10,20"], 8, "other data or another protocol"),
        (["train=blog,holdout"], 8, "other data or another protocol"),
    ],
)
def test_what_cannot_be_decided_so_is_told(
    tmp_path: Path, words: list[str], max_seeds: int, told: str
) -> None:
    with pytest.raises(UserError, match=told):
        sweep(tmp_path, *words, max_seeds=max_seeds)


def test_one_variant_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="compares variants; got one"):
        plan_until_decided(["data=contrast", f"out={tmp_path}"], margin=0.0025)


def test_the_metric_is_a_point_of_the_protocol(tmp_path: Path) -> None:
    words = ["data=contrast", "position=none,sinusoidal", f"out={tmp_path}"]

    def metric(*more: str, metric: str | None = None) -> str:
        planned = plan_until_decided([*words, *more], max_seeds=6, margin=0.0025, metric=metric)
        assert planned.declaration
        return planned.declaration.metric

    assert metric() == "peak"
    assert metric(metric="final") == "final"
    assert metric("train=holdout") == "chosen"
    with pytest.raises(UserError, match="--metric peak: choose one of chosen, final"):
        metric("train=holdout", metric="peak")


# differences from runs


def declared(runs: dict[str, list[Run]], plan: Design) -> Declaration:
    ids = {label: tuple(run.result.run_id for run in group) for label, group in runs.items()}
    return Declaration(design=plan, metric="final", runs=ids)


def test_differences_come_in_the_order_of_seeds_up_to_the_first_gap() -> None:
    plan = design(6)
    a = [result("a", seed, [0.5]) for seed in range(5)]
    b = [result("b", seed, [0.5 + seed / 100]) for seed in range(5)]
    study = declared({"a": a, "b": b}, plan)
    whole = [0.0, 0.01, 0.02, 0.03, 0.04]
    assert study.differences([*reversed(a), *reversed(b)]) == {"b": whole}
    assert study.differences([*a, *b[:2], *b[3:]]) == {"b": whole[:2]}
    assert study.differences([*a[1:], *b]) == {"b": []}


def test_runs_of_other_code_do_not_count_together() -> None:
    a = [result("a", seed, [0.5]) for seed in range(4)]
    b = [result("b", seed, [0.6]) for seed in range(4)]
    study = declared({"a": a, "b": b}, design(6))

    def by(run: Run, **code: str) -> Run:
        return replace(run, result=replace(run.result, code=code))

    old = [by(run, both="1") for run in a] + [by(run, both="1", own="1") for run in b]
    new = [by(run, both="2", own="2") for run in b]
    assert len(study.differences(old)["b"]) == 4
    assert len(study.differences([*old[:6], *new[2:]])["b"]) == 2


# the command

WORDS = ("study=mine.yaml", "executor.workers=1", "--until", "decided", "--max-seeds", "6")


def test_the_command_says_how_it_stands_and_the_report_what_was_decided(
    attnexp: Command, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(STUDY.replace("  twin: [train.lr=1e-9]\n", ""))
    done = attnexp("sweep", *WORDS)
    assert done.returncode == 0, done.stderr
    assert "look 1 of 1, 6 seeds:\n  fast: helps: " in done.stderr
    tables, _, _ = done.stdout.rpartition("\nResults: ")
    assert max(map(len, tables.splitlines())) <= 80
    assert "Sequential test on contrast (synthetic)" in tables
    assert "is not for stopping" in tables
    assert "fast against slow, peak (sequential test): helps: " in " ".join(tables.split())
    (comparison,) = json.loads(attnexp("sweep", *WORDS, "--json").stdout)["comparisons"]
    (study,) = comparison["sequential"]
    assert study["decisions"]["fast"]["verdict"] == "helps"
    assert (study["point"], study["design"]["looks"]) == ("peak", [6])
    assert "cannot change under way" in refused("sweep", *WORDS, "--metric", "final")


def test_the_live_table_has_the_look_the_bound_and_the_chance_within_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = design(64)
    d = {"a_variant_with_a_long_name": [0.01, -0.004] * 4, "clear": [0.01] * 11, "late": [0.01] * 5}
    found = decide(d, plan)
    standing = InterimResult(n=11, design=plan, decisions=found, chances=chances(d, plan, found))
    console = Console(file=io.StringIO(), width=80)
    monkeypatch.setattr(progress, "console", console)
    view = Watch()
    view.look(standing)
    console.print(view.table([]))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0] == "look 3 of 8, 11 seeds:"
    assert lines[1].startswith("  a_variant_with_a_long_name: open: +0.30 points [")
    assert lines[1].endswith("% to be decided at 11")
    assert lines[2].startswith("  clear: helps: +1.00 points [+1.00, +1.00], p = 0.00")
    assert lines[3] == "  late: open: no look yet"
    assert len(lines) == 6  # totals, and what is open: who had a look
    row = next(line for line in lines[4:] if "bound" in line)
    assert re.match(r"look 2 of 8: p 0\.\d{4}, bound 0\.\d{4}, chance \d+ %, a_variant", row)
    assert len(row) <= 80


@pytest.mark.slow
def test_a_terminal_sees_the_look_the_bound_and_the_chance(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(STUDY)
    words = ["study=mine.yaml", "executor.workers=2", "--until", "decided", "--max-seeds", "7"]
    text = on_a_terminal(tmp_path, "sweep", *words)
    assert "look 1 of 2: p 0.0" in text
    assert "bound 0.0226, chance 9" in text
    assert "to be decided at 7" in text
