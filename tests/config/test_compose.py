"""From words to a config: what is right composes, what is wrong is told in the user's terms."""

import copy
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from attnexp.base.errors import UserError
from attnexp.config.compose import compose, compose_each, compose_executor, overlay
from attnexp.config.options import groups
from attnexp.config.schema import RunConfig, flatten, to_dict
from attnexp.config.words import expand
from attnexp.sweeps.plan import plan


def test_the_defaults_are_the_schemas() -> None:
    config, schema = compose([]), RunConfig()
    assert (config.data, config.train, config.seeds) == (schema.data, schema.train, schema.seeds)


def test_words_override_groups_and_keys() -> None:
    config = compose(["position=sinusoidal", "model.heads=4", "train.lr=1e-4", "seed=7"])
    assert config.position.name == "sinusoidal"
    assert (config.model.heads, config.train.lr, config.seed) == (4, 1e-4, 7)


def test_a_word_beats_an_overlay() -> None:
    assert compose(["experiment=smoke", "data=imdb", "train.epochs=1"]).data.name == "imdb"
    assert compose(["train.epochs=7", "experiment=smoke"]).train.epochs == 7


@pytest.mark.parametrize("path", ["/a b/c", "../x", "/a=b", "~/reviews"])
def test_paths_become_absolute(path: str) -> None:
    config = compose([f'data.path="{path}"'])
    assert config.data.path is not None
    assert config.data.path.startswith("/")
    assert "~" not in config.data.path


WRONG = {
    "modle.heads=4": ["modle.heads", "Did you mean 'model.heads'?"],
    "model.head=4": ["Did you mean 'model.heads'?"],
    "modle=attention": ["Did you mean 'model'?"],
    "position=sinusoid": ["Did you mean 'sinusoidal'?", "learned, none"],
    "model.heads=0": ["model.heads must be at least 1", "got 0"],
    "train.lr=abc": ["train.lr", "abc", "Float"],
    "train.lr=nan": ["train.lr", "nan"],
    "train.lr=-1": ["train.lr", "-1"],
    "train.batch_size=1e20": ["train.batch_size"],
    "train.batch_size=100000000000000000000": ["train.batch_size must be below 2^63"],
    f"seed={'9' * 400}": ["seed must be below 2^63"],
    f"seed={'9' * 5000}": ["is not understood"],
    "train.threads=100000": ["train.threads must be at least 1 and at most 1024"],
    "position=sinusoidal position.scale=nan": ["position.scale must be a finite number; got nan"],
    "position=sinusoidal position.scale=-inf": ["must be a finite number; got -inf"],
    "train.eps=0": ["train.eps", "above 0", "0.0"],
    "train.eps=inf": ["train.eps must be a finite number; got inf"],
    "train.epochs=1.5": ["train.epochs", "1.5", "Integer"],
    "mask.padding=maybe": ["mask.padding", "maybe"],
    "mask=causal mask.mode=foo": ["mask.mode", "foo", "add, mul"],
    "model.dropout=1": ["model.dropout", "1.0"],
    "data.vocab_size=3": ["data.vocab_size", "at least 4", "3"],
    "train=holdout train.holdout=2": ["train.holdout", "above 0 and below 1", "2"],
    "model.d_model=65 position=sinusoidal": ["model.d_model=65", "sinusoidal", "even"],
    "model.residual=true model.heads=3": ["model.residual", "128", "48"],
    "model=mean mask=causal": ["mask"],
    "model=lstm position=rotary": ["position"],
    "model=mean position=shuffled": ["shuffled"],
    "model=tfidf position=sinusoidal": ["position"],
    "mask.radius=3": ["'mask.radius'", "mask=window", "mask=dilated"],
    "train.holdout=0.5": ["train.holdout=0.5", "train=holdout"],
    "data.holdout=0.5": ["Did you mean 'train.holdout'?"],
    "lr=0.1": ["Did you mean 'train.lr'?"],
    "heads=4": ["Did you mean 'model.heads'?"],
    "seeds=3": ["Did you mean 'seed'?"],
    "position=none, sinusoidal": ["'position=none,'", "no space after the comma"],
    "data.order_fraction=0.5": ["data=contrast", "data.order_fraction=0.5"],
    "data=contrast data.path=/x": ["data=contrast", "/x"],
    "data=files": ["data=files needs data.path"],
    "data=hub": ["data=hub needs data.path"],
    "seed=1,2": ["seed=1,2", "attnexp sweep seed=1,2"],
    "seed=range(3)": ["attnexp sweep 'seed=range(3)'"],
    "study=blog": ["attnexp sweep study=blog"],
    "study=blok": ["Did you mean 'blog'?"],
    "seed=": ["'seed='", "no value"],
    "foo": ["'foo'", "key=value"],
    "~seed": ["~seed", "key=value"],
    "+train.lr=1": ["+train.lr=1", "key=value"],
    "data.path={a": ["data.path={a", "'data.path=\"{a\"'"],
    "model.d_model=null": ["model.d_model"],
}


@pytest.mark.parametrize(("words", "message"), WRONG.items(), ids=[one[:60] for one in WRONG])
def test_wrong_words_are_reported(words: str, message: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        compose(words.split())
    for part in message:
        assert part in str(caught.value)


def test_each_seed_of_a_sweep_is_checked() -> None:
    with pytest.raises(UserError, match="seed must be below"):
        [*compose_each([["seed=0"], [f"seed={10**20}"]])]


def test_axes_expand_as_hydra_writes_them() -> None:
    words = [
        "position=none,sinusoidal",
        "seed=range(1,4)",
        "train.lr=choice(0.1,0.2)",
        "model.heads=4",
    ]
    axes = [[word for _, word in axis] for axis in expand(words)]
    assert axes == [
        ["position=none", "position=sinusoidal"],
        ["seed=1", "seed=2", "seed=3"],
        ["train.lr=0.1", "train.lr=0.2"],
        ["model.heads=4"],
    ]
    (globbed,) = expand(["mask=glob(pad*)"])
    assert [word for _, word in globbed] == ["mask=padding", "mask=padding_causal"]


def test_a_resolved_config_comes_back_the_same() -> None:
    config = compose(["position=sinusoidal", "mask=window", "train=holdout", "data.limit_test=5"])
    assert asdict(overlay(to_dict(config), [])) == asdict(config)
    assert overlay(to_dict(config), ["train.threads=2"]).train.threads == 2
    with pytest.raises(UserError, match=r"train\.threads"):
        overlay(to_dict(config), ["train.threads=many"])


def test_hydra_leaves_no_state_behind() -> None:
    from hydra.core.global_hydra import GlobalHydra

    compose([])
    with pytest.raises(UserError):
        compose(["nonsense=1"])
    assert not GlobalHydra.instance().is_initialized()
    assert groups()["train"] == ["blog", "holdout"]


@pytest.fixture
def trap() -> Iterator[list[str]]:
    """What a resolver named `trap` was asked, which should be nothing."""
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return "hunter2"

    OmegaConf.register_new_resolver("trap", answer)
    yield asked
    OmegaConf.clear_resolver("trap")


TRAP = "${trap:x}"
KEYS = "seed out data.path data.tokenizer model.kind model.score.kind position.kind".split()
STORED = to_dict(compose([]))
SPRUNG = [
    *(f"{key}={TRAP}" for key in KEYS),
    f'out="{TRAP}"',
    *(f"{group}={TRAP}" for group in ("data", "model", "model.score", "executor", "study")),
    *(f"{group}={TRAP}{end}" for group in ("position", "experiment") for end in (":X", ".yaml")),
    *(f"out={before}{TRAP}" for before in ("\\", "\\\\", "a", "'\\\\'")),
    *(f"out=[{TRAP}]", f"out={{a: {TRAP}}}", f"{TRAP}=1", f"train.{TRAP}=1", f"out=a,{TRAP}"),
    *(f"executor.{key}={TRAP}" for key in ("partition", "workers", "kind", "mem_gb")),
]


@pytest.mark.parametrize("word", SPRUNG)
def test_no_resolver_runs_in_a_word(word: str, trap: list[str]) -> None:
    for take in (plan, compose_executor, lambda words: overlay(STORED, words)):
        with suppress(UserError):
            assert "hunter2" not in str(take([word]))
    assert trap == []


@pytest.mark.parametrize("key", KEYS)
def test_no_resolver_runs_in_a_stored_config(key: str, trap: list[str]) -> None:
    for value in (TRAP, f"\\{TRAP}", [TRAP], {"kind": TRAP}, "${"):
        tree = copy.deepcopy(STORED)
        *sections, name = key.split(".")
        reduce(lambda branch, section: branch[section], sections, tree)[name] = value
        with suppress(UserError):
            assert flatten(to_dict(overlay(tree, [])))[key].endswith(str(value))
    assert trap == []


@pytest.mark.parametrize(
    "text",
    [
        f"out: {TRAP}",
        f"defaults:\n  - override /position: {TRAP}",
        f"defaults:\n  - override /position: {TRAP}:X",
        f"defaults:\n  - {TRAP}",
        f"position:\n  kind: {TRAP}",
        f"hydra:\n  job:\n    name: {TRAP}",
        f"baseline: a\nvariants: {{a: ['out={TRAP}']}}",
        f"baseline: {TRAP}\nvariants: {{'{TRAP}': ['position={TRAP}:X']}}",
        f"factors: {{'{TRAP}': {{a: [], b: []}}, b: {{c: [], d: [seed={TRAP}]}}}}",
    ],
)
def test_no_resolver_runs_in_a_file(text: str, trap: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    for group in ("experiment", "study"):
        with suppress(UserError):
            assert "hunter2" not in str(plan([f"{group}={tmp_path}/mine.yaml"]))
    assert trap == []


@settings(max_examples=30)
@given(st.text(st.sampled_from("\\${}:'\" a"), min_size=1))
def test_a_text_stays_the_text_it_is(text: str) -> None:
    assert overlay(STORED | {"out": text}, []).out == text
