"""Encoding: deterministic, cached, and safe from damage and from company."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import IMDB, needs_imdb

from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, DataName, Tokenizer
from attnexp.data import encode, quality, sources
from attnexp.data.cache import cache_dir
from attnexp.data.corpus import SENTIMENTS
from attnexp.data.encode import Dataset, load, load_test


def write(folder: Path, texts: list[str] | None = None) -> DataConfig:
    """A small set of reviews as parquet, and the config that reads it."""
    texts = texts or [f"review number {i} is {'bad' if i % 2 else 'good'}" for i in range(20)]
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        table = pa.table({"text": texts, "label": [1 - i % 2 for i in range(len(texts))]})
        pq.write_table(table, folder / f"{split}-00000-of-00001.parquet")
    return DataConfig(name=DataName.files, path=str(folder), max_len=6, vocab_size=30)


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
    assert same(load(config), first)
    assert not capsys.readouterr().err


def test_one_cache_file_serves_every_length_and_vocabulary(config: DataConfig) -> None:
    load(config)
    config.max_len, config.vocab_size, config.limit_train = 3, 8, 10
    assert load(config).train.ids.shape == (10, 3)
    assert load(config).train.ids.max() < 8
    assert cache_file()


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text"])
def test_a_damaged_cache_is_made_again(
    config: DataConfig, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = load(config)
    path = cache_file()
    content = bytearray(path.read_bytes())
    match damage:
        case "cut":
            content = content[: len(content) // 2]
        case "flip":
            at = content.index(first.words[0].encode())  # inside the words, not in the zip's frame
            content[at] ^= 1
        case "empty":
            content = bytearray()
        case "text":
            content = bytearray(b"not an archive")
    path.write_bytes(content)
    assert same(load(config), first)
    assert "damaged" in capsys.readouterr().err
    assert same(load(config), first)
    assert "damaged" not in capsys.readouterr().err


def test_the_vocabulary_holds_the_words_that_have_an_id_of_their_own(config: DataConfig) -> None:
    config.vocab_size = 8
    dataset = load(config)
    assert len(dataset.words) == 4  # ids 4 to 7
    assert dataset.train.ids.max() == 7


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


def test_limits_are_stratified_and_the_same_every_time(config: DataConfig) -> None:
    config.limit_train, config.limit_test = 8, 6
    first = load(config)
    assert first.train.labels.tolist().count(1) == 4
    assert first.test.labels.tolist().count(1) == 3
    assert same(load(config), first)


def test_a_limit_beyond_the_reviews_is_named(config: DataConfig) -> None:
    config.limit_test = 22
    with pytest.raises(UserError, match=r"data\.limit_test=22.* there are 20 .*Use 20 or less"):
        load(config)


def test_ranks_need_the_keras_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "imdb.npz"
    rows = np.empty(2, object)
    rows[:] = [[1, 2], [2]]
    labels = np.array([0, 1])
    np.savez(path, x_train=rows, y_train=labels, x_test=rows, y_test=labels)
    config = DataConfig(name=DataName.files, path=str(path), max_len=3)
    assert load(config).train.ids.tolist() == [[1, 4, 5], [0, 1, 5]]
    config.tokenizer = Tokenizer.basic_english
    with pytest.raises(UserError, match="word ranks, not text"):
        load(config)


def test_word_ranks_and_text_do_not_meet(config: DataConfig, tmp_path: Path) -> None:
    path = tmp_path / "imdb.npz"
    rows = np.empty(2, object)
    rows[:] = [[1, 2], [2]]
    np.savez(path, x_train=rows, y_train=[0, 1], x_test=rows, y_test=[0, 1])
    ranks = DataConfig(name=DataName.files, path=str(path), max_len=3)
    words = load(config).words
    assert load_test(config, words, SENTIMENTS).ids.shape == (20, config.max_len)
    for reviews, vocabulary in ((config, []), (ranks, words), (ranks, [])):
        with pytest.raises(UserError, match="Use text on both sides"):
            load_test(reviews, vocabulary, SENTIMENTS)


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setenv("ATTNEXP_CACHE", "/mine")
    assert cache_dir() == Path("/mine")
    monkeypatch.delenv("ATTNEXP_CACHE")
    assert cache_dir() == Path("/caches/attnexp")
    for nothing in ("", None):
        monkeypatch.delenv("XDG_CACHE_HOME")
        if nothing is not None:
            monkeypatch.setenv("XDG_CACHE_HOME", nothing)
        assert cache_dir() == Path("/home/someone/.cache/attnexp")


@needs_imdb
def test_imdb_encodes_to_the_known_facts() -> None:
    config = DataConfig(path=str(IMDB))
    dataset = load(config)
    assert " ".join(dataset.words[:20]) == (
        "the and a of to is br in it i this that was as for with movie but film on"
    )
    ranked = encode.Ranked.load(encode.cache_path(sources.find(config), config))
    lengths = np.diff(ranked.train.offsets) + 1  # the start token counts
    assert len(ranked.words) == 88_581
    assert lengths.mean() == pytest.approx(238.7, abs=0.05)
    assert np.mean(lengths < 80) == pytest.approx(0.075, abs=0.0005)
    assert dataset.train.ids.shape == dataset.test.ids.shape == (25_000, 80)
    assert dataset.train.ids.max() == 19_999
    assert dataset.quality == {quality.TEST_IN_TRAIN: 123}
