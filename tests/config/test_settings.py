"""Every YAML file composes and says what it is for; no accepted setting does nothing."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
import torch
from samples import composed, each_once, redrawn, write
from torch import Tensor

from attnexp.base.errors import UserError
from attnexp.config.compose import compose, overlay
from attnexp.config.options import conf_dir, describe, groups
from attnexp.config.schema import TOKENIZERS, RunConfig, flatten, to_dict, walk
from attnexp.config.study import load_study
from attnexp.network.build import build_model, try_to_build
from attnexp.sweeps.plan import plan
from attnexp.training.inputs import load_data
from attnexp.training.run import train_run

Behaviour = tuple[dict[str, tuple[Any, ...]], Tensor]
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


def others(config: RunConfig, key: str) -> Iterator[Any]:
    """Other values of a setting: every other option, or a number near it."""
    sections = {name: (section, field) for name, section, field in walk(config)}
    section, field = sections[key]
    value = getattr(section, field.name)
    kind = field.type
    if isinstance(value, bool):
        yield not value
    elif key == "data.tokenizer":
        yield from (option for option in TOKENIZERS if option != value)
    elif key == "train.loss":
        yield "torch.nn.functional:mse_loss"
    elif isinstance(value, str):
        plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        options: Any = get_args(plain) or plain
        yield from (one for one in options if one != value)
    elif isinstance(value, float):
        yield value / 2 + 0.1
    else:
        small = 0.01 if "float" in str(kind) else 6
        yield small if value is None else value + 2


def changed(config: RunConfig, key: str) -> Iterator[tuple[Any, RunConfig]]:
    """The config with another value of one setting, wherever that is accepted."""
    for value in others(config, key):
        with suppress(UserError):
            other = overlay(to_dict(config), [f"{key}={value}"])
            try_to_build(other)
            yield value, other


def behaviour(config: RunConfig) -> Behaviour:
    """A model's parameters, and what it says of some reviews with and without dropout."""
    model = redrawn(build_model(config))
    ids = torch.randint(1, 12, (6, 6), generator=torch.Generator().manual_seed(0))
    ids[1:3, :3] = 0
    model.eval()
    said = [model(ids)]
    torch.manual_seed(0)
    said.append(model.train()(ids))
    shapes = {name: (*p.shape, p.requires_grad) for name, p in model.named_parameters()}
    return shapes, torch.cat(said).detach()


def same(one: Behaviour, other: Behaviour) -> bool:
    (shapes, said), (other_shapes, other_said) = one, other
    return shapes == other_shapes and torch.allclose(said, other_said, rtol=1e-9, atol=1e-9)


def settings(config: RunConfig, *sections: str) -> list[str]:
    keys = {key for key in flatten(to_dict(config)) if key.startswith(sections)}
    return sorted(key for key in keys - PLACES - MACHINE - RARELY if not key.endswith("kind"))


@pytest.mark.parametrize("words", MODELS)
def test_every_setting_of_a_piece_changes_the_model(words: str) -> None:
    config = composed(words)
    before = behaviour(config)
    idle = [
        f"{key}={value}"
        for key in settings(config, "model.", "position.", "mask.")
        for value, other in changed(config, key)
        if same(before, behaviour(other))
    ]
    assert not idle


REVIEWS = [
    "Well, it's good! A film that one may see -- again and again, and then again; really.",
    "bad.",
    "the good 好看 the bad",
    "It isn't bad, (not) at all: good",
]


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    for split in ("train", "test"):
        for label in ("pos", "neg"):
            for i in range(8):
                file = tmp_path / "reviews" / split / label / f"{i}_7.txt"
                write(file, f"{REVIEWS[i % 4]} {label} {i}")
    return tmp_path / "reviews"


@pytest.mark.parametrize(
    ("words", "sections"),
    [
        ("", ["data.", "seed"]),
        ("train=holdout", ["train.", "seed"]),
        ("model=tfidf", ["data.", "train."]),  # it draws nothing: the seed is a name
        ("model=tfidf train=holdout", ["train.", "seed"]),
    ],
)
def test_every_setting_of_data_and_training_changes_what_comes_out(
    words: str, sections: list[str], reviews: Path, tmp_path: Path
) -> None:
    small = [] if "tfidf" in words else ["train.epochs=1", "train.batch_size=4", "model.d_model=8"]
    fixed = ["data=files", f"data.path={reviews}", "data.max_len=6", "data.vocab_size=12"]
    share = ["train.holdout=0.5"] if "holdout" in words else []
    config = compose([*small, *fixed, *share, f"out={tmp_path}", "train.threads=1", *words.split()])

    def ids(config: RunConfig) -> object:
        data = load_data(config.data)
        return [part.ids.tolist() for part in (data.train, data.test)]

    def outcome(config: RunConfig) -> object:
        _, result = train_run(config)
        rows = [(row.train_loss, row.train_loss_after, row.val_loss) for row in result.epochs]
        return rows, result.test, result.parameters

    before = ids(config), outcome(config)
    idle = [
        f"{key}={value}"
        for key in settings(config, *sections)
        if key != "data.name"
        for value, other in changed(config, key)
        if ids(other) == before[0] and outcome(other) == before[1]
    ]
    assert not idle


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
    assert path.read_text().startswith("# ")
    if path.parent.name in ("experiment", "study"):
        text = "\n".join(line for line in path.read_text().splitlines() if line.startswith("#"))
        assert "laims" in text
        assert f"Command: attnexp {'sweep' if path.parent.name == 'study' else 'train'}" in text
        assert f"{path.parent.name}={path.stem}" in text


@pytest.mark.parametrize("experiment", groups()["experiment"])
def test_every_experiment_builds(experiment: str) -> None:
    build_model(compose([f"experiment={experiment}"]))
