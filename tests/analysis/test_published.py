"""What is published of a study gives the tables of the whole, and all that is published is well."""

import io
import re
import runpy
import shutil
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from samples import but, planned, result

from attnexp.analysis.comparison import compare
from attnexp.analysis.results import correct
from attnexp.base.errors import UserError
from attnexp.inspect.doctor import examine
from attnexp.report.formats import as_json
from attnexp.runs import manifest, predictions, store
from attnexp.runs.arrays import WEIGHTS

PUBLISHED = ROOT / "outputs" / "published"


def publish(home: Path, *folders: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of docs/publish.py in a checkout that is `home`."""
    program = home / "docs" / "publish.py"
    program.parent.mkdir(exist_ok=True)
    shutil.copy(ROOT / "docs" / "publish.py", program)
    main = runpy.run_path(str(program))["main"]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main([str(folder) for folder in folders])
    return code, out.getvalue(), err.getvalue()


def finish(root: Path, study: str, code: str, *words: str, num_classes: int = 2) -> Path:
    """A study of two variants and seeds on 25,000 texts, as if it had been run under `root`."""
    rng = np.random.default_rng(0)
    runs = []
    for seed in range(2):
        for label, position in (("no_pe", "none"), ("pe", "sinusoidal")):
            run = result(label, seed, [0.8, 0.7], f"position={position}", *words)
            folder = store.run_dir(root, f"{study}{label}{seed}-{code}")
            folder.mkdir(parents=True)
            shape = (25_000,) if num_classes == 2 else (25_000, num_classes)
            names = predictions.BEST, predictions.FINAL, predictions.TEST
            logits = {name: rng.normal(size=shape).astype(np.float32) for name in names}
            labels = rng.integers(num_classes, size=25_000).astype(np.uint8)
            truth = dict.fromkeys((predictions.VAL_LABELS, predictions.TEST_LABELS), labels)
            predictions.save(folder, {**logits, **truth})
            (folder / WEIGHTS).write_bytes(bytes(10_000_000))
            made = but(run, run_id=folder.name, files=store.digests(folder))
            store.save(folder, made.result)
            runs.append(made)
    manifest.record(root / study, planned(*runs))
    return root / study


def named(root: Path) -> set[str]:
    """Ids of the runs that the studies under `root` say they are made of."""
    studies = filter(None, map(manifest.load, root.iterdir()))
    return {entry.run_id for study in studies for entry in study.runs}


def stored(root: Path) -> set[Path]:
    """What lies in the folder of runs."""
    return set((root / store.RUNS).iterdir())


def needed(root: Path) -> set[Path]:
    """The runs that studies name, and the files that these share."""
    runs = {store.run_dir(root, run_id) for run_id in named(root)}
    return runs | {store.shared_file(run) for run in runs}


@pytest.mark.parametrize(
    ("words", "num_classes"), [((), 2), ((), 3), (("train=holdout",), 2)], ids=str
)
def test_what_is_published_gives_the_same_tables(
    tmp_path: Path, words: tuple[str, ...], num_classes: int
) -> None:
    study = finish(tmp_path / "made", "mine", "1", *words, num_classes=num_classes)
    code, _, err = publish(tmp_path, study)
    assert (code, err) == (0, "")
    root = tmp_path / "outputs" / "published"
    (whole,), (copy,) = (compare(manifest.load_runs([f])) for f in (study, root / "mine"))
    assert as_json([copy]) == as_json([whole])
    assert copy.differences["pe"]["final"].mcnemar.keys() == {"0", "1"}
    assert examine(root)["troubles"] == []
    assert sum(file.stat().st_size for file in root.rglob("*.*")) < 4 * 15_000
    for run in manifest.load_runs([root / "mine"]):
        source = store.load(store.run_dir(study.parent, run.result.run_id))
        assert run.result == replace(source, files=run.result.files)
        with pytest.raises(UserError, match="published without it"):
            run.read(WEIGHTS)
    shutil.copytree(run.path, alone := tmp_path / run.path.name)
    shared = store.shared_file(alone)
    with pytest.raises(UserError, match=rf"{shared} is missing, which belongs to the published"):
        store.load(alone)
    shared.write_text("{}")
    with pytest.raises(UserError, match=rf"damaged \({shared.name} is not what attnexp wrote"):
        store.load(alone)


def test_a_copy_holds_the_best_epoch_of_the_variant_and_the_last(tmp_path: Path) -> None:
    """Which texts were right after any other epoch is not published."""
    assert publish(tmp_path, finish(tmp_path / "made", "mine", "1"))[0] == 0
    run = manifest.load_runs([tmp_path / "outputs" / "published" / "mine"])[0]
    names = {f"{predictions.CORRECT}{epoch}" for epoch in (1, 2)}
    assert predictions.load(run).keys() == names
    assert correct(run, 1).keys() == {"best", "final"}
    assert correct(run, 3).keys() == {"final"}


def test_a_study_published_again_takes_the_place_of_what_it_was(tmp_path: Path) -> None:
    """Its runs are replaced too, except those that another study has."""
    root = tmp_path / "outputs" / "published"
    old, other = finish(tmp_path / "made", "mine", "1"), finish(tmp_path / "made", "other", "1")
    assert publish(tmp_path, old, other)[0] == 0
    shutil.rmtree(old)
    new = finish(tmp_path / "made", "mine", "2")
    shutil.rmtree(next((tmp_path / "made" / store.RUNS).glob("mine*-2")))  # it has yet to be made
    assert "3 of 4 runs" in publish(tmp_path, new)[1]
    assert len(named(root)) == 3 + 4
    assert stored(root) == needed(root)
    assert publish(tmp_path, finish(tmp_path / "made", "other", "2"))[0] == 0
    assert stored(root) == needed(root)


def test_no_path_of_a_machine_is_published(tmp_path: Path) -> None:
    path = f"data.path={tmp_path}/reviews"
    assert publish(tmp_path, finish(tmp_path / "made", "mine", "1", path))[0] == 0
    (run, *_) = manifest.load_runs([tmp_path / "outputs/published/mine"])
    assert run.result.config["data"]["path"] == "reviews"
    for root in (PUBLISHED, tmp_path / "outputs/published"):
        texts = {file: file.read_text() for file in root.rglob("*.json")}
        assert [file for file, text in texts.items() if re.search(r'[\s"=]/\w+/', text)] == []


def test_what_is_no_study_is_not_published(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert publish(tmp_path, nowhere) == (2, "", f"{nowhere} holds no study.\n")


def test_all_that_is_published_is_whole_named_and_small() -> None:
    found = examine(PUBLISHED)
    assert found["troubles"] == []
    assert stored(PUBLISHED) == needed(PUBLISHED)
    assert found["runs"] == len(named(PUBLISHED)) > 0
    assert sum(file.stat().st_size for file in PUBLISHED.rglob("*") if file.is_file()) < 10e6
