"""Every YAML file composes, says what it is for, and runs."""

from pathlib import Path

import pytest

from attnexp.config.compose import compose
from attnexp.config.options import conf_dir, describe, groups
from attnexp.config.study import load_study
from attnexp.network.build import build_model
from attnexp.sweeps.plan import plan


def test_every_option_is_listed_with_what_it_is() -> None:
    assert [*map(list, describe().values())] == [*map(list, groups().values())]
    assert all(about for options in describe().values() for about in options.values())


@pytest.mark.parametrize("group", sorted({*groups()} - {"experiment", "study", "executor"}))
def test_every_option_but_another_name_composes_to_a_config_of_its_own(group: str) -> None:
    needs = {"files": ["data.path=reviews.csv"], "hub": ["data.path=someone/reviews"]}
    configs = [
        compose([f"{group}={option}", *needs.get(option, [])])
        for option, meaning in describe()[group].items()
        if not meaning.startswith("Another name of ")
    ]
    assert len({repr(config) for config in configs}) == len(configs)


@pytest.mark.parametrize("study", groups()["study"])
def test_every_study_plans_runs_of_every_variant(study: str) -> None:
    planned = plan([f"study={study}", "seed=0"])
    assert {job.label for job in planned.jobs} == set(load_study(study).variants)
    assert planned.jobs[0].label == next(iter(load_study(study).variants))
    assert planned.directory.name == study


@pytest.mark.parametrize("path", sorted(conf_dir().rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_opens_with_what_it_is_for(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    assert first.startswith("# ")
    if path.parent.name in ("experiment", "study"):
        text = "\n".join(line for line in path.read_text().splitlines() if line.startswith("#"))
        assert "laims" in text
        assert f"Command: attnexp {'sweep' if path.parent.name == 'study' else 'train'}" in text
        assert f"{path.parent.name}={path.stem}" in text


def test_every_experiment_builds() -> None:
    """K's has 2,609,281 parameters; Keras's imdb_lstm has 2,560,000 + 131,584 + 129."""
    found = {}
    for experiment in groups()["experiment"]:
        model = build_model(compose([f"experiment={experiment}"]))
        found[experiment] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert found["blog_no_pe"] == found["blog_pe"] == 2_609_281
    assert found["lstm"] == 2_691_713
