"""Plans: the right runs, each once, in pairs."""

import shlex
from pathlib import Path

import pytest
from conftest import Refused

from attnexp.base.errors import UserError
from attnexp.sweeps.plan import plan


def test_a_study_runs_its_variants_seed_by_seed_baseline_first() -> None:
    planned = plan(["study=blog", "data=contrast"])
    assert [(job.label, job.config.seed) for job in planned.jobs] == [
        (label, seed) for seed in range(10) for label in ("no_pe", "pe")
    ]
    assert (planned.directory, [*planned.variants]) == (Path("outputs/blog"), ["no_pe", "pe"])
    assert {job.config.position.name for job in planned.jobs if job.label == "pe"} == {"sinusoidal"}
    assert [job.config.seed for job in plan(["study=blog", "seed=5"]).jobs] == [5, 5]


def test_axes_multiply_and_name_the_variants() -> None:
    planned = plan(["position=none,sinusoidal", "model.heads=1,8", "seed=0,1"])
    assert [job.label for job in planned.jobs[:4]] == [
        "position=none model.heads=1",
        "position=none model.heads=8",
        "position=sinusoidal model.heads=1",
        "position=sinusoidal model.heads=8",
    ]
    assert (planned.directory.name, len(planned.jobs)) == ("sweep_position_x_model.heads", 8)
    both = plan(["experiment=smoke,blog_scaled", "experiment=blog_pe,blog_no_pe"])
    assert len({job.label for job in both.jobs}) == len(both.jobs) == 4
    assert planned.variants["position=none model.heads=8"] == {
        "position": "position=none", "model.heads": "model.heads=8"
    }  # fmt: skip


WRONG = {
    "model.d_model=64,65 position=sinusoidal": "got 65",
    "study=blog seeds.init=0,1": "Crossed seed and seeds.init are not independent",
    "study=blog position=rotary": "position=rotary: blog varies this setting itself",
    "train.fast=true,false": "are the same run",
    "'executor.slurm={mem: 2GB}'": "executor.slurm would do nothing: it is for executor=slurm",
    "study=blog train=blog,holdout --until decided": "one data set with one protocol",
    "data=contrast --until decided": "--until decided compares variants",
    "study=blog tune=train.lr=1e-3,1e-2 tune.seeds=range(10)": "other seeds than those",
    "study=blog tune.seed=3 tune=train.lr=1,2": "Write tune=KEY=V1,V2",
    "study=blog tune=data=trec,cr": "tune= takes settings other than the data",
    "study=blog tune=train.lr=1,2 --until decided": "--until decided and tune= do not go together",
    "name=runs": "a sweep's name has letters",
    "name=a/b": "a sweep's name has letters",
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_wrong_is_told_before_the_first_run_starts(refused: Refused, words: str) -> None:
    assert WRONG[words] in refused("sweep", *shlex.split(words))


def test_data_sets_and_seeds_are_no_variants() -> None:
    jobs = plan(["study=blog", "data=trec,cr", "seed=0", "seeds.init=0,1,1,0"]).jobs
    assert [str(job) for job in jobs if job.label == "pe"] == [
        f"pe on {data}, seed {seed}" for seed in ("0", "0-init1") for data in ("trec", "cr")
    ]
    assert [job.label for job in jobs] == ["no_pe", "no_pe", "pe", "pe"] * 2
    assert {job.config.data.max_len for job in jobs} == {20, 40}


def test_a_study_of_the_users_own_is_a_file(tmp_path: Path) -> None:
    """The baseline comes first wherever it stands; the study has the file's name."""
    file = tmp_path / "a=b c.yaml"
    file.write_text("baseline: b\nvariants: {a: [model.heads=4], b: []}\noverrides: ['seed=0,1']\n")
    planned = plan([f"study={file}"])
    assert (planned.directory.name, [*planned.variants]) == ("a-b-c", ["b", "a"])
    assert [(job.label, job.config.seed, job.config.model.heads) for job in planned.jobs] == [
        ("b", 0, 8), ("a", 0, 4), ("b", 1, 8), ("a", 1, 4),
    ]  # fmt: skip
    factors = "factors: {x: {a: [], b: [model.heads=4]}, y: {c: [], d: [model.d_model=8]}}"
    executor = "variants: {a: []}\noverrides: [executor.workers=1]"
    for more, said in ((executor, r"executor\.workers=1"), (factors, "no baseline")):
        file.write_text(f"baseline: a\n{more}")
        with pytest.raises(UserError, match=said):
            plan([f"study={file}"])
