"""Encoding: deterministic, cached, and safe from damage and from company."""

import hashlib
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import IMDB, needs_imdb
from samples import write_reviews

from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import encode, quality, sources
from attnexp.data.cache import cache_dir, code_digests
from attnexp.data.corpus import SENTIMENTS
from attnexp.data.encode import Dataset, load, load_test

pytestmark = pytest.mark.usefixtures("_own_cache")

REVIEWS = [f"review number {i} is {'bad' if i % 2 else 'good'}" for i in range(20)]


def write(folder: Path, train: list[str] = REVIEWS, test: list[str] = REVIEWS) -> DataConfig:
    """A small set of texts as parquet, and the config that reads it."""
    return replace(write_reviews(folder, train, test), max_len=6, vocab_size=30)


def same(one: Dataset, other: Dataset) -> bool:
    return (
        one.fingerprint == other.fingerprint
        and one.words == other.words
        and np.array_equal(one.train.ids, other.train.ids)
        and np.array_equal(one.test.labels, other.test.labels)
    )


@pytest.fixture
def config(tmp_path: Path) -> DataConfig:
    return write(tmp_path / "reviews")


def cache_file() -> Path:
    (path,) = cache_dir().glob("*.npz")
    return path


def test_the_cache_gives_what_encoding_gave(
    config: DataConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    first = load(config)
    assert "Reading and encoding" in capsys.readouterr().err
    assert re.fullmatch("[0-9a-f]{16}", first.fingerprint)
    assert same(load(config), first)
    assert not capsys.readouterr().err


def test_one_cache_file_serves_every_length_and_vocabulary(config: DataConfig) -> None:
    load(config)
    config.max_len, config.vocab_size, config.limit_train = 3, 8, 10
    dataset = load(config)
    assert dataset.train.ids.shape == (10, 3)
    assert dataset.train.ids.max() == 7
    assert len(dataset.words) == 4  # those with an id of their own, 4 to 7
    assert cache_file()


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_cache_is_made_again(
    config: DataConfig, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = load(config)
    path = cache_file()
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    else:
        content[content.index(first.words[0].encode())] ^= 1  # not in the zip's frame
    path.write_bytes(content)
    assert same(load(config), first)
    assert "damaged" in capsys.readouterr().err
    assert same(load(config), first)
    assert "damaged" not in capsys.readouterr().err


def test_changed_reviews_are_not_taken_from_the_cache(config: DataConfig) -> None:
    assert config.path is not None
    first = load(config)
    write(Path(config.path), [f"another text {i}" for i in range(20)])
    assert load(config).fingerprint != first.fingerprint


def test_a_cache_that_cannot_be_written_costs_no_run(
    config: DataConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ATTNEXP_CACHE", str(blocked / "cache"))
    assert len(load(config).train) == 20


def test_two_processes_may_fill_the_cache_at_once(config: DataConfig) -> None:
    program = (
        "import sys; from attnexp.config.schema import *; from attnexp.data.encode import load\n"
        f"print(load(DataConfig(name='files', path={config.path!r})).fingerprint)"
    )
    together = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    answers = {process.communicate(timeout=60)[0].strip() for process in together}
    assert answers == {load(config).fingerprint}
    assert [path.name for path in cache_dir().iterdir()] == [cache_file().name]  # no parts left


def test_a_limit_beyond_the_reviews_is_named(config: DataConfig) -> None:
    config.limit_test = 22
    with pytest.raises(UserError, match=r"data\.limit_test=22.* there are 20 .*Use 20 or less"):
        load(config)


@pytest.fixture
def ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataConfig:
    """Word ranks in Keras's format, taken for the file that Keras publishes."""
    path = tmp_path / "imdb.npz"
    rows = np.empty(2, object)
    rows[:] = [[1, 2], [2]]
    np.savez(path, x_train=rows, y_train=[0, 1], x_test=rows, y_test=[0, 1])
    monkeypatch.setattr(sources, "KERAS_NPZ", {hashlib.sha256(path.read_bytes()).hexdigest()})
    return DataConfig(name=DataName.files, path=str(path), max_len=3)


def test_ranks_need_the_keras_tokenizer(ranks: DataConfig) -> None:
    assert load(ranks).train.ids.tolist() == [[1, 4, 5], [0, 1, 5]]
    ranks.tokenizer = "characters"
    with pytest.raises(UserError, match="word ranks, not text"):
        load(ranks)


def test_word_ranks_and_text_do_not_meet(config: DataConfig, ranks: DataConfig) -> None:
    words = load(config).words
    assert load_test(config, words, SENTIMENTS).ids.shape == (20, config.max_len)
    for texts, vocabulary in ((config, []), (ranks, words), (ranks, [])):
        with pytest.raises(UserError, match="Use text on both sides"):
            load_test(texts, vocabulary, SENTIMENTS)


def test_train_and_test_drawn_anew_are_another_draw_of_one_corpus(tmp_path: Path) -> None:
    config = write(tmp_path / "texts", test=[f"another text {i}" for i in range(10)])
    whole, drawn, other = load(config), load(config, resample=0), load(config, resample=1)
    assert same(load(config, resample=0), drawn)
    assert drawn.fingerprint == other.fingerprint == whole.fingerprint
    for dataset in (drawn, other):
        assert not np.array_equal(dataset.train.ids, whole.train.ids)
        for split in ("train", "test"):
            new, old = (np.bincount(getattr(one, split).labels) for one in (dataset, whole))
            assert np.array_equal(new, old)
    assert not np.array_equal(drawn.train.ids, other.train.ids)
    config.limit_train = 8
    assert np.bincount(load(config, resample=0).train.labels).tolist() == [4, 4]


def test_edited_code_encodes_anew() -> None:
    """The cache is keyed by the code that encodes; `base/test_code.py` edits some."""
    code = code_digests("attnexp.data.encode")
    used = ("text", "corpus", "quality", "sources", "tables", "acl_imdb", "hub")
    assert {f"attnexp.data.{name}" for name in used} <= {*code}


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"ATTNEXP_CACHE": "/mine", "XDG_CACHE_HOME": "/caches"}, "/mine"),
        ({"XDG_CACHE_HOME": "/caches"}, "/caches/attnexp"),
        ({"XDG_CACHE_HOME": ""}, "/home/someone/.cache/attnexp"),
        ({}, "/home/someone/.cache/attnexp"),
    ],
)
def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], place: str
) -> None:
    for name in ("ATTNEXP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/someone", **environment}.items():
        monkeypatch.setenv(name, value)
    assert cache_dir() == Path(place)


@needs_imdb
@pytest.mark.slow
def test_imdb_encodes_to_the_known_facts() -> None:
    config = DataConfig(path=str(IMDB))
    dataset = load(config)
    assert " ".join(dataset.words[:20]) == (
        "the and a of to is br in it i this that was as for with movie but film on"
    )
    ranked = encode.Ranked.load(encode.cache_path(sources.find(config), config))
    lengths = np.diff(ranked.texts[0].offsets) + 1  # the start token counts
    assert len(ranked.words) == 88_581
    assert lengths.mean() == pytest.approx(238.7, abs=0.05)
    assert np.mean(lengths < 80) == pytest.approx(0.075, abs=0.0005)
    assert dataset.train.ids.shape == dataset.test.ids.shape == (25_000, 80)
    assert dataset.train.ids.max() == 19_999
    assert dataset.quality == {quality.TEST_IN_TRAIN: 123}
