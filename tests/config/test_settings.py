"""Every YAML file composes and says what it is for; no accepted setting does nothing."""

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from samples import composed, each_once, redrawn, write_file

from attnexp.base.errors import UserError
from attnexp.config.compose import compose, overlay
from attnexp.config.options import describe, groups
from attnexp.config.schema import TOKENIZERS, RunConfig, to_dict, walk
from attnexp.config.settings import flatten
from attnexp.config.study import load_study
from attnexp.data.encode import load_once
from attnexp.network.build import build_model, try_to_build
from attnexp.sweeps.plan import plan
from attnexp.training.run import train_run

PLACES = {"out", "data.path", "data.config", "data.header", "data.quotes", "data.text",
          "data.label", "data.train_split", "data.test_split", "data.test_share",
          "model.vectors"}  # fmt: skip
"""Settings that say where content lies; the content counts, its place does not."""
MACHINE = {"train.device", "train.threads", "train.fast"}
"""Settings that change a result by rounding alone."""
RARELY = {"mask.query", "position.shuffled", "train.patience"}
"""Settings that are shown although not every model or data set has a use for them."""

MODELS = [
    *(f"model={name}" for name in groups()["model"] if name != "tfidf"),
    *each_once("mask", "model.pooling", "position", "model.score"),
    *("model=mean position=sinusoidal", "model=fasttext position=learned"),
    "model=lstm position=learned model.before=cnn",
    *("model=mean position=shuffled model.pooling=max", "model.score=additive position=rotary"),
    "model.layers=2 model.norm=pre model.residual=true model.feed_forward=3 model.hidden=4",
    "model.layers=2 model.pooling=masked_mean mask=padding position=relative",
]


def others(config: RunConfig, key: str) -> list[Any]:
    """Other values of a setting: every other option, or a number near it."""
    places = {name: (section, field) for name, section, field in walk(config)}
    section, field = places[key]
    kind: Any = field.type
    value = getattr(section, field.name)
    options: list[Any]
    if key == "data.tokenizer":
        options = [*TOKENIZERS]
    elif key == "train.loss":
        options = ["torch.nn.functional:mse_loss"]
    elif isinstance(value, str):
        options = TypeAdapter(kind).json_schema()["enum"]
    elif isinstance(value, bool):
        options = [not value]
    elif isinstance(value, int):
        options = [value + 2]
    elif isinstance(value, float):
        options = [value / 2 + 0.1]
    else:
        options = [0.01 if "float" in str(kind) else 6]
    return [option for option in options if option != value]


def changed(config: RunConfig, key: str) -> Iterator[tuple[Any, RunConfig]]:
    """The config with another value of one setting, wherever that is accepted."""
    for value in others(config, key):
        with suppress(UserError):
            other = overlay(to_dict(config), [f"{key}={value}"])
            try_to_build(other)
            yield value, other


def behaviour(config: RunConfig) -> tuple[object, ...]:
    """A model's parameters, and what it says of some reviews with and without dropout."""
    model = redrawn(build_model(config))
    ids = torch.randint(1, 12, (6, 6), generator=torch.Generator().manual_seed(0))
    ids[1:3, :3] = 0
    model.eval()
    said = [model(ids)]
    torch.manual_seed(0)
    said.append(model.train()(ids))
    shapes = {name: (*p.shape, p.requires_grad) for name, p in model.named_parameters()}
    return shapes, torch.cat(said).detach().numpy().round(9).tolist()


def settings(config: RunConfig, *sections: str) -> list[str]:
    keys = {key for key in flatten(to_dict(config)) if key.startswith(sections)}
    return sorted(key for key in keys - PLACES - MACHINE - RARELY if not key.endswith("kind"))


@pytest.mark.parametrize("words", MODELS)
def test_every_setting_of_a_piece_changes_the_model(words: str) -> None:
    config = composed(words)
    before = behaviour(config)
    for key in settings(config, "model.", "position.", "mask."):
        for value, other in changed(config, key):
            assert behaviour(other) != before, f"{key}={value} does nothing"


def outcome(config: RunConfig) -> tuple[Any, ...]:
    """Ids of the texts, and figures of a run."""
    data = load_once(config.data)
    _, result = train_run(config)
    rows = [(row.train_loss, row.train_loss_after, row.val_loss) for row in result.epochs]
    return data.train.ids.tolist(), data.test.ids.tolist(), rows, result.test, result.parameters


REVIEWS = [
    "Well, it's good! A film that one may see -- again and again, and then again; really.",
    "bad.",
    "the good 好看 the bad",
    "It isn't bad, (not) at all: good",
]


SECTIONS = {
    "": ["data.", "seed"],
    "train=holdout train.holdout=0.5": ["train.", "seed"],
    "model=tfidf": ["data.", "train."],  # it draws nothing: the seed is a name
    "model=tfidf train=holdout train.holdout=0.5": ["train.", "seed"],
}


@pytest.mark.parametrize(("words", "sections"), SECTIONS.items())
def test_every_setting_of_data_and_training_changes_what_comes_out(
    words: str, sections: list[str], tmp_path: Path
) -> None:
    for split, label, i in product(("train", "test"), ("pos", "neg"), range(8)):
        file = tmp_path / "reviews" / split / label / f"{i}_7.txt"
        write_file(file, f"{REVIEWS[i % 4]} {label} {i}")
    given = ["data=files", f"data.path={tmp_path}/reviews", "data.max_len=6", "data.vocab_size=12"]
    given += [f"out={tmp_path}", "train.threads=1", *words.split()]
    if "tfidf" not in words:
        given += ["train.epochs=1", "train.batch_size=4", "model.d_model=8"]
    config = compose(given)
    before = outcome(config)
    for key in {*settings(config, *sections)} - {"data.name"}:
        for value, other in changed(config, key):
            assert outcome(other) != before, f"{key}={value} does nothing"


@pytest.mark.parametrize("group", sorted({*groups()} - {"experiment", "study", "executor"}))
def test_every_option_but_another_name_composes_to_a_config_of_its_own(group: str) -> None:
    configs = []
    for option, meaning in describe()[group].items():
        path = ["data.path=someone/reviews"] if option in ("files", "hub") else []
        if not meaning.startswith("Another name of "):
            configs.append(repr(compose([f"{group}={option}", *path])))
    assert len({*configs}) == len(configs)


@pytest.mark.parametrize("study", groups()["study"])
def test_every_study_plans_runs_of_every_variant(study: str) -> None:
    jobs = plan([f"study={study}", "seed=0"]).jobs
    assert [*dict.fromkeys(job.label for job in jobs)] == [*load_study(study).variants]


def test_every_file_says_what_it_is_for() -> None:
    for group, meanings in describe().items():
        assert all(meanings.values()), group


@pytest.mark.parametrize(("group", "command"), [("experiment", "train"), ("study", "sweep")])
def test_every_experiment_and_study_names_its_claims_and_command(group: str, command: str) -> None:
    for name, path in groups()[group].items():
        text = path.read_text()
        assert "laims" in text, name
        assert re.search(f"Command: attnexp {command}.*{group}={name}", text), name


@pytest.mark.parametrize("experiment", groups()["experiment"])
def test_every_experiment_builds(experiment: str) -> None:
    build_model(compose([f"experiment={experiment}"]))
