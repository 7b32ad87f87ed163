"""A search before a study: every variant at its best, chosen by neither its seeds nor the test."""

import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from conftest import Command, Json, Refused
from samples import but, finished, made, write_reviews

from attnexp.base.errors import RunFailed, UserError
from attnexp.sweeps.executors.task import Failure
from attnexp.sweeps.schedule import run_sweep, scan
from attnexp.sweeps.tuning import Tuning, choose, plan_tuning, tuned

TINY = """model.heads=2 model.d_head=4 train.epochs=2 train.threads=1
train.batch_size=8 executor.workers=1""".split()
WORDS = ["study=blog", "data=contrast", "data.order_fraction=0", "data.limit_train=256",
         "data.limit_test=64", "model.d_model=16", "seed=0,1", *TINY]  # fmt: skip
GRID = ["tune=train.lr=1e-9,5e-2", "tune.seeds=7,8"]


def small(tmp_path: Path, *words: str) -> Tuning:
    return plan_tuning([*WORDS, *(words or GRID), f"out={tmp_path}"])


@pytest.mark.usefixtures("done")
def test_each_variant_runs_as_chosen_on_held_out_data_and_nothing_runs_twice(
    tmp_path: Path,
) -> None:
    tuning = small(tmp_path)
    searched = run_sweep(tuning.search)
    configs = [run.result.config for run in finished(searched)]
    assert len(configs) == 8
    assert {config["train"]["protocol"] for config in configs} == {"holdout"}
    assert {config["seed"] for config in configs} == {7, 8}
    study = tuned(tuning.study, choose(tuning, searched))
    assert [*study.variants] == ["no_pe, train.lr=0.05 of 2", "pe, train.lr=0.05 of 2"]
    entries = run_sweep(study)
    found = [
        (run.label.partition(",")[0], run.result.seed, run.result.config["train"]["lr"])
        for run in finished(entries)
    ]
    assert found == [("no_pe", 0, 0.05), ("pe", 0, 0.05), ("no_pe", 1, 0.05), ("pe", 1, 0.05)]
    assert {run.result.config["train"]["protocol"] for run in finished(entries)} == {"blog"}
    assert all(entry.before for entry in (*scan(tuning.search), *scan(study)))
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "blog_tuning", "blog_tuned"}


def test_seeds_that_choose_do_not_judge(tmp_path: Path) -> None:
    tuning = small(tmp_path, GRID[0], "tune.seeds=1,2")
    assert {job.config.seed for job in tuning.search.jobs} == {1, 2}
    assert {job.config.seed for job in tuning.study.jobs} == {0}
    assert {job.config.seed for trial in tuning.trials for job in trial.judged} == {0}


@pytest.mark.parametrize("protocol", ["blog", "holdout"])
def test_the_highest_mean_on_held_out_data_is_chosen(tmp_path: Path, protocol: str) -> None:
    """The mean of the last epoch counts, or of the best one where the study chooses epochs."""
    tuning = small(tmp_path, "tune=train.lr=1e-3,3e-3,1e-2", f"train={protocol}")
    entries, chance = scan(tuning.search), random.Random(0)
    assert len(entries) == 2 * 3 * 3
    for _ in range(20):
        counted: dict[str, list[float]] = {}
        for entry in entries:
            run = made("any", 0)
            rows = [replace(row, val_accuracy=chance.random()) for row in run.result.epochs]
            entry.outcome = but(run, epochs=rows)
            values = [row.val_accuracy for row in rows]
            value = values[-1] if protocol == "blog" else max(values)
            counted.setdefault(entry.job.label, []).append(value)
        means = {label: fmean(values) for label, values in counted.items()}
        best = {
            max(
                (label for label in means if label.startswith(f"{variant} ")), key=means.__getitem__
            )
            for variant in ("no_pe", "pe")
        }
        chosen = {f"{one.variant} {one.setting}" for one in choose(tuning, entries) if one.chosen}
        assert chosen == best


def test_test_labels_play_no_role_in_the_choice(tmp_path: Path) -> None:
    """Turned around, they change what the study measures and not what the search does."""
    texts = ["the plot was superb", "the cast was dreadful"]
    found = []
    for name, turned in (("as_is", texts), ("turned", texts[::-1])):
        home = tmp_path / name
        write_reviews(home, texts * 40, turned * 8)  # labelled 0 and 1 in turn
        place = ["position=none", "data=files", f"data.path={home}", f"out={home}"]
        words_of_it = ["model.d_model=8", *TINY, GRID[0], "tune.seeds=11"]
        tuning = plan_tuning([*place, *words_of_it])
        searched = run_sweep(tuning.search)
        trials = choose(tuning, searched)
        tests = [run.result.test.accuracy for run in finished(searched)]
        found.append(([(one.setting, one.accuracies, one.chosen) for one in trials], tests))
    (one, tests), (other, turned_tests) = found
    assert one == other
    assert tests == pytest.approx([1 - accuracy for accuracy in turned_tests])


def test_a_setting_with_a_failed_run_is_not_chosen(tmp_path: Path) -> None:
    tuning = small(tmp_path)
    entries = scan(tuning.search)
    for entry in entries:
        fails = (entry.job.config.seed, entry.job.config.train.lr) == (7, 5e-2)
        entry.outcome = Failure(entry.job, "the loss is nan") if fails else made("any", 0)
    trials = choose(tuning, entries)
    assert [len(one.failures) for one in trials] == [0, 1, 0, 1]
    assert [*tuned(tuning.study, trials).variants][1] == "pe, train.lr=1e-09 of 2"
    for entry in entries:
        entry.outcome = Failure(entry.job, "the loss is nan")
    with pytest.raises(RunFailed, match=r"no_pe: every setting .* seed 7: the loss is nan"):
        choose(tuning, entries)


def test_factors_stay_and_a_variant_without_the_setting_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "factors: {position: {none: [position=none], pe: [position=sinusoidal]},"
        " mask: {full: [mask=none], causal: [mask=causal]}}"
    )
    words = [f"study={tmp_path}/mine.yaml", "data=contrast", "tune=position.dropout=0,0.1"]
    tuning = plan_tuning([*words, f"out={tmp_path}"])
    assert {job.label.split()[0] for job in tuning.search.jobs} == {"pe_full", "pe_causal"}
    trials = [replace(one, accuracies=[0.5]) for one in tuning.trials]
    trials = [replace(one, chosen="=0.1" not in one.setting) for one in trials]
    assert tuned(tuning.study, trials).variants == {
        "none_full": {"position": "none", "mask": "full"},
        "none_causal": {"position": "none", "mask": "causal"},
        "pe_full, position.dropout=0 of 2": {"position": "pe", "mask": "full"},
        "pe_causal, position.dropout=0 of 2": {"position": "pe", "mask": "causal"},
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tune=train.lr=1e-3,1e-2", "tune.seeds=range(3)"], "none is left to judge"),
        (["tune=train.lr=1e-3,1e-2", "train.lr=1e-3"], "train.lr is tuned and also given"),
        (["tune=position=none,rotary"], "study=blog varies this setting itself"),
        (["tune=train.lr=1e-3"], "at least two"),
        (["tune=train.lr=1e-3,1e-3"], "at least two"),
        (["tune=train.lr=1e-3,1e-2", "tune=train.lr=1,2"], "all its values in one word"),
        (["tune.seeds=range(3)"], r"tune.seeds=range\(3\) needs what to tune"),
        (["tune.seed=3", "tune=train.lr=1,2"], "There is no key 'tune.seed'"),
        (["tune=data.max_len=10,20"], "only settings of the model and of training"),
        (["tune=train=blog,holdout"], "only settings of the model and of training"),
        (["tune=train.rate=1,2"], "no key 'train.rate'"),
        (["tune=train.lr=1,2", "seeds.init=3"], "judges by seed= alone"),
        (["tune=train.lr=1,2", "data=contrast,trec"], "one data set at a time"),
        (["tune=train.holdout=0.1,0.2"], "would do nothing"),
    ],
)
def test_a_wrong_search_is_told_before_it_starts(
    tmp_path: Path, words: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        small(tmp_path, *words)


@pytest.mark.usefixtures("done")
def test_the_command_shows_the_search_then_the_study(
    here: Command, here_json: Json, refused: Refused, tmp_path: Path
) -> None:
    words = ["sweep", *WORDS, "seed=0", GRID[0], "tune.seeds=7", f"out={tmp_path}"]
    dry = here(*words, "--dry-run").stdout
    assert "4 runs, 0 finished before, 4 to do" in dry
    assert "The study follows: 2 runs" in dry
    swept = here(*words)
    _, _, table = swept.stderr.partition("Search on held-out data, final epoch")
    assert table.count("chosen\n") == 2
    assert "no_pe: train.lr=0.05 is at the end of the grid" in table
    tables, _, _ = swept.stdout.rpartition("\nResults: ")
    assert "pe, train.lr=0.05 of 2: 1 run on contrast" in tables
    assert max(map(len, tables.splitlines())) <= 80
    (comparison,) = here_json(*words)["comparisons"]
    labels = ["no_pe, train.lr=0.05 of 2", "pe, train.lr=0.05 of 2"]
    assert [variant["label"] for variant in comparison["variants"]] == labels
    assert len(list(tmp_path.rglob("result.json"))) == 6
    assert "does not go with --until or --zip" in refused(*words, "--zip")
