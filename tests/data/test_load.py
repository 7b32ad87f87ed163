"""Sources of data: files, folders and the hub's cache, in the order that is promised."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Command, Patch
from forms import Rows, frame, on_disk, refusal, rows_of, write_csv
from samples import write_file

from attnexp.config.compose import compose
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import encode
from attnexp.data.corpus import locate_source
from attnexp.data.encode import read_tokenized

REVIEWS: dict[str, Rows] = {
    "train": [("dull,  grey\n", 0), ("no", 0), ("naïve fun", 0), ("yes", 1), ("ten", 1), ("10", 1)],
    "test": [("weak", 0), ("mild", 0), ("strong ☕", 1), ("fine", 1)],
}
"""Reviews in the order of the hub's IMDB: sorted by label."""


def write_imdb(home: Path) -> None:
    """The reviews as aclImdb has them, and as the hub has them."""
    folder = home / "folder/aclImdb"
    for split, rows in REVIEWS.items():
        for number, (text, label) in enumerate(rows, start=8):  # 10 comes after 9
            name = ("neg", "pos")[label]
            write_file(folder / f"{split}/{name}/{number}_{20 - number}.txt", text)
        file = write_file(home / f"hub/plain_text/{split}-00000-of-00001.parquet", "")
        frame(rows).to_parquet(file)
    for name in ("unsup/1_0", "pos/._8_12", ".ipynb_checkpoints/8_12"):
        write_file(folder / f"train/{name}.txt", "?")
    write_file(folder / "notes.json", '{"a": 1}')


@pytest.mark.parametrize(
    ("place", "names"),
    [("folder", ["neg", "pos"]), ("folder/aclImdb", ["neg", "pos"]), ("hub", ["0", "1"])],
)
def test_imdb_reads_alike_in_every_form(tmp_path: Path, place: str, names: list[str]) -> None:
    write_imdb(tmp_path)
    config = on_disk(tmp_path / place, "imdb")
    rows = rows_of(config)
    for split, reviews in REVIEWS.items():
        assert rows[split] == [(text, names[label]) for text, label in reviews]
    assert encode.load_dataset(config).fingerprint == "dad9acdac07694ad"


def test_a_text_of_another_encoding_is_named(tmp_path: Path) -> None:
    write_file(tmp_path / "train/pos/1.txt", b"na\xefve")
    assert "train/pos/1.txt cannot be read: line 1: 'utf-8' codec" in refusal(on_disk(tmp_path))


def test_places_are_taken_in_their_order(tmp_path: Path, monkeypatch: Patch) -> None:
    write_imdb(tmp_path / "cr")
    (tmp_path / "imdb").mkdir()
    (tmp_path / "hub").mkdir()  # no name of a data set
    imdb = DataConfig()
    cr = compose(["data=cr"]).data
    monkeypatch.chdir(tmp_path)  # an unset variable names no folder, not even this one
    assert str(locate_source(cr)) == "hub: SetFit/SentEval-CR"
    monkeypatch.setenv("ATTNEXP_DATA", str(tmp_path))
    assert str(locate_source(cr)) == f"$ATTNEXP_DATA/cr: {tmp_path}/cr"
    assert str(locate_source(imdb)) == f"$ATTNEXP_DATA/imdb: {tmp_path}/imdb"
    assert str(locate_source(on_disk(Path("a/b"), "hub"))) == "hub: a/b"
    monkeypatch.setenv("ATTNEXP_IMDB", str(tmp_path / "cr/hub"))
    assert str(locate_source(imdb)) == f"$ATTNEXP_IMDB: {tmp_path}/cr/hub"
    assert read_tokenized(imdb).source == "$ATTNEXP_IMDB"  # no folder of this machine
    monkeypatch.setenv("ATTNEXP_IMDB", "/from/environment")  # what is missing is never replaced
    assert "$ATTNEXP_IMDB=/from/environment does not exist" in refusal(imdb)
    message = refusal(on_disk(tmp_path / "no", "imdb"))
    assert f"data.path={tmp_path}/no does not exist. Give a csv, tsv" in message


CARD = """---
configs:
- {config_name: one, data_files: one.csv}
- config_name: two
  data_files: [{split: seen, path: old.csv}, {split: unseen, path: new.csv}]
---"""


def test_the_hubs_cache_serves_configurations(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    home = tmp_path / "datasets--some--reviews"
    folder = home / "snapshots" / ("c0ffee" * 7)[:40]
    write_file(home / "refs/main", folder.name)
    write_file(folder / "README.md", CARD)
    old = [("x", "up"), ("y", "down")]
    new = [("z", "up"), ("w", "down")]
    write_csv(folder / "one.csv", old)
    write_csv(folder / "old.csv", old)
    write_csv(folder / "new.csv", new)
    config = on_disk(Path("some/reviews"), "hub", train_split="seen", test_split="unseen")
    assert "data.config=NAME" in refusal(config)
    config.config = "two"
    assert rows_of(config) == {"train": old, "test": new}
    assert read_tokenized(config).source == "hub: some/reviews@c0ffeec0ffee"


@pytest.mark.parametrize("name", ["some/other", ""])
def test_what_cannot_be_fetched_is_said_with_all_ways(name: str) -> None:
    message = refusal(DataConfig(name=DataName.hub, path=name))  # nor a folder of this name
    ways = ["HF_ENDPOINT", "data.path=", "$ATTNEXP_IMDB", "train/pos/1.txt", "data=contrast"]
    for part in (name, *ways):
        assert part in message


NO_SPLITS: list[Any] = [
    ("train.csv train.csv.gz", {}, "train.csv, train.csv.gz: 2 files are no whole split"),
    ("train-0-of-2.csv", {"test_split": "x"}, "1 files are no whole split"),
    ("train-0-of-2.csv train-0-of-2.tsv", {}, "2 files are no whole split"),
    ("a.csv b.csv", {}, "no split train; it holds a, a.csv, b"),
    ("train.csv", {"name": "imdb"}, "no split test; it holds train"),
    ("train.csv test.csv", {"val_split": "train.csv"}, "train.csv have a file in common"),
    ("README.md", {}, "no split train; it holds README.md"),
    ("train.csv test/pos/1.txt", {}, "has the classes pos, and train 0, 1"),
]


@pytest.mark.parametrize(("names", "settings", "message"), NO_SPLITS)
def test_files_that_are_no_splits_are_reported(
    tmp_path: Path, names: str, settings: dict[str, str], message: str
) -> None:
    for name in names.split():
        write_file(tmp_path / name, "text,label\na,0\nb,1\n")
    reported = refusal(on_disk(tmp_path, **settings))
    assert str(tmp_path) in reported
    assert message in reported


@pytest.mark.parametrize(
    ("split", "file"),
    [("train_5k", "train_5k"), ("train-0-of-2.csv", "train-0-of-2"), ("new", "new/rows")],
)
def test_a_split_is_named_as_its_file_or_folder(tmp_path: Path, split: str, file: str) -> None:
    home = tmp_path / "train"  # A folder of this name is no split of itself.
    for name in "train train_5k test train-0-of-2 new/rows val __MACOSX/val".split():
        write_file(home / f"{name}.csv", f"text,label\n{name} 0,0\n{name} 1,1\n")
    rows = rows_of(on_disk(home, train_split=split, val_split="val"))
    assert [texts[0][0] for texts in rows.values()] == [f"{file} 0", "test 0", "val 0"]


def test_the_command_takes_a_file_of_any_name(tmp_path: Path, here: Command) -> None:
    write_csv(tmp_path / "é (1), a=b.csv", [("a", 0), ("b", 1)] * 9)
    assert "é (1), a=b.csv, 18 texts" in here("data", "prepare", "é (1), a=b.csv").stderr
    assert "gone.csv does not exist" in here("data", "prepare", "gone.csv").stderr


def test_the_command_shows_what_is_read(tmp_path: Path, here: Command) -> None:
    shards = ["train-00000-of-00002.csv", "train-00001-of-00002.csv"]
    two = "a \x1b[31m text,good\nb,N/A\n"
    write_file(tmp_path / shards[0], "Review,Sentiment\n" + 2 * two)
    write_file(tmp_path / shards[1], "Review,Sentiment\n" + two)
    write_file(tmp_path / "test.csv", "Review,Sentiment\n" + 3 * two)
    words = ["data", "prepare", ".", "data.max_len=4"]
    done = here(*words)
    notes = " ".join(done.stderr.split())
    assert f"Read train: {', '.join(shards)}, 6 texts; test: test.csv, 6 texts." in notes
    assert "Column Review is the text, Sentiment the label." in notes
    assert "    good:\n      train: 3\n      test: 3" in done.stdout
    assert "31m text" in done.stdout
    assert "\x1b[31m" not in done.stdout
    (shown_set,) = json.loads(here(*words, "--json").stdout)["sets"]
    assert shown_set["read"]["train"] == {"files": shards, "texts": 6}
    missing = f"6 labels are N/A, as where one is missing: row 2 of {shards[0]}"
    assert missing in " ".join(shown_set["problems"])
