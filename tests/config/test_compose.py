"""From words to a config: what is right composes, what is wrong is told in the user's terms."""

import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hydra
import pytest
import yaml
from conftest import Capture, Patch
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from samples import each_once, message_of, write_file

from attnexp.base.errors import UserError
from attnexp.cli import app
from attnexp.config import options, pieces
from attnexp.config.compose import compose, compose_executor, overlay
from attnexp.config.options import conf_dir, groups
from attnexp.config.schema import RunConfig, to_dict
from attnexp.config.settings import expand, flatten
from attnexp.network.build import try_to_build
from attnexp.sweeps.plan import plan
from attnexp.training.run import train_run


def test_defaults_and_types_are_those_of_the_schema() -> None:
    config, schema = compose([]), RunConfig()
    assert (config.data, config.train, config.seeds) == (schema.data, schema.train, schema.seeds)
    config = compose("out=2024", "train.lr=1", "seed='3'", "train.fast=false")
    assert (config.out, config.train.lr, config.seed, config.train.fast) == ("2024", 1.0, 3, False)
    assert isinstance(config.train.lr, float)
    for path in ("/a b/c", "../x", "/a=b", "~/reviews"):
        full = os.path.abspath(os.path.expanduser(path))
        assert compose(f'data.path="{path}"').data.path == full


WRONG = {
    "position=sinusoid": ["Did you mean 'sinusoidal'?", "learned, none", "conf/position/NAME"],
    "train.lr=nan": ["train.lr must be a finite number", "nan"],
    "data.vocab_size=9000000000000000000": ["data.vocab_size must be less than or equal to"],
    "mask=causal mask.mode=foo": ["mask.mode", "foo", "'add' or 'mul'"],
    "model=lstm position=rotary": ["position=rotary acts on attention"],
    "model=tfidf position=rotary": ["position would do nothing", "a model that is a network"],
    "position=none position.rate=0.1": ["position=none has no key 'position.rate'."],
    "mask.radius=3": ["mask=none has no key 'mask.radius'. It has kind, padding, mode, query."],
    "train.holdout=0.5": ["train.holdout would do nothing", "train=holdout"],
    "position=learned dropout=0": ["Did you mean 'model.dropout' or 'position.dropout'?"],
    "data=files": ["data=files needs data.path"],
    "data=my.csv": ["data=files data.path=my.csv"],
    "experiment=yours.yaml": ["yours.yaml cannot be read"],
    "data.tokenizer=kears": ["data.tokenizer", "(keras|basic_english", "got kears"],
    "seed=1,2": ["seed=1,2", "attnexp sweep seed=1,2"],
    "seed=range(3": ["'seed=range(3' is not understood", "range(3", "key=value"],
    "seeds=3": ["'seed=range(3)'"],
    "train.loss=mine": ["mine: wanted module:Class or module:function"],
    "train.loss=": ["train.loss=VALUE, such as null"],
    "typo={}": ["typo={} names no value"],
    "seed=${model.width}": ["cannot be interpolated", "model.width", "known here only if given."],
    "tune=train.lr=1,2": ["attnexp sweep tune="],
}


@pytest.mark.parametrize(("words", "message"), WRONG.items(), ids=[one[:60] for one in WRONG])
def test_wrong_words_are_reported(words: str, message: list[str]) -> None:
    told = message_of(compose, words.split())
    assert all(part in told for part in message), told


def test_a_model_that_cannot_be_built_composes_and_is_not_trained() -> None:
    words = ["model.d_model=65", "position=sinusoidal"]
    config = compose(words)
    axis = ["model.d_model=64,65", "position=sinusoidal"]
    for refusing in (try_to_build, train_run, lambda _: plan(words), lambda _: plan(axis)):
        with pytest.raises(UserError, match=r"SinusoidalPosition.*even.*65"):
            refusing(config)


SAME = {
    "++train.lr=1": "train.lr=1",
    "mask=padding seeds.init=${seed}": "mask=padding seeds.init=0",
    "mask=window data.max_len=${mask.radius}": "mask=window data.max_len=5",
    "experiment=blog_pe ~position=rotary": "experiment=blog_pe position=none",
    "model=lstm position=null ~model.hidden": "model=lstm position=none",
    "position={kind:rotary,layout:split}": "position=rotary position.layout=split",
    "model.before=cnn model.before.kernel=5": "model/before=cnn model.before.kernel=5",
    "experiment=blog_pe model=attnexp.model.attention:Attention": "experiment=blog_pe",
    "data.max_len=${data.vocab_size} data.vocab_size=9": "data.max_len=9 data.vocab_size=9",
    "out=${oc.env:SECRET}": "out=hunter2",
}


@pytest.mark.parametrize("words", SAME)
def test_what_hydras_users_type_is_understood(words: str, monkeypatch: Patch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    assert asdict(compose(words.split())) == asdict(compose(SAME[words].split()))


STORED = to_dict(compose([]))
HYDRAS = [*each_once("train", "position", "mask"), *each_once("model"), *each_once("experiment")]
HYDRAS += [words for words in each_once("data") if not re.search("=(files|hub)", words)]


@pytest.mark.slow
@pytest.mark.parametrize("words", HYDRAS)
def test_a_program_that_knows_only_hydra_gets_the_same(words: str) -> None:
    overrides = [*words.split(), "++seed=3", "++train.threads=2"]
    with hydra.initialize_config_dir(str(conf_dir()), version_base="1.3"):
        tree: Any = OmegaConf.to_container(hydra.compose("config", overrides), resolve=True)
    assert overlay(tree, []) == compose(overrides)


SINE = "kind: attnexp.model.positions:SinusoidalPosition"
FILES = {
    "conf/position/four.yaml": "defaults: [sinusoidal, _self_]\nscale: 4",
    "conf/model/deep.yaml": "kind: attnexp.model.attention:Attention\nbefore: cnn",
    "conf/experiment/mine.yaml": "# @package _global_\n"
    "defaults: [override /position: four]\nseed: ${train.epochs}4",
    "conf/experiment/other.yaml": "# @package _global_\nposition: {scale: 7}\ntrain: {epochs: 4}",
    "conf/experiment/heir.yaml": "# @package _global_\ndefaults: [other]\ntrain: {lr: 0.25}",
    "one.yaml": "position: {kind: learned, dropout: 0.5}\ntrain: {epochs: 3, lr: 0.5}",
    "two.yaml": "position: {kind: alibi}\ntrain: {epochs: '${seed}'}\nseed: 4",
}
OWN = {
    "position=four": "position=sinusoidal position.scale=4",
    "model=deep model.before.kernel=5": "model.before=cnn model.before.kernel=5",
    "experiment=mine position.scale=3": "position=sinusoidal position.scale=3 seed=54",
    "experiment=[mine,other] train.lr=0.5": "position=sinusoidal position.scale=7 train.epochs=4 "
    "seed=44 train.lr=0.5",
    "experiment=heir position=attnexp.model.positions:LearnedPosition": "position=learned "
    "position.scale=7 train.epochs=4 train.lr=0.25",
    "experiment=[one.yaml,two.yaml]": "position=alibi train.epochs=4 train.lr=0.5 seed=4",
    "experiment=two.yaml experiment=one.yaml seed=3": "position=learned position.dropout=0.5 "
    "train.epochs=3 train.lr=0.5 seed=3",
}
"""Words that name files of one's own, and words without them that say the same."""


@pytest.mark.parametrize("words", OWN)
def test_options_and_experiments_of_ones_own_compose(folder: Path, words: str) -> None:
    (folder / "conf").mkdir()
    expected = asdict(compose(OWN[words].split()))
    for name, content in FILES.items():
        write_file(folder / name, content)
    assert asdict(compose(words.split())) == expected


def test_a_folder_of_options_is_read_and_ours_win_with_a_note(
    folder: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setattr(options, "own_dirs", [])
    write_file(folder / "conf/position/rotary.yaml", SINE)
    write_file(folder / "more/data/short.yaml", "name: contrast\nmax_len: 7")
    words = ["config", "data=short", "position=rotary", "--config-dir", "more", "--json"]
    app(words, standalone_mode=False)
    out, err = capsys.readouterr()
    assert '"max_len": 7' in out
    assert '"kind": "attnexp.model.positions:RotaryPosition"' in out
    assert "conf/position/rotary.yaml is not read" in err
    app(["data", *words[1:]], standalone_mode=False)


PIECES = ["model=attention", "model.score=additive", "model=cnn_attention model.before.kernel=7"]


@pytest.mark.parametrize(("file", "dump"), [("a.json", json.dumps), ("a.yaml", yaml.safe_dump)])
def test_a_runs_stored_config_is_an_experiment_and_takes_other_pieces(
    folder: Path, file: str, dump: Callable[..., str]
) -> None:
    words = "model=lstm_attention position=learned data=trec train=holdout".split()
    stored = to_dict(compose(words))
    write_file(folder / file, dump(stored))
    for change in [*PIECES, "", "position=rotary", "data.name=cr model.pooling=max", "train=blog"]:
        assert compose(f"experiment={file}", change.split()) == compose(words, change.split())
    for change in PIECES:
        assert overlay(stored, change.split()) == compose(words, change.split())


def test_words_choose_over_an_experiment_by_name(folder: Path) -> None:
    body = "data: {name: contrast}\nposition: {kind: rotary}\ntrain: {protocol: holdout}"
    write_file(folder / "conf/experiment/a.yaml", f"# @package _global_\n{body}")
    words = "data.name=imdb position=alibi train=blog"
    assert compose("experiment=a", words.split()) == compose(words.split())


WRONG_FILES = [
    ("mine.yaml", "- model", "must hold keys"),
    ("mine.yaml", "model: [", "cannot be read: .*line 1"),
    ("mine.yaml", "defaults: [override /model: lstm]", "acts in conf/experiment"),
    ("mine.yaml", "1: 2", "no key '1'"),
    ("mine.yaml", "name: x", "'name' is no key of a run"),
    ("mine", "# @package _global_\ntune: {x: 1}", "'tune' is no key of a run"),
    ("mine", "# @package _global_\n1: 2", "no key '1'"),
    ("mine", "# @package _global_\ndefaults: [override /model: nosuch]", "no such model"),
    ("mine", "# @package _global_\ndefaults: [override /modle: lstm]", "not override 'modle'"),
    ("mine", "# @package _global_\ndata: contrast", "override /data: contrast"),
    ("mine", "train: {epochs: 8}", "begins with '# @package _global_'"),
]


@pytest.mark.parametrize(("experiment", "content", "message"), WRONG_FILES)
def test_what_is_wrong_with_an_experiment_is_said(
    folder: Path, experiment: str, content: str, message: str
) -> None:
    write_file(folder / "mine.yaml", content)
    write_file(folder / "conf/experiment/mine.yaml", content)
    with pytest.raises(UserError, match=message):
        compose(f"experiment={experiment}")


def test_axes_expand_as_hydra_writes_them() -> None:
    words = "+model/pooling=max,mean seed=range(1,4) ++train.lr=choice(0.1,0.2) ~position"
    axes = ["model.pooling=max model.pooling=mean", "seed=1 seed=2 seed=3"]
    axes += ["train.lr=0.1 train.lr=0.2", "position=null"]
    assert [" ".join(axis) for _, axis in expand(words.split())] == axes
    axes = ["experiment=a", "seed=5", "experiment=b"]
    assert [axis for _, axis in expand(["seed=0,1", *axes])] == [[word] for word in axes]
    for end in ("0,inf", "1000000", "3,3", "1,10,0", "nan"):
        with pytest.raises(UserError, match=r"10,000|cannot be listed"):
            expand([f"seed=range({end})"])


def test_every_executor_composes_and_is_no_piece() -> None:
    assert all(compose_executor([f"executor={name}"]).kind == name for name in groups()["executor"])
    assert not any(map(pieces.is_ours, [*groups()["executor"], "None"]))


def stored_but(section: str, **settings: Any) -> dict[str, Any]:
    return STORED | {section: STORED[section] | settings}


FOREIGN = [
    stored_but("model", pooling={"kind": "theirs:Mean"}),
    stored_but("model", pooling="theirs:Mean"),
    stored_but("train", loss="theirs:Mean"),
    stored_but("position", kind="theirs"),  # an option of the folder
]


@pytest.mark.parametrize("tree", FOREIGN)
def test_a_stored_config_runs_nobodys_code_unless_trusted(
    folder: Path, tree: dict[str, Any], monkeypatch: Patch
) -> None:
    monkeypatch.setattr(pieces, "_import_attribute", pieces._import_attribute.__wrapped__)
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    code = "open('ran', 'w').close()\nfrom attnexp.model.mixers import Mean"
    write_file(folder / "theirs.py", code)
    for group in ("position", "model/pooling"):
        write_file(folder / "conf" / group / "theirs.yaml", "kind: theirs:Mean")
    assert "--trust-code" in message_of(overlay, tree, [])
    assert not (folder / "ran").exists()
    with suppress(UserError):
        overlay(tree, [], trust_code=True)
    assert (folder / "ran").exists()
    with pytest.raises(UserError, match="--trust-code"):  # It would import whatever a text names.
        overlay(stored_but("data", tokenizer="attnexp.config.pieces:load"), [])


def test_nothing_stored_is_interpolated(folder: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    secret = "${oc.env:SECRET} \\${seed} ${"
    assert overlay(STORED | {"out": secret}, ["seed=3"]).out == secret


VALUES = st.sampled_from("0 1 3 -1 33 1e20 0.5 nan inf null true abc '' [1,2] {a:1} a,b".split())
SIGNS = st.text(st.sampled_from("ab01.,:=[]{}()'\"\\$*~+-@ é\n\t"), max_size=6)


@settings(max_examples=150)
@given(st.sampled_from([*flatten(STORED), *groups(), "nonsense", ""]), VALUES | SIGNS)
def test_any_word_composes_or_is_refused_in_one_message(key: str, value: str) -> None:
    for word in (f"{key}={value}", f"{key}{value}"):
        with suppress(UserError):
            assert asdict(overlay(to_dict(compose(["data=contrast", word])), []))
