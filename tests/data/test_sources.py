"""Every form of the same reviews reads equal; whatever is wrong is said with its place and cure."""

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pyarrow as pa
import pytest
from conftest import IMDB, needs_imdb
from hub_server import Hub, serve
from pyarrow import parquet
from samples import HALVES, write_archive, write_folder, write_parquet

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import sources
from attnexp.data.corpus import Corpus
from attnexp.data.sources import Source, find

CARD = """---
configs:
- config_name: plain_text
  data_files:
  - {split: train, path: plain_text/train-*}
  - {split: test, path: plain_text/test-*}
---
"""


# The small corpus in each form.


def objects(rows: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(rows), object)
    array[:] = rows
    return array


RANKS = {
    "x_train": objects([[1, 14, 22], [], [88_000]]),
    "y_train": np.array([1, 0, 1]),
    "x_test": objects([[5], [1, 2]]),
    "y_test": np.array([0, 1]),
}


def write_keras(path: Path, **changes: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **(RANKS | changes))
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def on_disk(path: Path | str, name: DataName = DataName.imdb) -> Source:
    return find(DataConfig(name=name, path=str(path)))


def said(path: Path | str, name: DataName = DataName.imdb) -> str:
    """The message of the `UserError` that finding or reading must raise."""
    with pytest.raises(UserError) as caught:
        on_disk(path, name).read()
    return str(caught.value)


def assert_is_the_corpus(corpus: Corpus) -> None:
    for split, (texts, labels) in HALVES.items():
        half = getattr(corpus, split)
        assert half.texts == texts
        assert half.labels.dtype == np.int8
        assert half.labels.tolist() == labels


def write_unsupervised(home: Path) -> Path:
    rows = pa.table({"text": ["?"], "label": [-1]})
    parquet.write_table(rows, write_parquet(home) / "unsupervised-00000-of-00001.parquet")
    return home


FORMS: dict[str, Callable[[Path], Path]] = {
    "parquet": lambda tmp: write_parquet(tmp / "here"),
    "unsupervised parquet": lambda tmp: write_unsupervised(tmp / "here"),
    "parquet below": lambda tmp: write_parquet(tmp / "plain_text").parent,
    "two shards": lambda tmp: write_parquet(tmp / "here", shards=2),
    "parent": lambda tmp: write_folder(tmp),
    "folder": lambda tmp: write_folder(tmp) / "aclImdb",
    "archive": lambda tmp: write_archive(tmp / "aclImdb_v1.tar.gz"),
    "renamed archive": lambda tmp: write_archive(tmp / "renamed"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_reads_equal(tmp_path: Path, form: str) -> None:
    assert_is_the_corpus(on_disk(FORMS[form](tmp_path)).read())


def edit(file: Path) -> None:
    """Change the last byte in place, with size and time kept."""
    content, stat = file.read_bytes(), file.stat()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize("form", ["parquet", "folder", "archive", "keras"])
def test_the_key_follows_the_content(tmp_path: Path, form: str) -> None:
    write: dict[str, Callable[[Path], Path]] = {
        "parquet": lambda home: write_parquet(home / "imdb"),
        "folder": write_folder,
        "archive": lambda home: write_archive(home / "imdb.tar.gz"),
        "keras": lambda home: write_keras(home / "imdb.npz"),
    }
    path = write[form](tmp_path / "one")
    inside = {"folder": "aclImdb/train/neg/8_10.txt", "parquet": "test-00000-of-00001.parquet"}
    key = on_disk(path).key
    assert on_disk(path).key == key
    edit(path / inside.get(form, ""))
    assert on_disk(path).key != key


# Keras's file.


@pytest.mark.parametrize("compressed", [False, True])
def test_keras_ranks_survive(
    tmp_path: Path, compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = np.savez_compressed if compressed else np.savez
    arrays: dict[str, Any] = RANKS
    path = tmp_path / "imdb.npz"
    save(path, **arrays)
    monkeypatch.setattr(sources, "KERAS_NPZ", {sha256(path)})
    corpus = on_disk(path).read()
    for split in ("train", "test"):
        half = getattr(corpus, split)
        assert [row.tolist() for row in half.texts] == list(RANKS[f"x_{split}"])
        assert all(row.dtype == np.int32 for row in half.texts)
        assert half.labels.tolist() == RANKS[f"y_{split}"].tolist()


class Call:
    """Pickles as a call that makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_no_other_npz_is_unpickled(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    path = write_keras(tmp_path / "imdb.npz", x_test=objects([Call(marker), [1]]))
    message = said(path)
    assert f"{path} is not the imdb.npz that Keras publishes" in message
    assert sha256(path) in message
    assert not marker.exists()
    with np.load(path, allow_pickle=True) as arrays:
        assert len(arrays["x_test"]) == 2
    assert marker.exists()  # so the pickle was a live one


# Bad input on disk: one case a line.


def halve(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def empty(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def parquet_with(tmp: Path, **columns: Any) -> Path:
    home = write_parquet(tmp / "imdb")
    parquet.write_table(pa.table(columns), home / "test-00000-of-00001.parquet")
    return home


def inside(home: Path, name: str, change: Callable[[Path], object]) -> Path:
    change(home / name)
    return home


def loop(tmp: Path) -> Path:
    home = write_parquet(tmp / "imdb")
    shard = home / "test-00000-of-00001.parquet"
    shard.unlink()
    shard.symlink_to(shard)
    return home


TEST_SHARD = "test-00000-of-00001.parquet"
BAD: dict[str, tuple[Callable[[Path], Path], list[str]]] = {
    "nowhere": (lambda tmp: tmp / "no", ["does not exist", "parquet", "aclImdb", "imdb.npz"]),
    "no test parquet": (
        lambda tmp: inside(write_parquet(tmp / "imdb"), TEST_SHARD, Path.unlink),
        ["holds train, but no test", "data=files"],
    ),
    "truncated parquet": (
        lambda tmp: inside(write_parquet(tmp / "imdb"), TEST_SHARD, halve),
        [TEST_SHARD, "damaged", "Fetch or make it again"],
    ),
    "a loop of links": (loop, [TEST_SHARD, "cannot be read", "Check"]),
    "labels -1, 1": (
        lambda tmp: parquet_with(tmp, text=["a", "b", "c"], label=[1, -1, 3]),
        ["labelled -1, 3", "Both need the same"],
    ),
    "no test folder": (
        lambda tmp: inside(
            write_folder(tmp), "aclImdb/test", lambda path: path.rename(tmp / "moved")
        ),
        ["test/neg", "No such file", "Check"],
    ),
    "empty review file": (
        lambda tmp: inside(write_folder(tmp), "aclImdb/train/neg/9_9.txt", empty),
        ["train/neg/9_9.txt", "0 bytes", "Unpack"],
    ),
    "latin-1 review": (
        lambda tmp: inside(
            write_folder(tmp), "aclImdb/train/neg/9_9.txt", lambda p: p.write_bytes(b"na\xefve")
        ),
        ["train/neg/9_9.txt", "not UTF-8", "byte 2"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_with_its_place_and_cure(tmp_path: Path, case: str) -> None:
    make, parts = BAD[case]
    message = said(make(tmp_path))
    assert all(part in message for part in [str(tmp_path), *parts]), message


def test_no_truncation_goes_unnoticed(tmp_path: Path) -> None:
    whole = write_archive(tmp_path / "whole.tar.gz").read_bytes()
    for size in range(0, len(whole), 7):
        (tmp_path / "cut").write_bytes(whole[:size])
        message = said(tmp_path / "cut")
        assert str(tmp_path / "cut") in message
        assert "damaged or incomplete" in message or size < 2


def test_a_missing_path_is_never_replaced_by_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "data.path=/nowhere does not exist" in said("/nowhere")
    monkeypatch.setenv("ATTNEXP_IMDB", "/from/environment")
    assert "data.path=/nowhere does not exist" in said("/nowhere")
    with pytest.raises(UserError, match="ATTNEXP_IMDB=/from/environment does not exist"):
        find(DataConfig())


def test_results_name_the_environment_and_not_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write_archive(tmp_path / "a.tar.gz")
    monkeypatch.setenv("ATTNEXP_IMDB", str(archive))
    assert find(DataConfig()).description.endswith(" $ATTNEXP_IMDB")


def test_a_preset_is_a_folder_of_this_name_or_the_hubs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cr").mkdir()
    rows = [f"good {i},1\nbad {i},0\n" for i in range(10)]
    (tmp_path / "cr/all.csv").write_text("".join(["sentence,polarity\n", *rows]))
    monkeypatch.setenv("ATTNEXP_DATA", str(tmp_path))
    found = find(compose(["data=cr"]).data)
    assert found.description == "csv files in $ATTNEXP_DATA/cr"
    assert found.read().classes == ("negative", "positive")
    with pytest.raises(UserError, match=r"SetFit/subj at (.*\n)*.*FOLDER/subj is read"):
        find(compose(["data=subj"]).data)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a.tar.gz")
    path.chmod(0)
    message = said(path)
    assert str(path) in message
    assert "Permission denied" in message


@needs_imdb
def test_the_real_imdb() -> None:
    corpus = on_disk(IMDB).read()
    for half, distinct in ((corpus.train, 24_904), (corpus.test, 24_801)):
        assert len(half.texts) == 25_000
        assert len({str(review) for review in half.texts}) == distinct
        assert half.labels.tolist() == [0] * 12_500 + [1] * 12_500


# The hub: in a process of its own, because the libraries read the environment at import.

SCRIPT = """
import json, sys
from attnexp.config.schema import DataConfig, DataName
from attnexp.data.sources import find
from attnexp.base.errors import UserError
answer = {}
try:
    settings = json.loads(sys.argv[3])
    source = find(DataConfig(name=DataName(sys.argv[1]), path=sys.argv[2] or None, **settings))
    answer |= {"description": source.description, "key": source.key}
    answer["quick"] = "datasets" not in sys.modules
    corpus = source.read()
    for split in ("train", "test"):
        half = getattr(corpus, split)
        answer["classes"] = corpus.classes
        answer[split] = [half.texts, half.labels.tolist()]
except UserError as error:
    answer["error"] = str(error)
print(json.dumps(answer))
"""


def python(home: Path, endpoint: str, text: str, *words: str, **environment: str) -> str:
    """What a process that has yet to import the libraries prints, within a minute; its stderr must
    stay empty."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    hub = {"HF_HOME": str(home), "HF_ENDPOINT": endpoint}
    environment = kept | hub | environment
    done = forked.run(
        forked.script, text, *words, cwd=home.parent, environment=environment, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


def ask_hub(
    home: Path, endpoint: str, name: str = "", *, settings: str = "{}", **environment: str
) -> dict[str, Any]:
    """What `find` and `read` give."""
    words = ["hub" if name else "imdb", name, settings]
    answer: dict[str, Any] = json.loads(python(home, endpoint, SCRIPT, *words, **environment))
    return answer


def hub_files(tmp: Path, card: str = CARD, *, shards: int = 1) -> dict[str, bytes]:
    home = write_parquet(tmp / "served", shards=shards)
    files = {f"plain_text/{path.name}": path.read_bytes() for path in home.iterdir()}
    return files | {"README.md": card.encode()}


def assert_answers_the_corpus(answer: dict[str, Any]) -> None:
    assert "error" not in answer, answer["error"]
    assert {split: answer[split] for split in HALVES} == {
        split: list(half) for split, half in HALVES.items()
    }


CLOSED = "http://127.0.0.1:9"  # nobody listens on the discard port


def test_the_hub_is_asked_once_then_the_cache_serves(tmp_path: Path) -> None:
    home = tmp_path / "home"
    write_parquet(tmp_path / "stanfordnlp/imdb", shards=3)  # not to be taken for the hub's
    with serve(Hub("stanfordnlp/imdb", hub_files(tmp_path))) as served:
        first = ask_hub(home, served.endpoint)
        asked = len(served.requests)
        assert ask_hub(home, served.endpoint) == first
        assert len(served.requests) == asked
    assert_answers_the_corpus(first)
    assert first["description"] == f"hub: stanfordnlp/imdb@{served.commit[:12]}"
    assert first["quick"]  # every run finds its data; the import of `datasets` takes a second


def test_a_data_set_of_any_format_and_a_new_commit_has_a_new_key(tmp_path: Path) -> None:
    lines = ["text,label", "bad,0", "good,1"]
    files = {"train.csv": "\n".join(lines).encode(), "test.csv": "\n".join(lines).encode()}
    keys = set()
    for note in (b"one", b"two"):
        with serve(Hub("some/TinyReviews", {**files, "README.md": note})) as served:
            answer = ask_hub(tmp_path / note.decode(), served.endpoint, "some/TinyReviews")
        assert answer["train"] == [["bad", "good"], [0, 1]]
        assert answer["test"] == answer["train"]
        keys.add(answer["key"])
    assert len(keys) == 2


def test_a_data_set_without_splits_is_split_and_found_again_in_the_cache(tmp_path: Path) -> None:
    rows = "".join(f"text {i},{'yn'[i % 2]}\n" for i in range(20))
    with serve(Hub("some/reviews", {"all.csv": f"text,label\n{rows}".encode()})) as served:
        answer = ask_hub(tmp_path / "home", served.endpoint, "some/reviews")
    assert [len(answer[split][0]) for split in HALVES] == [16, 4]
    assert ask_hub(tmp_path / "home", CLOSED, "some/reviews") == answer
    edit(next((tmp_path / "home").rglob("all.csv")))
    assert ask_hub(tmp_path / "home", CLOSED, "some/reviews")["key"] != answer["key"]


def test_a_configuration_its_splits_and_columns_are_chosen(tmp_path: Path) -> None:
    card = """---
configs:
- {config_name: one, data_files: one.csv}
- config_name: two
  data_files: [{split: seen, path: old.csv}, {split: unseen, path: new.csv}]
---"""
    files = {
        "one.csv": b"text,label\na,0\n",
        "old.csv": b"a,b,c\nx,good,joy\ny,bad,grief\n",
        "new.csv": b"a,b,c\nz,good,joy\nw,bad,grief\n",
        "README.md": card.encode(),
    }
    settings = {"config": "two", "train_split": "seen", "test_split": "unseen"}
    with serve(Hub("some/reviews", files)) as served:
        for columns in ({"text": "a", "label": "b"}, {"text": "b", "label": "c"}):
            asked = json.dumps(settings | columns)
            answer = ask_hub(tmp_path / "home", served.endpoint, "some/reviews", settings=asked)
            labels = ["bad", "good"] if columns["label"] == "b" else ["grief", "joy"]
            texts = ["x", "y"] if columns["text"] == "a" else ["good", "bad"]
            assert answer["classes"] == labels
            assert answer["train"] == [texts, [1, 0]]
            assert len(answer["test"][0]) == 2


DOWNLOAD = """
from huggingface_hub import hf_hub_download, utils
utils.disable_progress_bars()
for split in ("train", "test"):
    for i in range(2):
        name = f"plain_text/{split}-{i:05}-of-00002.parquet"
        hf_hub_download("stanfordnlp/imdb", name, repo_type="dataset")"""


def test_what_others_left_in_the_cache_serves_if_it_is_whole_and_damage_is_reported(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    with serve(Hub("stanfordnlp/imdb", hub_files(tmp_path, shards=2))) as served:
        python(home, served.endpoint, DOWNLOAD)
        assert_answers_the_corpus(ask_hub(home, CLOSED, HF_HUB_OFFLINE="1"))
        next(home.rglob("test-*1-of-*")).unlink()
        assert "cannot be fetched" in ask_hub(home, CLOSED)["error"]
        shard = next(home.rglob("*.parquet"))
        halve(shard)
        error = ask_hub(home, served.endpoint)["error"]
        assert f"{shard.parents[1]} cannot be read" in error
        shutil.rmtree(error.split("delete ")[1].split(", to download")[0])
        assert_answers_the_corpus(ask_hub(home, served.endpoint))


WAYS = ["data.path=", "ATTNEXP_IMDB", "stanfordnlp/imdb", "HF_ENDPOINT", "data=contrast"]
WAYS += ["parquet", "aclImdb folder", "aclImdb_v1.tar.gz", "imdb.npz"]


@pytest.mark.parametrize(
    ("endpoint", "environment", "reason"),
    [
        (CLOSED, {}, "cannot be fetched (ConnectError"),
        (CLOSED, {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE"),
    ],
    ids=["refused", "offline mode"],
)
def test_without_network_all_ways_are_named(
    tmp_path: Path, endpoint: str, environment: dict[str, str], reason: str
) -> None:
    answer = ask_hub(tmp_path, endpoint, **environment)
    assert all(part in answer["error"] for part in [reason, endpoint, *WAYS]), answer["error"]


@pytest.mark.slow
def test_a_hub_that_never_answers_is_given_up_within_a_minute(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = ask_hub(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert all(part in answer["error"] for part in ["Timeout", *WAYS])


@pytest.mark.parametrize(
    ("status", "parts"),
    [
        (404, ["There is no data set stanfordnlp/imdb", "spelling"]),
        (401, ["private, gated or not there (401)", "hf auth login", "HF_TOKEN"]),
        (503, ["cannot be fetched", "503"]),
    ],
)
def test_a_refusal_is_told_by_its_kind(tmp_path: Path, status: int, parts: list[str]) -> None:
    with serve(Hub("stanfordnlp/imdb", {}, refuse=status)) as served:
        answer = ask_hub(tmp_path, served.endpoint)
    assert all(part in answer["error"] for part in [served.endpoint, *parts, *WAYS])
    asked = [request for request in served.requests if "/datasets/" in request]
    assert len(asked) == 1  # the library's own retries take minutes
    assert "Error" not in answer["error"] or status == 503


@pytest.mark.parametrize("name", ["../shared/imdb", "a b", ""])
def test_what_cannot_be_a_name_is_reported(name: str) -> None:
    message = said(name, DataName.hub)
    assert f"data.path={name} cannot be a hub data set's name" in message
    assert "data=files" in message


TWO_CONFIGURATIONS = CARD.replace("\n---\n", "\n- {config_name: b, data_files: train*}\n---\n")


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        (
            {"validation.csv": b"text,label\na,0\n"},
            ["the splits validation, but no train", "data.train_split=NAME"],
        ),
        (
            {"README.md": TWO_CONFIGURATIONS.encode()},
            ["cannot be read", "pick one among", "data.config=NAME"],
        ),
    ],
    ids=["split", "configurations"],
)
def test_what_is_no_set_of_reviews_is_reported(
    tmp_path: Path, files: dict[str, bytes], parts: list[str]
) -> None:
    if "README.md" in files:
        files = hub_files(tmp_path) | files
    with serve(Hub("some/reviews", files)) as served:
        answer = ask_hub(tmp_path / "home", served.endpoint, "some/reviews")
    assert all(part in answer["error"] for part in parts), answer["error"]
