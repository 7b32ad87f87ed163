"""K's table beside our seeds, and one published study to the digit."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import PUBLISHED

import attnexp
from attnexp.analysis import kexue
from attnexp.analysis.kexue import agreements_with_k, k_rows_like
from attnexp.analysis.read_runs import load_groups
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.runs.labels import default_settings, settings

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


def test_the_settings_beside_ks_table_are_those_of_today() -> None:
    stored = json.loads((Path(kexue.__file__).parent / "kexue.json").read_bytes())
    assert stored == {name: default_settings(f"position={name}") for name in stored}
