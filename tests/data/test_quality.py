"""What is to be questioned in data is counted and told; what cannot be meant is refused."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Command
from samples import write_reviews

from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import quality
from attnexp.data.encode import load
from attnexp.data.sources import find

TEXTS = [f"this film is number {i} of all" for i in range(12)]
TRAIN, TEST = TEXTS[:8], TEXTS[8:]


def archive(path: Path, names: list[str], text: Callable[[str], str] = str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            content = text(name).encode()
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def names(numbers: range | list[int] = range(5)) -> list[str]:
    return [f"{split}/{side}/{i}_7.txt" for split in ("train", "test") for side in ("neg", "pos")
            for i in numbers]  # fmt: skip


def on_disk(path: Path) -> DataConfig:
    return DataConfig(name=DataName.files, path=str(path))


def first_review(path: Path) -> object:
    return next(iter(find(on_disk(path)).read().train.texts))


def told(config: DataConfig) -> str:
    with pytest.raises(UserError) as caught:
        load(config)
    return str(caught.value)


QUESTIONS: dict[str, tuple[list[str], list[str], dict[str, int]]] = {
    "nothing": (TRAIN, TEST, {}),
    "test reviews in train": (
        TRAIN, [*TEST, TRAIN[0], TRAIN[5], TRAIN[3]],  # the last is labelled 1 there, 0 here
        {quality.TEST_IN_TRAIN: 3, quality.BOTH_LABELS: 1},
    ),
    "a review twice in train": ([*TRAIN, TRAIN[0]], TEST, {}),
    "both labels in train": ([*TRAIN, TRAIN[1]], TEST, {quality.BOTH_LABELS: 1}),
    "no words": ([*TRAIN, "", "..."], [*TEST, " "], {quality.WITHOUT_WORDS: 3}),
    "a language without spaces": (
        ["这部电影的剧情非常精彩", "这部电影的剧情非常无聊"] * 5,
        ["演员的表演让人难以忘怀", "演员的表演让人昏昏欲睡"],
        {quality.FEW_TOKENS: 12, quality.UNKNOWN: 2},
    ),
    "a byte order mark": (
        ["\ufeffthis is one", *TRAIN], TEST, {quality.BYTE_ORDER_MARKS: 1}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", QUESTIONS)
def test_questions_are_counted_and_kept_with_the_cache(tmp_path: Path, case: str) -> None:
    train, test, found = QUESTIONS[case]
    config = write_reviews(tmp_path / "reviews", train, test)
    assert load(config).quality == found
    assert load(config).quality == found  # from the cache


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path: Path) -> None:
    marked = ["\ufeffthis", *TRAIN]
    assert load(write_reviews(tmp_path / "a", marked, TEST)).fingerprint == (
        load(write_reviews(tmp_path / "b", ["this", *TRAIN], TEST)).fingerprint
    )


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (names(), {}),
        (names(range(1, 6)), {}),
        (names([0, 1, 4, 9]), {quality.MISSING_FILES: 4 * 6}),
        ([*names(), *names()[3:6]], {quality.REPEATED_FILES: 3}),
        ([*names(), f"copy/{names()[0]}"], {quality.REPEATED_FILES: 1}),
    ],
)
def test_questions_about_files_are_counted(
    tmp_path: Path, files: list[str], found: dict[str, int]
) -> None:
    path = archive(tmp_path / "a.tar.gz", files, text=lambda name: name.replace("copy/", ""))
    dataset = load(on_disk(path))
    assert dataset.quality == found
    assert len(dataset.train) + len(dataset.test) == len({name[-15:] for name in files})


def test_of_files_of_one_name_the_last_is_read_as_unpacking_does(tmp_path: Path) -> None:
    said = iter(range(100))
    path = archive(tmp_path / "a.tar.gz", [*names(), names()[0]], text=lambda _: f"no {next(said)}")
    assert first_review(path) == "no 20"
    with tarfile.open(path) as packed:
        packed.extractall(tmp_path, filter="data")
    assert first_review(tmp_path) == "no 20"


@pytest.mark.parametrize(
    ("train", "test", "part"),
    [
        (["", "..."], TEST, "No text of train"),
        (TRAIN, ["!", "?"], "No text of test"),
    ],
)
def test_reviews_without_any_word_are_refused(
    tmp_path: Path, train: list[str], test: list[str], part: str
) -> None:
    assert part in told(write_reviews(tmp_path / "reviews", train, test))


def test_the_embedded_corpus_raises_no_question() -> None:
    config = DataConfig(name=DataName.contrast, order_fraction=0.5)
    assert load(config).quality == {}


@pytest.mark.usefixtures("_own_cache")
def test_questions_are_told_once_and_stored(attnexp: Command, tmp_path: Path) -> None:
    config = write_reviews(tmp_path / "reviews", TRAIN, [*TEST, TRAIN[1]])
    where = ["data=files", f"data.path={config.path}", "data.max_len=8", "train.epochs=1"]
    line = f"Questions about the data: {quality.TEST_IN_TRAIN}: 1; {quality.BOTH_LABELS}: 1"
    trained = attnexp("train", *where)
    assert trained.stderr.count(line) == 1
    (run_dir,) = (tmp_path / "outputs/runs").glob("*-*")
    assert line in (run_dir / "run.log").read_text()
    result: dict[str, Any] = json.loads((run_dir / "result.json").read_text())
    assert result["data"]["quality"] == {quality.TEST_IN_TRAIN: 1, quality.BOTH_LABELS: 1}
    shown = attnexp("data", *where[:2])
    assert line in " ".join(shown.stdout.split())
    assert max(map(len, shown.stdout.partition("Questions")[2].splitlines())) <= 80
