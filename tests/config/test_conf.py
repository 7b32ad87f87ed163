"""Every YAML file composes, says what it is for, and runs."""

import itertools
from pathlib import Path

import pytest

from attnexp.config.compose import compose, compose_executor
from attnexp.config.options import conf_dir, describe, format_groups, groups
from attnexp.config.study import load_study
from attnexp.model.classifier import build_model
from attnexp.sweeps.plan import plan
from attnexp.training.evaluate import evaluate_run
from attnexp.training.run import train_run

NEEDS = {"files": ["data.path=/x"], "hub": ["data.path=x"]}
"""What a kind of data cannot do without."""

SMALL = ["data.limit_train=64", "data.limit_test=64", "data.vocab_size=300"]
TINY = [*SMALL, "model.d_model=8", "train.epochs=2"]


@pytest.mark.parametrize("option", groups()["data"])
def test_every_kind_of_data_composes(option: str) -> None:
    assert compose([f"data={option}", *NEEDS.get(option, [])]).data.name == option


def test_every_option_is_listed_with_what_it_is() -> None:
    lines = format_groups(describe()).splitlines()
    for options in groups().values():
        for option in options:
            assert any(line.startswith(f"  {option}  ") for line in lines), option


@pytest.mark.parametrize("option", groups()["executor"])
def test_every_executor_composes(option: str) -> None:
    assert compose_executor([f"executor={option}"]).kind == option


@pytest.mark.parametrize("study", groups()["study"])
def test_every_study_plans_runs_of_every_variant(study: str) -> None:
    planned = plan([f"study={study}"])
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


def each_once(*chosen: list[str]) -> list[str]:
    """Combinations that have every option, those of the shorter groups more than once."""
    longest = max(map(len, chosen))
    columns = [itertools.islice(itertools.cycle(options), longest) for options in chosen]
    return [" ".join(words) for words in zip(*columns, strict=True)]


BY_GROUP = {
    group: [f"{group}={option}" for option in groups()[group]]
    for group in ("model", "position", "mask", "train")
}
TRAINED = [
    *each_once(BY_GROUP["mask"], BY_GROUP["position"], BY_GROUP["train"]),
    *each_once(BY_GROUP["model"], BY_GROUP["train"]),
]
"""Pairs of all options build and learn in test_classifier.py."""


@pytest.mark.parametrize("words", TRAINED)
def test_every_option_trains_saves_and_evaluates_the_same(words: str, tmp_path: Path) -> None:
    tiny = SMALL if "model=tfidf" in words else TINY
    run_dir, result = train_run(
        compose([*words.split(), "data=contrast", *tiny, "train.threads=1", f"out={tmp_path}"])
    )
    assert len(result.epochs) == (1 if "model=tfidf" in words else 2)
    assert evaluate_run(run_dir) == (result.test, result.test)


@pytest.mark.parametrize("experiment", groups()["experiment"])
def test_every_experiment_trains(experiment: str, tmp_path: Path) -> None:
    words = [f"experiment={experiment}", "data=contrast", *SMALL, "train.epochs=1"]
    _, result = train_run(compose([*words, f"out={tmp_path}"]))
    assert result.final.epoch == 1


@pytest.mark.parametrize("name", ["experiment=blog_no_pe", "experiment=blog_pe", "model=lstm"])
def test_presets_have_the_known_number_of_parameters(name: str) -> None:
    """K's 2,609,281; Keras's imdb_lstm has 2,560,000 + 131,584 + 129."""
    model = build_model(compose([name]))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained == (2_691_713 if name == "model=lstm" else 2_609_281)
