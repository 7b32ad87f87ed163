"""Published studies: whole, and equal to the folders they come from; K's table beside them."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import PUBLISHED, ROOT, Capture, Patch
from samples import FEW_TEXTS, NARROW, but, message_of, result, save_study

import attnexp
from attnexp.analysis.kexue import agreements_with_k, k_rows_like
from attnexp.analysis.read_runs import load_groups
from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.runs.labels import default_settings, settings
from attnexp.runs.manifest import Manifest, PlannedRun, record_runs
from attnexp.training.run import train_run


def test_a_path_that_is_given_twice_counts_once() -> None:
    (once,) = load_groups([PUBLISHED / "blog"])
    (twice,) = load_groups([PUBLISHED / "blog", PUBLISHED / "blog.parquet"])
    pd.testing.assert_frame_equal(once.endpoints, twice.endpoints)
    assert (once.planned, once.variants) == (twice.planned, twice.variants)


def test_a_damaged_published_file_or_study_is_left_out(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "cut.parquet").write_bytes((PUBLISHED / "contrast.parquet").read_bytes()[:9999])
    with pytest.raises(UserError, match=r"cut.parquet cannot be read .*attnexp judge"):
        load_groups([tmp_path / "cut.parquet"])
    assert len(load_groups([tmp_path / "cut", PUBLISHED / "contrast"])) == 1
    assert "cut.parquet cannot be read" in capsys.readouterr().err
    study = tmp_path / "blog"
    study.mkdir()
    (study / "study.json").write_text("{")
    assert len(load_groups([study, PUBLISHED / "contrast"])) == 1
    assert "Delete it and sweep again" in capsys.readouterr().err


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: Patch) -> Any:
    publish = runpy.run_path(str(ROOT / "docs" / "publish.py"))["publish"]
    monkeypatch.setitem(publish.__globals__, "PUBLISHED", tmp_path)
    return publish


@pytest.mark.parametrize("protocol", ["blog", "holdout"])
def test_a_published_study_equals_its_folder(tmp_path: Path, publish: Any, protocol: str) -> None:
    small = [*FEW_TEXTS, *NARROW, "train.epochs=2", f"train={protocol}", f"out={tmp_path}"]
    entries = []
    for number in (0, 1):
        for position in ("none", "sinusoidal"):
            config = compose([*small, f"position={position}", f"seed={number}"])
            _, trained = train_run(config)
            entries.append(PlannedRun(variant=position, seed=str(number), run_id=trained.run_id))
    record_runs(tmp_path / "s", Manifest(variants={"none": {}, "sinusoidal": {}}, runs=entries))
    publish(tmp_path / "s", "p")
    (folder,), (file,) = load_groups([tmp_path / "s"]), load_groups([tmp_path / "p"])
    assert (folder.variants, folder.planned) == (file.variants, file.planned)
    for name in ("endpoints", "epochs"):
        frames = [
            getattr(group, name).sort_values([*getattr(group, name)], ignore_index=True)
            for group in (folder, file)
        ]
        pd.testing.assert_frame_equal(*frames, check_dtype=False)
    assert folder.right.keys() == file.right.keys()
    for place, bits in folder.right.items():
        variant, seed, point = place
        assert np.array_equal(bits, file.right[place])
        assert bits.mean() == folder.values(point, "accuracy").loc[seed, variant]
    assert str(tmp_path) not in (tmp_path / "p.parquet").read_bytes().decode("latin-1")
    started = pd.read_parquet(tmp_path / "p.parquet")["started"]
    assert started.str.match(r"\d{4}-\d\d-\d\dT").all()
    (bare,) = load_groups([tmp_path / "runs"])  # by its settings, whatever studies are beside it
    assert bare.variants == ["position=none", "position=sinusoidal"]


@pytest.mark.parametrize("what", ["config", "code"])
def test_a_label_of_two_configs_is_not_published(tmp_path: Path, publish: Any, what: str) -> None:
    words = ["model.heads=4"] if what == "config" else []
    code = {"model/scores.py": "1"} if what == "code" else {}
    other = but(result("a", 1, [0.8], *words), code=code)
    save_study(tmp_path, [result("a", 0, [0.8]), other], what)
    with pytest.raises(UserError, match=r"a on imdb .* different settings or code"):
        publish(tmp_path / what, what)


def test_results_have_a_column_for_every_setting_that_varies() -> None:
    endpoints, epochs = attnexp.results(PUBLISHED / "position_x_scale.parquet")
    varying = ["model.score.scale", "position"]
    assert {*varying} < {*endpoints} & {*epochs}
    assert "train.lr" not in endpoints
    assert endpoints.groupby("variant")["model.score.scale"].nunique().eq(1).all()
    accuracies = endpoints[endpoints["metric"] == "accuracy"]
    assert len(accuracies) == 4 * 20 * 2
    assert {*accuracies["position"]} == {"none", "sinusoidal"}
    assert set(endpoints["seed"]) == set(range(100, 120))


@pytest.mark.parametrize("file", sorted(PUBLISHED.glob("*[!e].parquet")), ids=lambda f: f.stem)
def test_every_published_study_is_complete_and_says_when_its_runs_started(file: Path) -> None:
    for group in load_groups([file.with_suffix("")]):
        assert not group.missing()
        assert len(group.variants) > 1
    assert pd.read_parquet(file, columns=["started"])["started"].notna().all()


IMDB = {"n_train": 25_000, "n_test": 25_000}
SCALED = ("model.score.scale=true", "train.eps=1e-07")


@pytest.mark.parametrize(
    ("study", "inside", "unlike"),
    [("blog", [40], ()), ("blog_scaled", [19], SCALED), ("blog_cells", [40, 39, 24, 22], ())],
)
def test_ks_values_are_counted(study: str, inside: list[int], unlike: tuple[str, ...]) -> None:
    (group,) = load_groups([PUBLISHED / study])
    found = agreements_with_k(group)
    assert [row.num_inside for row in found] == inside
    assert {row.num_values for row in found} == {40}
    assert found[0].unlike == unlike
    if study != "blog_cells":
        assert (min(found[0].ours), max(found[0].ours)) == (32, 40)
    for num_seeds in (2, 3):  # two cannot say where K's would lie
        rows = group.epochs[group.epochs["seed"].isin([*group.epochs["seed"].unique()[:num_seeds]])]
        assert bool(agreements_with_k(replace(group, epochs=rows))) is (num_seeds > 2)


@pytest.mark.parametrize(
    ("words", "position"),
    [
        ("experiment=blog_pe", ["sinusoidal"]),
        ("experiment=blog_no_pe", ["none"]),
        ("position=none train.epochs=2", ["none"]),
        ("position=rotary", []),
        ("model.heads=4", []),
        ("model=mean", []),
    ],
)
def test_only_ks_experiment_is_compared_with_his_table(words: str, position: list[str]) -> None:
    config = to_dict(compose(words.split()))
    assert [*k_rows_like(settings(config), IMDB)["position"].unique()] == position
    assert k_rows_like(settings(config), {**IMDB, "n_train": 100}).empty


def test_compare_is_the_difference_of_the_document() -> None:
    found = attnexp.compare(PUBLISHED / "blog.parquet", margin=3)
    assert [*found["verdict"]] == ["equivalent", "equivalent"]
    assert "margin=0 is no number of points" in message_of(attnexp.compare, "outputs", margin=0)


def test_the_settings_beside_ks_table_are_those_of_today() -> None:
    stored = json.loads((ROOT / "attnexp/analysis/kexue.json").read_bytes())
    assert stored == {name: default_settings(f"position={name}") for name in stored}
