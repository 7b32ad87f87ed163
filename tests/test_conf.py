"""Every YAML file composes, says what it is for, and runs."""

import itertools
from pathlib import Path

import pytest

from attnexp.compose import compose, conf_dir, groups, load_study
from attnexp.sweep import plan
from attnexp.train import train_run

NEEDS = {"data=files": ["data.path=/x"], "data=hub": ["data.path=x"]}
"""What an option cannot do without."""

OPTIONS = [
    f"{group}={option}"
    for group, options in groups().items()
    for option in options
    if group != "study"
]
TINY = ["data.limit_train=64", "data.limit_test=64", "model.d_model=8", "train.epochs=2"]


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_composes(option: str) -> None:
    compose([option, *NEEDS.get(option, [])])


@pytest.mark.parametrize("study", groups()["study"])
def test_every_study_plans_runs_of_every_variant(study: str) -> None:
    planned = plan([f"study={study}"])
    assert {job.label for job in planned.jobs} == set(load_study(study)["variants"])
    assert planned.jobs[0].label == load_study(study)["baseline"]
    assert planned.folder == study


@pytest.mark.parametrize("path", sorted(conf_dir().rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_opens_with_what_it_is_for(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    assert first.startswith("# ")
    if path.parent.name in ("experiment", "study"):
        comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
        text = "\n".join(comments)
        assert "laims" in text
        assert f"Command: attnexp {'sweep' if path.parent.name == 'study' else 'train'}" in text
        assert f"{path.parent.name}={path.stem}" in text


PAIRS = [
    (one, other)
    for one, other in itertools.combinations(OPTIONS, 2)
    if one.split("=")[0] != other.split("=")[0]
    and not {"data", "experiment", "train"} & {one.split("=")[0], other.split("=")[0]}
]


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_every_pair_of_pieces_trains(pair: tuple[str, str], tmp_path: Path) -> None:
    _, result = train_run(compose([*pair, "data=contrast", *TINY, f"out={tmp_path}"]))
    assert len(result.epochs) == 2


def test_no_file_speaks_of_hydras_own_settings() -> None:
    """`${hydra:...}` is unset when composing without `@hydra.main`."""
    assert not [path for path in conf_dir().rglob("*.yaml") if "${hydra" in path.read_text()]
