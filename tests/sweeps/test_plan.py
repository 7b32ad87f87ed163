"""Plans: the right runs, each once, in pairs."""

from pathlib import Path

import pytest

from attnexp.base.errors import UserError
from attnexp.statistics.verdict import MetricSpec
from attnexp.sweeps.plan import plan


def test_a_study_runs_its_variants_seed_by_seed_baseline_first() -> None:
    planned = plan(["study=blog", "data=contrast"])
    assert planned.directory == Path("outputs/blog")
    assert [job.label for job in planned.jobs] == ["no_pe", "pe"] * 10
    assert [job.config.seed for job in planned.jobs[::2]] == [*range(10)]
    positions = {job.label: job.config.position.name for job in planned.jobs}
    assert positions == {"no_pe": "none", "pe": "sinusoidal"}
    f1 = MetricSpec(name="macro_f1", margin=0.0212345)
    command = plan(["study=blog", "seed=0,1"], f1).command
    assert command == "attnexp sweep study=blog seed=0,1 --metric=macro_f1 --margin=2.12345"


def test_axes_multiply_and_name_the_variants_unless_of_data_or_seeds() -> None:
    planned = plan(["position=none,sinusoidal", "model.heads=1,8", "seed=0,1"])
    assert planned.directory.name == "sweep_position_x_model.heads"
    assert [job.label for job in planned.jobs] == [*planned.levels_by_label] * 2
    assert len(planned.levels_by_label) == 4
    factors = {"position": "position=none", "model.heads": "model.heads=8"}
    assert planned.levels_by_label["position=none model.heads=8"] == factors
    jobs = plan(["study=blog", "data=trec,cr", "seed=0", "seeds.init=0,1,1,0"]).jobs
    assert [job.label for job in jobs] == ["no_pe", "no_pe", "pe", "pe"] * 2
    assert [job.config.data.name for job in jobs] == ["trec", "cr"] * 4
    assert [job.seed_name for job in jobs] == ["0"] * 4 + ["0-init1"] * 4


def test_a_study_of_the_users_own_is_a_file(tmp_path: Path) -> None:
    """The baseline comes first wherever it stands; the study has the file's name."""
    file = tmp_path / "a=b c.yaml"
    file.write_text("baseline: b\nvariants: {a: [model.heads=4], b: []}\noverrides: ['seed=0,1']\n")
    planned = plan([f"study={file}"])
    assert (planned.directory.name, [*planned.levels_by_label]) == ("a-b-c", ["b", "a"])
    assert [job.config.model.heads for job in planned.jobs] == [8, 4] * 2
    factors = "factors: {x: {a: [], b: [model.heads=4]}, y: {c: [], d: [model.d_model=8]}}"
    file.write_text(f"baseline: a\n{factors}")
    with pytest.raises(UserError, match=r"yaml: give two .* no baseline\. It has"):
        plan([f"study={file}"])
    file.write_text("factors: {x: {a: [], a_b: []}, y: {b_c: [], c: []}}")
    with pytest.raises(UserError, match="two pairs of levels have one name"):
        plan([f"study={file}"])
    file.write_text(factors.replace("x:", "mask:"))
    with pytest.raises(UserError, match=r"Rename mask and y: .* has the same name\."):
        plan([f"study={file}", "mask=none,causal"])
