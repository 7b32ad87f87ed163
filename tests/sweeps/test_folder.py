"""Folders of sweeps: each holds one plan, to which seeds may be added."""

import shlex
from pathlib import Path

import pytest
from conftest import Capture
from samples import stored_study
from sweeping import SMOKE, Pretend, small

from attnexp.base.errors import UserError
from attnexp.runs.manifest import Manifest
from attnexp.statistics.verdict import MetricSpec
from attnexp.sweeps.folder import choose_folder, manifest_of
from attnexp.sweeps.plan import Sweep, plan
from attnexp.sweeps.schedule import run_sweep
from attnexp.sweeps.sequential import plan_until_decided
from attnexp.training.inputs import last_read

AXIS = "position=none,sinusoidal"
THREE = "seed=range(3)"

pytestmark = pytest.mark.usefixtures("done")


def run(tmp_path: Path, *words: str) -> Manifest:
    return stored_study(finish(small(tmp_path, *words)).directory)


def finish(sweep: Sweep) -> Sweep:
    sweep = choose_folder(sweep)
    run_sweep(sweep)
    return sweep


def test_a_sweep_without_a_name_gets_a_folder_a_plan(tmp_path: Path, capsys: Capture) -> None:
    commands = {
        "sweep_position": ["train.epochs=1"],
        "sweep_position-2": ["train.epochs=2"],
        "sweep_position-3": ["train.epochs=2", "data.limit_test=32"],
    }
    for _ in range(2):  # repeated, each resumes its own
        for name, words in commands.items():
            assert finish(small(tmp_path, AXIS, THREE, *words)).directory == tmp_path / name
    reason = "sweep_position holds another plan (it differs in "
    assert capsys.readouterr().err.count(reason) == 4
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"runs", *commands}
    assert all(len(stored_study(tmp_path / name).runs) == 6 for name in commands)


def test_a_name_holds_one_plan(tmp_path: Path) -> None:
    words = [AXIS, "train.epochs=1", "name=mine"]
    study = run(tmp_path, *words, THREE)
    assert (study.seed_kind, study.sequential, study.added_seeds) == ("seed", False, [])
    assert study.settings["position=sinusoidal"]["contrast"]["train.epochs"] == 1
    more = run(tmp_path, *words, "seed=3,4", "train.device=cpu")
    assert {entry.seed for entry in more.runs} == set("01234")
    with pytest.raises(UserError, match=r"mine holds another plan \(.*train\.lr=1\)"):
        choose_folder(small(tmp_path, *words, "seed=3,4", "train.lr=1"))
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"runs", "mine"}


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("seed=5", "seed"),
        ("seed=range(3) seeds.init=7", "seed"),
        ("seeds.order=3", "seeds.order"),
        ("seed=1 seeds.resample=range(3)", "seeds.resample"),
        ("study=variance", "seed x seeds.init x seeds.order x seeds.resample"),
    ],
)
def test_the_kind_of_seeds_is_what_differs(tmp_path: Path, words: str, kind: str) -> None:
    assert manifest_of(small(tmp_path, *words.split()), []).seed_kind == kind


def test_seeds_added_to_a_complete_study_are_recorded(tmp_path: Path, pretend: Pretend) -> None:
    pretend(fails=lambda config: config.seed == 2)
    assert run(tmp_path, AXIS, THREE).added_seeds == []
    pretend()
    assert run(tmp_path, AXIS, "seed=range(4)").added_seeds == []  # it had not been complete
    assert run(tmp_path, AXIS, "seed=range(2)").added_seeds == []
    assert run(tmp_path, AXIS, "seed=range(5)").added_seeds == ["4"]
    pretend(fails=lambda config: config.seed == 6)
    assert run(tmp_path, AXIS, "seed=range(7)").added_seeds == ["4", "5", "6"]
    assert run(tmp_path, AXIS, "seed=range(8)").added_seeds == ["4", "5", "6", "7"]


def test_an_edited_file_is_another_plan(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "my.csv"
    no_limits = ["data.limit_train=null", "data.limit_test=null"]
    words = ["data=files", f"data.path={file}", *no_limits, AXIS]
    rows = [f"word{n},{'pos' if n % 2 else 'neg'}\n" for n in range(40)]
    file.write_text(f"text,label\n{''.join(rows)}")
    finish(small(tmp_path, *words, THREE))
    file.write_text(f"text,label\n{''.join(rows[1:])}")
    last_read.clear()
    other = finish(small(tmp_path, *words, THREE))
    assert other.directory.name == "sweep_position-2"
    said = capsys.readouterr().err
    assert "sweep_position holds another plan (it differs in data, files" in said


def test_metric_and_margin_are_of_the_plan(tmp_path: Path) -> None:
    sweep = small(tmp_path, AXIS, THREE, "name=mine")
    other = plan(shlex.split(sweep.command)[2:], MetricSpec(name="macro_f1", margin=0.02))
    study = stored_study(finish(other).directory)
    assert (study.metric, study.margin) == ("macro_f1", 0.02)
    assert study.commands[0].endswith("name=mine --metric=macro_f1 --margin=2")
    with pytest.raises(UserError, match=r"\(it differs in --margin=2 --metric=macro_f1\)"):
        choose_folder(sweep)


def until_decided(tmp_path: Path, num_seeds: int) -> Sweep:
    words = [*SMOKE, AXIS, f"out={tmp_path}", f"seed=range({num_seeds})", "executor.workers=1"]
    return finish(plan_until_decided(words))


def test_a_sequential_study_stays_one(tmp_path: Path) -> None:
    """Its seeds are not added after its answer, unless it had a fixed number of them before."""
    first = until_decided(tmp_path, 8)
    later = finish(small(tmp_path, AXIS, "seed=range(9)"))
    assert later.directory == first.directory
    assert later.sequential
    study = stored_study(later.directory)
    assert (study.sequential, study.added_seeds) == (True, [])
    run(tmp_path / "fixed", AXIS, THREE)
    study = stored_study(until_decided(tmp_path / "fixed", 8).directory)
    assert (study.sequential, study.added_seeds) == (True, ["3", "4", "5", "6", "7"])
