"""Every YAML file composes, says what it is for, and runs."""

from pathlib import Path

import pytest
from samples import each_once

from attnexp.config.compose import compose, compose_executor
from attnexp.config.options import conf_dir, describe, groups
from attnexp.config.study import load_study
from attnexp.model.classifier import build_model
from attnexp.sweeps.plan import plan
from attnexp.training.evaluate import evaluate_run
from attnexp.training.run import train_run

NEEDS = {"files": ["data.path=/x"], "hub": ["data.path=x"]}
"""What a kind of data cannot do without."""


def test_every_kind_of_data_and_every_executor_composes() -> None:
    for option in groups()["data"]:
        assert compose([f"data={option}", *NEEDS.get(option, [])]).data.name == option
    for option in groups()["executor"]:
        assert compose_executor([f"executor={option}"]).kind == option


def test_every_option_is_listed_with_what_it_is() -> None:
    assert {group: [*options] for group, options in describe().items()} == groups()
    assert all(about for options in describe().values() for about in options.values())


@pytest.mark.parametrize("study", groups()["study"])
def test_every_study_plans_runs_of_every_variant(study: str) -> None:
    planned = plan([f"study={study}", "seed=0"])
    assert {job.label for job in planned.jobs} == set(load_study(study).variants)
    assert planned.jobs[0].label == next(iter(load_study(study).variants))
    assert planned.name == study


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


@pytest.mark.parametrize(
    "words", [*each_once("mask", "position", "train"), *each_once("model", "train")]
)
def test_every_option_trains_saves_and_evaluates_the_same(words: str, tmp_path: Path) -> None:
    """Pairs of all options build and learn in test_classifier.py."""
    small = ["data.limit_train=64", "data.limit_test=64", "data.vocab_size=300"]
    small += [] if "model=tfidf" in words else ["model.d_model=8", "train.epochs=1"]
    run_dir, result = train_run(
        compose([*words.split(), "data=contrast", *small, "train.threads=1", f"out={tmp_path}"])
    )
    assert evaluate_run(run_dir) == (result.test, result.test)


def test_every_experiment_builds() -> None:
    """K's has 2,609,281 parameters; Keras's imdb_lstm has 2,560,000 + 131,584 + 129."""
    found = {}
    for experiment in groups()["experiment"]:
        model = build_model(compose([f"experiment={experiment}"]))
        found[experiment] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert found["blog_no_pe"] == found["blog_pe"] == 2_609_281
    assert found["lstm"] == 2_691_713
