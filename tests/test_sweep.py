"""A sweep: the right runs, each once, in pairs."""

from pathlib import Path

import pytest

from attnexp import sweep as sweeping
from attnexp import train
from attnexp.errors import RunFailed, UserError
from attnexp.runs import RunResult
from attnexp.sweep import Failure, plan, run


def small(tmp_path: Path) -> list[str]:
    return ["experiment=smoke", "train.epochs=1", f"out={tmp_path}"]


def test_a_study_runs_its_variants_seed_by_seed_baseline_first() -> None:
    planned = plan(["study=blog", "data=contrast"])
    assert [(job.label, job.config.seed) for job in planned.jobs] == [
        (label, seed) for seed in range(3) for label in ("no_pe", "pe")
    ]
    assert planned.folder == "blog"
    assert {str(job.config.position.kind) for job in planned.jobs if job.label == "pe"} == {
        "sinusoidal"
    }


def test_the_users_words_win_over_the_studys() -> None:
    assert [job.config.seed for job in plan(["study=blog", "seed=5"]).jobs] == [5, 5]


def test_axes_multiply_and_name_the_variants() -> None:
    planned = plan(["position=none,sinusoidal", "model.heads=1,8", "seed=0,1"])
    assert [job.label for job in planned.jobs[:4]] == [
        "position=none model.heads=1",
        "position=none model.heads=8",
        "position=sinusoidal model.heads=1",
        "position=sinusoidal model.heads=8",
    ]
    assert [job.order for job in planned.jobs] == [0, 1, 2, 3] * 2
    assert len(planned.jobs) == 8


def test_an_axis_crosses_a_study() -> None:
    labels = {job.label for job in plan(["study=blog", "model.heads=1,8"]).jobs}
    assert labels == {f"{pe} model.heads={h}" for pe in ("no_pe", "pe") for h in (1, 8)}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["study=blok"], "Did you mean 'blog'"),
        (["study=blog", "study=blog"], "One study"),
        (["model.d_model=64,65", "position=sinusoidal"], "model.d_model=65"),
        (["model.heads=1,0"], "model.heads must be"),
        (["position=none,sinusoid"], "Did you mean 'sinusoidal'"),
    ],
)
def test_a_wrong_run_is_told_before_the_first_one_starts(words: list[str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        plan(words)


def test_finished_runs_are_skipped_and_new_ones_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = list(run(plan([*small(tmp_path), "position=none,sinusoidal"])))
    trained: list[str] = []
    real = train.train_run

    def watch(*args, **more):  # type: ignore[no-untyped-def]
        run_dir, result = real(*args, **more)
        trained.append(result.provenance["started"])
        return run_dir, result

    monkeypatch.setattr(sweeping, "train_run", watch)
    second = list(run(plan([*small(tmp_path), "position=none,sinusoidal", "seed=0,1"])))
    assert second[:2] == first
    assert len({result.run_id for result in second if isinstance(result, RunResult)}) == 4
    assert len(list(tmp_path.rglob("result.json"))) == 4


def test_one_failed_run_does_not_lose_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = train.train_run

    def fail(config, **more):  # type: ignore[no-untyped-def]
        if config.seed == 1:
            raise RunFailed("the loss is nan")
        return real(config, **more)

    monkeypatch.setattr(sweeping, "train_run", fail)
    outcomes = list(run(plan([*small(tmp_path), "seed=range(3)"])))
    assert [isinstance(outcome, Failure) for outcome in outcomes] == [False, True, False]
