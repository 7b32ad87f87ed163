"""A result belongs to its code: what changes an id, what does not, and what a run is called."""

import json
from pathlib import Path

import pytest
from conftest import ROOT

from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.config.user_code import digest_files
from attnexp.runs import identity, labels


def test_an_id_holds_every_file_that_computes() -> None:
    code = identity.identify(compose(), "").code
    package = ROOT / "attnexp"
    files = [
        p for room in ("model", "network", "training", "data") for p in package.glob(f"{room}/*.py")
    ]
    assert [*code] == sorted(str(path.relative_to(package)) for path in files)


def test_a_digest_changes_with_code_and_not_with_how_it_is_written(tmp_path: Path) -> None:
    def digest(source: str) -> str:
        file = tmp_path / f"{len([*tmp_path.iterdir()])}.py"
        file.write_text(source)
        return digest_files({"file": file})["file"]

    assert digest("f(1)") == digest("# A comment.\nf( 1, )  # Another.")
    assert digest("f('a' 'b', 'c', 0x10, 1_0)") == digest('f("ab", """c""", 16, 10)')
    sources = ["f(1)", "f(-1)", "f(1.0)", "f('1')", "f()", "f(x=1)", "g(1)", "f(1); f(1)", ""]
    sources += ["def f(x=1): g()", "def f(x=2): g()", "def f(x: int = 1): g()", "import f"]
    assert len({*map(digest, sources)}) == len(sources)


def test_settings_that_act_seeds_and_data_are_in_the_id() -> None:
    def first(*words: str, fingerprint: str = "") -> str:
        return identity.identify(compose(words), fingerprint).settings

    same = [first(), first("seeds.init=0"), first("out=x", "train.threads=2", "train.fast=false")]
    assert len({*same, first("data.path=/x")}) == 1
    words = ("seed=1", "seeds.init=1", "train.lr=1", "seeds.resample=0", "seeds.resample=3")
    assert len({same[0], first(fingerprint="other"), *map(first, words)}) == 7


def test_other_texts_are_another_run_of_the_same_variant() -> None:
    """`seeds.resample` does not follow `seed`: 0 with seed 0 is not the same as none."""
    configs = [compose(words.split()) for words in ("", "seeds.resample=0", "seeds.resample=3")]
    assert len({json.dumps(labels.settings(to_dict(config))) for config in configs}) == 1
    names = [labels.replicate(to_dict(config)) for config in configs]
    assert names == ["0", "0-resample0", "0-resample3"]


LABELS = {
    "": "imdb attention none",
    "seed=3 out=x": "imdb attention none",
    "position=rotary model.heads=4": "imdb attention rotary model.heads=4",
    "model=lstm data=trec": "trec lstm none",
    "model=cnn_attention": "imdb attention none model.before=cnn",
    "mask=window mask.radius=3 train=holdout": "imdb attention none mask=window mask.radius=3 "
    "train=holdout",
    "model=tfidf data=contrast": "contrast tfidf",
}


@pytest.mark.parametrize("words", LABELS)
def test_a_label_says_what_is_not_usual(words: str) -> None:
    assert labels.default_label(to_dict(compose(words.split()))) == LABELS[words]


def test_a_label_of_a_piece_from_elsewhere_imports_nothing() -> None:
    config = to_dict(compose("position=sinusoidal", "train.lr=0.1"))
    config["position"] = {"kind": "theirs:Decay", "shuffled": False, "dropout": 0.0, "rate": 0.5}
    label = labels.default_label(config)
    own = "position.shuffled=false position.dropout=0.0 position.rate=0.5"
    assert label == f"imdb attention Decay {own} train.lr=0.1"
