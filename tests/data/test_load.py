"""Places of data: files, folders, archives and the hub's cache, in the order that is promised."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Capture, Patch
from forms import REVIEW_FILES, REVIEWS, on_disk, refusal, rows_of, write_csv, write_imdb

from attnexp.cli import app
from attnexp.config.compose import compose
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import encode, read as splits
from attnexp.data.corpus import load_corpus
from attnexp.data.sources import Source, locate_source


def test_imdb_reads_alike_in_every_form(tmp_path: Path) -> None:
    write_imdb(tmp_path)
    prints = set()
    for place in ("folder", "folder/aclImdb", "archive", "hub"):
        names = ["0", "1"] if place == "hub" else ["neg", "pos"]
        config = on_disk(tmp_path / place, "imdb")
        rows = rows_of(config)
        for split, reviews in REVIEWS.items():
            assert rows[split] == [(text, names[label]) for text, label in reviews]
        prints.add(encode.load_dataset(config).fingerprint)
    assert len(prints) == 1
    (tmp_path / "cut").write_bytes((tmp_path / "archive").read_bytes()[:200])
    assert f"{tmp_path}/cut cannot be read" in refusal(on_disk(tmp_path / "cut", "imdb"))


def test_keras_ranks_are_read_from_keras_own_file_alone(tmp_path: Path, monkeypatch: Patch) -> None:
    rows = np.array([[1, 2], [2]], object)
    path = tmp_path / "imdb.npz"
    np.savez(path, x_train=rows, y_train=[0, 1], x_test=rows, y_test=[0, 1])
    config = on_disk(path, max_len=3)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest in refusal(config)  # any other may be a pickle that does what it wants
    monkeypatch.setattr(splits, "KERAS_NPZ", {digest})
    assert encode.load_dataset(config).train.ids.tolist() == [[1, 4, 5], [0, 1, 5]]
    assert encode.load_dataset(config).words == []


def test_places_are_taken_in_their_order(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "imdb").mkdir()
    write_imdb(tmp_path / "cr")
    cr = compose(["data=cr"]).data
    monkeypatch.chdir(tmp_path)  # an unset variable names no folder, not even this one
    assert locate_source(cr) == Source("SetFit/SentEval-CR")
    monkeypatch.setenv("ATTNEXP_DATA", str(tmp_path))
    assert locate_source(cr) == Source("$ATTNEXP_DATA/cr", str(tmp_path / "cr"))
    assert locate_source(DataConfig()) == Source("$ATTNEXP_DATA/imdb", str(tmp_path / "imdb"))
    (tmp_path / "hub").mkdir()  # no name of a data set
    assert locate_source(compose(["data=hub", "data.path=a/b"]).data) == Source("a/b")
    monkeypatch.setenv("ATTNEXP_IMDB", str(tmp_path / "cr/hub"))
    assert locate_source(DataConfig()) == Source("$ATTNEXP_IMDB", str(tmp_path / "cr/hub"))
    assert load_corpus(DataConfig()).source == "$ATTNEXP_IMDB"  # no folder of this machine
    monkeypatch.setenv("ATTNEXP_IMDB", "/from/environment")  # what is missing is never replaced
    assert "$ATTNEXP_IMDB=/from/environment does not exist" in refusal(DataConfig())
    message = refusal(on_disk(tmp_path / "no", "imdb"))
    assert f"data.path={tmp_path}/no does not exist. Give a csv, tsv" in message


CARD = """---
configs:
- {config_name: one, data_files: one.csv}
- config_name: two
  data_files: [{split: seen, path: old.csv}, {split: unseen, path: new.csv}]
---"""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: Patch) -> Path:
    home = tmp_path / "hub/datasets--some--reviews"
    folder = home / "snapshots" / ("c0ffee" * 7)[:40]
    folder.mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs/main").write_text(folder.name)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return folder


def test_the_hubs_cache_serves_a_configuration_and_its_splits(hub: Path) -> None:
    (hub / "README.md").write_text(CARD)
    old = [("x", "up"), ("y", "down")]
    new = [("z", "up"), ("w", "down")]
    for name, rows in (("one", old), ("old", old), ("new", new)):
        write_csv(hub / f"{name}.csv", rows)
    config = on_disk(Path("some/reviews"), "hub", config="two", train_split="seen")
    config.test_split = "unseen"
    assert rows_of(config) == {"train": old, "test": new}
    assert load_corpus(config).source == "hub: some/reviews@c0ffeec0ffee"
    config.config = None
    assert "data.config=NAME" in refusal(config)


@pytest.mark.parametrize("name", ["some/other", "../shared/imdb", ""])
def test_what_cannot_be_fetched_is_said_with_all_ways(name: str) -> None:
    message = refusal(DataConfig(name=DataName.hub, path=name))  # nor a folder of this name
    ways = ["HF_ENDPOINT", "data.path=", "$ATTNEXP_IMDB", "aclImdb_v1.tar.gz", "data=contrast"]
    assert all(part in message for part in [name, *ways]), message


def write_splits(folder: Path, **num_rows: int) -> None:
    """Files of texts that begin with the file's name, labelled 0 and 1 in turn."""
    for name, num in num_rows.items():
        write_csv(folder / f"{name}.csv", [(f"{name} {i}", i % 2) for i in range(num)])


def test_files_are_splits_by_their_names(tmp_path: Path, capsys: Capture) -> None:
    write_splits(tmp_path, old=4, new=4, validation=4)
    splits = {"train_split": "old", "test_split": "new"}
    assert [*rows_of(on_disk(tmp_path, **splits))] == ["train", "test"]
    assert "Not read: validation.csv." in capsys.readouterr().err
    rows = rows_of(on_disk(tmp_path, **splits, val_split="validation"))
    assert [held[3][0] for held in rows.values()] == ["old 3", "new 3", "validation 3"]


@pytest.mark.parametrize(
    ("names", "settings", "parts"),
    [
        (["train.csv", "train.csv.gz"], {}, ["gz: 2 files are no whole", "train_split=train.csv"]),
        (["train.csv", "train_5k.csv"], {}, ["train.csv, train_5k.csv"]),
        (["train/a.csv", "train/b.csv"], {}, ["train/a.csv, train/b.csv"]),
        (["train.csv", "old/train.csv"], {}, ["old/train.csv, train.csv"]),
        (["a.csv", "b.csv"], {}, ["no split train, but a, b", "data.train_split="]),
        (["train.csv"], {"name": "imdb"}, ["no split test", "With data=files"]),
        (["train-0-of-2.csv"], {}, ["1 files are no whole split"]),
        (["train-0-of-2.csv", "train_old-1-of-2.csv"], {"train_split": "train"}, ["1 files"]),
        (["train.csv", "test.csv"], {"val_split": "test"}, ["val_split=test is the test split"]),
        (["train.csv", "test.csv"], {"val_split": "train.csv"}, ["train.csv is the train split"]),
        (["train.csv"], {"test_split": "train"}, ["data.test_split=train is the train split"]),
        (["README.md"], {}, ["no split train, but nothing", "a csv, tsv"]),
    ],
)
def test_files_that_are_no_splits_are_reported(
    tmp_path: Path, names: list[str], settings: dict[str, str], parts: list[str]
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_csv(tmp_path / name, [("a", 0), ("b", 1)])
    message = refusal(on_disk(tmp_path, **settings))
    assert all(part in message for part in [str(tmp_path), *parts]), message


def test_of_two_versions_of_a_split_the_named_is_read(tmp_path: Path, capsys: Capture) -> None:
    write_splits(tmp_path, train=4, train_5k=4, test=4)
    write_splits(tmp_path, **{"train-0-of-2": 4})  # a shard is read alone, too
    (tmp_path / "__MACOSX").mkdir()
    write_splits(tmp_path / "__MACOSX", train=1)  # which no one meant
    names = {"train_5k": "train_5k", "train.csv": "train", "train-0-of-2.csv": "train-0-of-2"}
    for name, stem in names.items():
        (first, *_) = rows_of(on_disk(tmp_path, train_split=name))["train"]
        assert first == (f"{stem} 0", "0")
        assert "Not read: " in capsys.readouterr().err


def test_what_was_read_is_said_and_kept(tmp_path: Path, capsys: Capture) -> None:
    write_splits(tmp_path, **{"train-00000-of-00002": 4, "train-00001-of-00002": 3, "test": 2})
    shards = ["train-00000-of-00002.csv", "train-00001-of-00002.csv"]
    assert encode.load_dataset(on_disk(tmp_path)).files == {
        "train": {"files": shards, "texts": 7, "files_not_read": 0},
        "test": {"files": ["test.csv"], "texts": 2, "files_not_read": 0},
    }
    line = f"Read train: {', '.join(shards)}, 7 texts; test: test.csv, 2 texts."
    assert line in capsys.readouterr().err


@pytest.mark.parametrize("place", ["folder", "archive"])
def test_reviews_of_other_names_are_told(tmp_path: Path, capsys: Capture, place: str) -> None:
    others = ["train/pos/mine.txt", "train/pos/9_9.md", "test/neg/b_1.txt"]
    with Patch.context() as patch:
        for name in others:
            patch.setitem(REVIEW_FILES, f"aclImdb/{name}", b"mine")
        write_imdb(tmp_path)
    read = encode.load_dataset(on_disk(tmp_path / place)).files
    assert [(part["texts"], part["files_not_read"]) for part in read.values()] == [(6, 2), (4, 1)]
    message = capsys.readouterr().err
    assert all(part in message for part in ["Not read: 3 files of other names", *others])
    for file in tmp_path.glob("folder/aclImdb/test/*/*_*"):
        file.rename(file.with_suffix(".TXT"))
    assert "test split, holds no texts. test/neg/" in refusal(on_disk(tmp_path / "folder"))


def test_the_command_shows_what_is_read(tmp_path: Path, capsys: Capture) -> None:
    rows = [(f"a \x1b[31m text {i}", ("no", "no ", "yes")[i % 3]) for i in range(30)]
    write_csv(tmp_path / "mine.csv", rows)
    for name in ("files", "imdb"):
        assert on_disk(tmp_path / "mine.csv", name).title == "mine.csv"
    words = ["data", "prepare", "data=files", f"data.path={tmp_path}/mine.csv"]
    app(words, standalone_mode=False)
    shown = capsys.readouterr().out
    assert "'no ':\n      train: 8\n      test: 2" in shown
    assert "31m text" in shown
    assert "\x1b[31m" not in shown
    app([*words, "--json"], standalone_mode=False)
    (shown_set,) = json.loads(capsys.readouterr().out)["sets"]
    read = {"files": ["mine.csv"], "texts": 30, "files_not_read": 0}
    assert shown_set["read"] == {"train": read}
    assert shown_set["problems"] == [
        "2 names of classes differ in space, case, zeros, quotes or encoding ('no', 'no ')"
    ]


def test_classes_of_few_texts_or_of_one_number_are_problems(tmp_path: Path) -> None:
    labels = ["1", "1", "01", "1e0", "é", "e\u0301"] * 5 + ["rare"]
    write_csv(tmp_path / "a.csv", [(f"text {i}", label) for i, label in enumerate(labels)])
    quality = encode.load_dataset(on_disk(tmp_path / "a.csv")).quality
    assert quality["of 6 classes with one text in train: rare"] == 1
    assert quality["of 6 classes with no text in test: rare"] == 1
    alike = "names of classes differ in space, case, zeros, quotes or encoding"
    assert quality[f"{alike} ('01', '1', '1e0')"] == 3
    assert quality[f"{alike} ('e\u0301', 'é')"] == 2
    write_csv(tmp_path / "a.csv", [(f"text {i}", i % 4 - 1) for i in range(20)])
    assert "labels are -1" in next(iter(encode.load_dataset(on_disk(tmp_path / "a.csv")).quality))
