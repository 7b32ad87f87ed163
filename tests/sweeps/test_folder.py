"""Folders of sweeps: each holds one plan, to which seeds may be added."""

from pathlib import Path

import pytest
from conftest import Capture
from samples import stored_study, write_file
from sweeping import SMOKE, Pretend, small

from attnexp.base.errors import UserError
from attnexp.data.encode import last_read
from attnexp.runs.manifest import Manifest
from attnexp.sweeps.answer import answer_of_sweep
from attnexp.sweeps.folder import assign_folder, manifest_of
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import run_sweep
from attnexp.sweeps.sequential import plan_until_decided

AXIS = "position=none,sinusoidal"
THREE = "seed=range(3)"

pytestmark = pytest.mark.usefixtures("done")


def run(tmp_path: Path, *words: str) -> Manifest:
    return stored_study(finish(small(tmp_path, *words)).directory)


def finish(sweep: Sweep) -> Sweep:
    sweep = assign_folder(sweep)
    run_sweep(sweep)
    return sweep


def test_draws_of_texts_share_a_study_and_word_vectors_do_not(tmp_path: Path) -> None:
    vectors = write_file(tmp_path / "v", "the 1 2\ncast 3 4\nfilm 5 6")
    words = [f"model.vectors={vectors}", "model.d_model=2", "data.limit_train=null"]
    run(tmp_path, *words, "seeds.resample=0,1", "name=same")
    assert len(run(tmp_path, *words, "seeds.resample=2,3", "name=same").runs) == 4
    vectors.write_text("the 1 2\ncast 3 4\nfilm 5 7")
    with pytest.raises(UserError, match="same holds another plan"):
        small(tmp_path, *words, "seeds.resample=2,3", "name=same")


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


def test_a_name_holds_one_plan(tmp_path: Path) -> None:
    words = [AXIS, "train.epochs=1", "name=mine"]
    run(tmp_path, *words, THREE)
    study = run(tmp_path, *words, "seed=3,4", "train.device=cpu")
    assert {entry.seed for entry in study.runs} == set("01234")
    with pytest.raises(UserError, match=r"mine holds another plan \(.*train\.lr=1\)"):
        assign_folder(small(tmp_path, *words, "seed=3,4", "train.lr=1"))
    with pytest.raises(UserError, match=r"the kind of seeds: seed, here seeds\.init"):
        assign_folder(small(tmp_path, *words, "seeds.init=5"))


KINDS = {
    "seed=5": "seed",
    "seed=range(3) seeds.init=7": "seed",
    "seeds.order=3": "seeds.order",
    "position=none,rotary seeds.init=null,1": "seeds.init",
    "study=variance seed=0": "seeds.init x seeds.order x seeds.resample",
}


@pytest.mark.parametrize("words", KINDS)
def test_the_kind_of_seeds_is_what_differs(tmp_path: Path, words: str) -> None:
    sweep = small(tmp_path, *words.split())
    assert manifest_of(sweep).seed_kind == KINDS[words]
    answer = answer_of_sweep(sweep, run_sweep(sweep))  # Runs of all these seeds are one variant.
    assert answer.comparisons[0].group.variants == list(sweep.levels_by_label)
    assert "Missing" not in " ".join(answer.notes)


def test_seeds_added_to_a_complete_study_are_recorded(tmp_path: Path, pretend: Pretend) -> None:
    pretend(fails=lambda config: config.seed == 2)
    run(tmp_path, AXIS, THREE)
    pretend(fails=lambda config: config.seed == 6)
    added = {4: [], 2: [], 5: ["4"], 7: ["4", "5", "6"], 8: ["4", "5", "6", "7"]}
    for num_seeds, expected in added.items():  # Until then it had not been complete.
        study = run(tmp_path, AXIS, f"seed=range({num_seeds})")
        assert study.added_seeds == expected


def test_an_edited_file_is_another_plan(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "my.csv"
    words = ["data=files", f"data.path={file}", AXIS, THREE]
    rows = "".join(f"good{n},pos\nbad{n},neg\n" for n in range(900))
    file.write_text(f"text,label\n{rows}")
    finish(small(tmp_path, *words))
    file.write_text(f"text,label\n{rows}dull,neg\n")
    last_read.clear()
    assert finish(small(tmp_path, *words)).directory.name == "sweep_position-2"
    assert "sweep_position holds another plan (it differs in data, files" in capsys.readouterr().err


def until_decided(tmp_path: Path, num_seeds: int) -> Sweep:
    words = [*SMOKE, AXIS, f"out={tmp_path}", f"seed=range({num_seeds})", "executor.workers=1"]
    return finish(plan_until_decided(words))


def test_a_sequential_study_stays_one(tmp_path: Path) -> None:
    """Its seeds are not added after its answer, unless it had a fixed number of them before."""
    until_decided(tmp_path, 8)
    study = run(tmp_path, AXIS, "seed=range(9)")
    assert (study.sequential, study.added_seeds) == (True, [])
    run(tmp_path / "fixed", AXIS, THREE)
    study = stored_study(until_decided(tmp_path / "fixed", 8).directory)
    assert (study.sequential, study.added_seeds) == (True, ["3", "4", "5", "6", "7"])
