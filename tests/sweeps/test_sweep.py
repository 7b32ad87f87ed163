"""A sweep: the right runs, each once, in pairs."""

from pathlib import Path

import pytest

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.runs.identity import identify, replicate
from attnexp.sweeps.plan import plan


def test_a_study_runs_its_variants_seed_by_seed_baseline_first() -> None:
    planned = plan(["study=blog", "data=contrast"])
    assert [(job.label, job.config.seed) for job in planned.jobs] == [
        (label, seed) for seed in range(10) for label in ("no_pe", "pe")
    ]
    assert (planned.name, [*planned.variants]) == ("blog", ["no_pe", "pe"])
    assert {job.config.position.name for job in planned.jobs if job.label == "pe"} == {"sinusoidal"}


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
    assert planned.name == "sweep_position_x_model.heads"
    assert len(planned.jobs) == 8


def test_an_axis_crosses_a_study() -> None:
    labels = {job.label for job in plan(["study=blog", "model.heads=1,8"]).jobs}
    assert labels == {f"{pe} model.heads={h}" for pe in ("no_pe", "pe") for h in (1, 8)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["study=blok"], "Did you mean 'blog'"),
        (["study=blog", "study=blog"], "One study"),
        (["model.d_model=64,65", "position=sinusoidal"], "model.d_model=65"),
        (["model.heads=1,0"], "model.heads must be"),
        (["position=none,sinusoid"], "Did you mean 'sinusoidal'"),
        (["out=a,b"], "one place for its results"),
        (["position=none,none"], "position=none is asked for 2 times"),
        (["seed=range(0)"], r"seed=range\(0\) has no value"),
        (
            ["study=blog", "position=rotary"],
            "position=rotary: study=blog varies this setting itself",
        ),
        (["study=heads", "model.heads=2,4"], "varies this setting itself"),
        (["study=nowhere.yaml"], "cannot be read"),
        (["study=blog", "executor=rai"], "Did you mean 'ray'"),
        (["study=blog", "executor.worker=2"], "Did you mean 'executor.workers'"),
        (["study=blog", "executor.workers=0"], "executor.workers must be at least 1; got 0"),
        (["study=blog", "executor.gpu=2"], "executor.gpu must be above 0 and at most 1"),
        (["study=blog", "executor=local,ray"], "one executor"),
        (["study=blog", "executor=a:B"], "there is no such executor"),
        (["study=blog", "executor.foo=2"], r"There are executor\.kind, executor\.workers"),
        (["study=blog", "executor.partition=gpu"], "belongs to executor=slurm and submitit"),
        (["data=contrast", "seed=0,-1"], "seed must be at least 0; got -1"),
        (["data=contrast", "seed=0,x"], "seed: .*'x'"),
        (["data=contrast", "seed=0,null"], "seed: "),
        (["data=contrast", "seeds.init=0,1.5"], "seeds.init: "),
        (["data=contrast", "seeds.split=0,1"], "seeds.split=0 would do nothing"),
    ],
)
def test_what_is_wrong_is_told_before_the_first_run_starts(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan(words)


def write_study(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text)
    return f"study={path}"


def test_several_data_sets_have_the_same_variants() -> None:
    words = ["study=blog", "data=trec,cr", "seed=range(2)"]
    jobs = plan(words).jobs
    assert [str(job) for job in jobs[:4]] == [
        "no_pe on trec, seed 0",
        "no_pe on cr, seed 0",
        "pe on trec, seed 0",
        "pe on cr, seed 0",
    ]
    assert {job.label for job in jobs} == {"no_pe", "pe"}
    assert {job.config.data.max_len for job in jobs} == {20, 40}
    with pytest.raises(UserError, match="pe on cr is asked for 2 times"):
        plan([*words[:1], "data=trec,cr,cr"])


def test_a_study_of_the_users_own_is_a_file(tmp_path: Path) -> None:
    """The baseline comes first wherever it stands; the study has the file's name."""
    text = "baseline: b\nvariants:\n  a: [model.heads=4]\n  b: []\noverrides: ['seed=range(2)']\n"
    planned = plan([write_study(tmp_path, text)])
    assert (planned.name, [*planned.variants]) == ("mine", ["b", "a"])
    assert [(job.label, job.config.seed, job.config.model.heads) for job in planned.jobs] == [
        ("b", 0, 8),
        ("a", 0, 4),
        ("b", 1, 8),
        ("a", 1, 4),
    ]


def test_a_name_is_fit_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a=b c.yaml").write_text("baseline: a\nvariants: {a: []}")
    assert plan([f"study={tmp_path}/a=b c.yaml"]).name == "a-b-c"
    (tmp_path / "runs.yaml").write_text("baseline: a\nvariants: {a: []}")
    with pytest.raises(UserError, match="cannot be called runs"):
        plan([f"study={tmp_path}/runs.yaml"])
    assert plan(["seed=0,1"]).name == "sweep"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got nothing"),
        ("[1, 2]", "must hold baseline"),
        ("a: [", "is no YAML"),
        ("baseline: c\nvariants: {a: []}", "baseline 'c' is not among the variants"),
        ("baseline: a\nvariants: {a: position=none}", "'position=none' is no list of words"),
        ("baseline: a\nvariants: {a: []}\noverride: []", "must hold baseline"),
        ("baseline: a\nvariants: {a: [positon=none]}", "Did you mean 'position'"),
        ("baseline: a\nvariants: {a: []}\noverrides: [executor.workers=1]", "on the command line"),
        ("baseline: a\nvariants: {a: [study=blog]}", "study=blog is no setting of a run"),
        (
            "baseline: a\nvariants: {a: [position=none]}\noverrides: [position=rotary]",
            "varies this",
        ),
        ("baseline: [x]\nvariants: {x: []}", "is not among the variants"),
        ("baseline: x\nvariants: [x]", "got variants: \\['x'\\]"),
        ("baseline: x", "two crossed factors.*got baseline"),
        ("factors: [a, b]", "got factors: \\['a', 'b'\\]"),
        ("factors: {a: {x: [], y: []}}", "two crossed factors.*got factors: "),
        ("factors: {a: {x: [], y: []}, b: {x: [], y: []}, c: {x: [], y: []}}", "two crossed"),
        ("factors: {a: {x: [], y: []}, b: {x: []}}", "factor b needs two levels or more"),
        ("factors: {a: {x: [], y: []}, b: [x, y]}", "factor b needs two levels or more"),
        ("factors: {a: {x: [], y: model.heads=4}, b: {x: [], y: []}}", "'model.heads=4' is no li"),
        ("factors: {a: {x: [], x_y: []}, b: {z: [], y_z: []}}", "two pairs.* are named x_y_z"),
        ("baseline: x\nfactors: {a: {x: [], y: []}, b: {x: [], y: []}}", "got baseline, factors"),
    ],
)
def test_a_file_that_is_no_study_is_reported(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan([write_study(tmp_path, text)])


def test_zip_pairs_the_axes_and_crosses_the_seeds() -> None:
    words = ["model.heads=1,2,4", "model.d_head=128,64,32", "seed=0,1"]
    found = [
        (job.config.model.heads, job.config.model.d_head, job.config.seed)
        for job in plan(words, zipped=True).jobs
    ]
    assert found == [(h, d, s) for s in (0, 1) for h, d in ((1, 128), (2, 64), (4, 32))]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.heads=1,2", "model.d_head=8,16,32"], "model.heads has 2, model.d_head has 3"),
        (["seed=0,1"], "several axes; got none"),
    ],
)
def test_what_cannot_be_paired_is_reported(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan(words, zipped=True)


def test_a_seed_that_is_given_twice_is_one_run() -> None:
    jobs = plan(["position=none,rotary", "seed=0,1,1,0"]).jobs
    assert [str(job) for job in jobs] == [
        f"position={kind}, seed {seed}" for seed in (0, 1) for kind in ("none", "rotary")
    ]


def test_seeds_apart_are_no_variants() -> None:
    jobs = plan(["position=none,sinusoidal", "seeds.init=0,1", "seeds.order=0,1"]).jobs
    assert len(jobs) == 8
    assert {job.label for job in jobs} == {"position=none", "position=sinusoidal"}
    assert [str(job) for job in jobs[::2]] == [
        f"position=none, seed 0{apart}" for apart in ("", "-order1", "-init1", "-init1-order1")
    ]


def test_words_for_the_executor_reach_no_run() -> None:
    planned = plan(["study=blog", "executor=ray", "executor.workers=3", "executor.gpu=0.5"])
    assert (planned.executor.kind, planned.executor.workers, planned.executor.gpu) == (
        "ray",
        3,
        0.5,
    )
    assert not any("executor" in word for job in planned.jobs for word in job.overrides)


# Thousands of runs


@pytest.mark.parametrize(
    "words",
    [
        ["study=blog", "seed=choice(3,0)"],
        ["position=none,sinusoidal", "seeds.init=null,0,1", "seeds.order=4", "seed=0,1"],
        ["experiment=smoke,blog_pe", "seeds.split=1,2", "train=holdout", "seed=7"],
        ["seed=1,2", "seeds.init='3','4'"],
    ],
)
def test_every_run_is_what_its_words_alone_would_give(words: list[str]) -> None:
    """Though only one run of a variant is composed: same settings, hence the same id."""
    for job in plan([*words, "data=contrast"]).jobs:
        alone = compose(job.overrides)
        assert job.config == alone
        assert replicate(to_dict(alone)) == job.seed
        assert identify(alone, "data") == identify(job.config, "data")


def test_more_seeds_are_no_more_to_compose() -> None:
    """Runs of a variant share what they have in common."""
    jobs = plan(["study=blog", "data=contrast", "seed=range(1000)"]).jobs
    assert len(jobs) == 2000
    assert len({id(job.config.model) for job in jobs}) == 2
    assert {(job.variant, job.label) for job in jobs} == {(0, "no_pe"), (1, "pe")}
