"""Published studies: whole, and equal to the folders they come from; K's table beside them."""

import json
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import PUBLISHED, ROOT, Capture, Command, Patch
from samples import FEW_TEXTS, NARROW, message_of, write_file

import attnexp
from attnexp.analysis.kexue import agreements_with_k, k_run_like
from attnexp.analysis.read_runs import load_groups
from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.runs.labels import default_settings, variant_settings


def test_a_path_that_is_given_twice_counts_once() -> None:
    (once,) = load_groups([PUBLISHED / "contrast"])
    (twice,) = load_groups([PUBLISHED / "contrast", PUBLISHED / "contrast.parquet"])
    assert twice.origin.planned == once.origin.planned


def test_a_damaged_published_file_or_study_is_left_out(tmp_path: Path, capsys: Capture) -> None:
    whole = PUBLISHED / "contrast"
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole.with_suffix(".parquet").read_bytes()[:9999])
    with pytest.raises(UserError, match=r"cut.parquet cannot be read .*attnexp judge"):
        load_groups([cut])
    write_file(tmp_path / "blog/study.json", "{")
    messages = {"cut": "cut.parquet cannot be read", "blog": "Delete it and sweep again"}
    for name, message in messages.items():
        assert len(load_groups([tmp_path / name, whole])) == 1
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("protocol", ["blog", "holdout"])
def test_a_published_study_equals_its_folder(
    tmp_path: Path, here: Command, monkeypatch: Patch, protocol: str
) -> None:
    words = [*FEW_TEXTS, *NARROW, f"train={protocol}", "train.epochs=2", "executor.workers=1"]
    done = here("sweep", *words, "position=none,sinusoidal", "seed=0,1", "name=s")
    assert done.returncode == 0, done.stderr
    publish = runpy.run_path(str(ROOT / "docs" / "publish.py"))["publish"]
    monkeypatch.setitem(publish.__globals__, "PUBLISHED", tmp_path)
    publish(tmp_path / "outputs/s", "p")
    paths = [tmp_path / "outputs/s", tmp_path / "p"]
    for ours, theirs in zip(*map(attnexp.results, paths), strict=True):
        keys = [*ours.columns.drop("value")]
        by_key = theirs.set_index(keys)
        pd.testing.assert_frame_equal(by_key, ours.set_index(keys), check_like=True)
    (folder,), (file,) = [load_groups([path]) for path in paths]
    assert (file.variants, file.origin.planned) == (folder.variants, folder.origin.planned)
    for variant, setup in folder.origin.setups.items():
        assert file.origin.setups[variant].facts["parameters"] == setup.facts["parameters"] > 0
    assert len(folder.right) >= 4
    np.testing.assert_equal(file.right, folder.right)
    assert str(tmp_path).encode() not in (tmp_path / "p.parquet").read_bytes()


def test_results_have_a_column_for_every_setting_that_varies() -> None:
    for frame in attnexp.results(PUBLISHED / "position_x_scale"):
        assert len(frame[["variant", "model.score.scale", "position"]].drop_duplicates()) == 4
        assert {*frame["position"]} == {"none", "sinusoidal"}
        assert {*frame["seed"]} == {*range(100, 120)}
        assert "train.lr" not in frame


@pytest.mark.parametrize("file", sorted(PUBLISHED.glob("*[!e].parquet")), ids=lambda f: f.stem)
def test_every_published_study_is_complete_and_says_when_its_runs_started(file: Path) -> None:
    for group in load_groups([file]):
        assert not group.missing()
        assert len(group.variants) > 1
    assert pd.read_parquet(file, columns=["started"])["started"].notna().all()


def test_ks_values_are_counted_for_each_set_of_settings_that_differ_from_his() -> None:
    (group,) = load_groups([PUBLISHED / "blog_cells"])
    scale, eps = "model.score.scale=true", "train.eps=1e-07"
    num_inside = {row.unlike: row.num_inside for row in agreements_with_k(group)}
    assert num_inside == {(): 40, (eps,): 39, (scale,): 24, (scale, eps): 22}


def test_two_seeds_cannot_say_where_ks_values_would_lie() -> None:
    (group,) = load_groups([PUBLISHED / "blog"])
    three = group.epochs.query("seed <= '102'")
    assert len(agreements_with_k(replace(group, epochs=three))) == 1
    assert agreements_with_k(replace(group, epochs=three.query("seed != '102'"))) == []


@pytest.mark.parametrize(
    ("words", "position"),
    [
        ("experiment=blog_pe", "sinusoidal"),
        ("experiment=blog_no_pe train.epochs=2", "none"),
        ("position=rotary", None),
        ("model=mean", None),
    ],
)
def test_only_ks_experiment_is_compared_with_his_table(words: str, position: str | None) -> None:
    of_run = variant_settings(to_dict(compose(words.split())))
    rows = k_run_like(of_run, {"n_train": 25_000, "n_test": 25_000})
    assert (None if rows is None else rows["position"].unique().item()) == position
    assert k_run_like(of_run, {"n_train": 100, "n_test": 25_000}) is None


def test_compare_is_the_difference_of_the_document() -> None:
    file = PUBLISHED / "blog.parquet"
    assert [*attnexp.compare(file, margin=3)["verdict"]] == ["equivalent", "equivalent"]
    messages = [message_of(attnexp.compare, file, margin=margin) for margin in (0.05, np.nan)]
    assert all("in points" in message for message in messages)
    assert {*attnexp.__all__} < {*dir(attnexp)}  # Notebooks complete these names.


def test_the_settings_beside_ks_table_are_those_of_today_but_for_two() -> None:
    stored = json.loads((ROOT / "attnexp/analysis/kexue.json").read_bytes())
    k_settings = ("model.score.scale=false", "train.eps=1e-8")
    assert stored == {name: default_settings(f"position={name}", *k_settings) for name in stored}
