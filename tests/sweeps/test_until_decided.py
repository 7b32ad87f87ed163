"""Sweeps that results direct: seeds added until it is decided, and a search before a study."""

from collections import Counter
from pathlib import Path

import pytest
from conftest import Capture, Patch
from samples import result, stored_study
from sweeping import Pretend, finished

from attnexp.base.errors import RunFailed
from attnexp.sweeps import sequential
from attnexp.sweeps.folder import assign_folder
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import SweepEntry, run_sweep, scan
from attnexp.sweeps.tuning import Tuning, choose_settings, plan_tuning

STUDY = """
baseline: slow
variants: {slow: [train.lr=1e-9], fast: [train.lr=3e-2], noisy: [train.lr=1e-9, model.heads=2]}
overrides: [data=contrast, train.epochs=2]"""
"""What learns is far better than what does not; the noisy variant is as bad as the baseline."""

CROSSED = """
factors:
  heads: {a: [model.heads=1], b: [model.heads=2], c: [model.heads=4]}
  lr: {x: [train.lr=1e-9], y: [train.lr=1e-8]}
overrides: [data=contrast]"""
"""Six contrasts, so that the first round takes ten seeds, and all models are bad."""


def sweep(tmp_path: Path, *words: str, study: str = STUDY) -> Sweep:
    (tmp_path / "mine.yaml").write_text(study)
    start = [f"study={tmp_path}/mine.yaml", f"out={tmp_path}", "executor.workers=1"]
    return assign_folder(sequential.plan_until_decided([*start, *words]))


def seeds(planned: Sweep) -> dict[str, int]:
    return Counter(run.variant for run in finished(sequential.run_until_decided(planned)))


@pytest.mark.usefixtures("done")
def test_what_is_clear_ends_and_what_is_open_goes_on(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setattr(sequential, "num_slots", lambda *_: 7)  # three of each of two variants
    assert len(sweep(tmp_path).jobs) == 3 * 64
    assert seeds(sweep(tmp_path, "seed=range(9)")) == {"slow": 9, "noisy": 9, "fast": 8}
    told = capsys.readouterr().err
    assert told.count("fast − slow, 8 seeds: helps") == 2
    assert "All seeds are used, and not every contrast is decided." in told
    study = stored_study(tmp_path / "mine")
    assert study.sequential
    assert study.commands[-1].endswith("'seed=range(9)' --until decided")
    more = sweep(tmp_path, "seed=range(11)")  # the budget may be raised
    assert seeds(more) == {"slow": 11, "noisy": 11, "fast": 8}
    told = capsys.readouterr().err
    assert "noisy − slow, 10 seeds" not in told
    assert "noisy − slow, 11 seeds" in told


@pytest.mark.parametrize(
    ("study", "failing", "num_seeds"),
    [
        (STUDY, "noisy", {"slow": 8, "noisy": 7, "fast": 8}),
        (STUDY, "slow", {"slow": 7, "noisy": 8, "fast": 8}),
        (STUDY, "fast", {"slow": 9, "noisy": 9, "fast": 7}),
        (CROSSED, "a_y", {"a_x": 11, "b_x": 11, "c_x": 11, "a_y": 9, "b_y": 10, "c_y": 10}),
    ],
)
def test_a_failed_run_ends_the_contrasts_that_it_is_in(
    tmp_path: Path, pretend: Pretend, study: str, failing: str, num_seeds: dict[str, int]
) -> None:
    planned = sweep(tmp_path, f"seed=range({max(num_seeds.values())})", study=study)
    runs = [job.config for job in planned.jobs[:3] if job.label == failing]
    pretend(fails=lambda config: config in runs)
    assert seeds(planned) == num_seeds


def tuning_of(tmp_path: Path, *words: str) -> Tuning:
    start = ["study=blog", "data=contrast", "train.epochs=2", "seed=0,1", "executor.workers=1"]
    return plan_tuning([*start, *words, f"out={tmp_path}"])


@pytest.mark.usefixtures("done")
def test_each_variant_runs_as_chosen_and_nothing_runs_twice(tmp_path: Path) -> None:
    tuning = tuning_of(tmp_path, "tune=train.lr=1e-9,5e-2", "tune.seeds=7,8")
    search = assign_folder(tuning.search)
    searched = run_sweep(search)
    configs = [entry.job.config for entry in searched]
    assert [config.seed for config in configs] == [7] * 4 + [8] * 4
    assert {config.train.protocol for config in configs} == {"holdout"}
    study = assign_folder(choose_settings(tuning, searched)[0])
    variants = ["no_pe, train.lr=0.05 (best of 2)", "pe, train.lr=0.05 (best of 2)"]
    assert [*study.levels_by_label] == variants
    run_sweep(study)
    assert {job.config.train.protocol for job in study.jobs} == {"blog"}
    assert all(entry.finished_before for entry in (*scan(search), *scan(study)))
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"runs", "blog_tuning", "blog_tuned"}


@pytest.mark.parametrize(("protocol", "best"), [("blog", 1e-2), ("holdout", 3e-3)])
def test_the_best_mean_is_chosen(tmp_path: Path, protocol: str, best: float) -> None:
    """Without failed runs; of the last epoch, or of the best one where the study chooses epochs."""
    tuning = tuning_of(tmp_path, "tune=train.lr=1e-3,3e-3,1e-2,3e-2", f"train={protocol}")
    entries = scan(assign_folder(tuning.search))
    accuracies = {1e-3: (0.5, 0.6), 3e-3: (0.9, 0.5), 1e-2: (0.7, 0.7), 3e-2: (0.99, 0.99)}
    for entry in entries:
        lr = entry.job.config.train.lr
        entry.outcome = result("", 0, accuracies[lr])
        if lr == 3e-2 and entry.job.config.seed == 1001:
            entry.outcome = "the loss is nan"
    study, _ = choose_settings(tuning, entries)
    assert {job.config.train.lr for job in study.jobs} == {best}
    for entry in entries:
        entry.outcome = "the loss is nan"
    with pytest.raises(RunFailed, match=r"(?s)no_pe: every setting of .*: the loss is nan"):
        choose_settings(tuning, entries)


def test_without_axes_each_data_set_has_its_own_choice(tmp_path: Path) -> None:
    tuning = plan_tuning(["data=contrast,imdb", "tune=train.lr=0.1,0.2"])
    entries = [SweepEntry(job, "", tmp_path, False) for job in tuning.search.jobs]
    for entry, accuracy in zip(entries, [0.5, 0.8, 0.6, 0.7] * 3, strict=True):
        entry.outcome = result("", 0, [accuracy])
    study, _ = choose_settings(tuning, entries)
    chosen = [(job.config.data.name, job.config.train.lr) for job in study.jobs]
    assert chosen == [("contrast", 0.2), ("imdb", 0.1)]
