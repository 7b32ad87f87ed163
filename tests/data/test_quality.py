"""What is to be questioned in data is counted and told; what cannot be meant is refused."""

import tarfile
from pathlib import Path

import pytest
from samples import write_archive, write_reviews

from attnexp.base.errors import UserError
from attnexp.cli import app
from attnexp.config.compose import compose
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import quality
from attnexp.data.encode import load
from attnexp.data.sources import find
from attnexp.training.run import train_run

TEXTS = [f"this film is number {i} of all" for i in range(12)]
TRAIN, TEST = TEXTS[:8], TEXTS[8:]


def first_review(path: Path) -> object:
    config = DataConfig(name=DataName.files, path=str(path))
    return next(iter(find(config).read().train.texts))


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
}  # fmt: skip


@pytest.mark.parametrize("case", QUESTIONS)
def test_questions_are_counted_and_kept_with_the_cache(tmp_path: Path, case: str) -> None:
    train, test, found = QUESTIONS[case]
    config = write_reviews(tmp_path / "reviews", train, test)
    for _ in range(2):  # then from the cache
        assert load(config).quality == found


def test_of_files_of_one_name_the_last_is_read_as_unpacking_does(tmp_path: Path) -> None:
    names = [f"{split}/{side}/{i}_7.txt" for split in ("train", "test") for side in ("neg", "pos")
             for i in range(5)]  # fmt: skip
    twice = [(name, b"no %d" % i) for i, name in enumerate([*names, names[0]])]
    path = write_archive(tmp_path / "a.tar.gz", twice)
    assert first_review(path) == "no 20"
    with tarfile.open(path) as packed:
        packed.extractall(tmp_path, filter="data")
    assert first_review(tmp_path) == "no 20"


def test_reviews_without_any_word_are_refused(tmp_path: Path) -> None:
    for train, test, split in ((["", "..."], TEST, "train"), (TRAIN, ["!", "?"], "test")):
        with pytest.raises(UserError, match=f"No text of {split}"):
            load(write_reviews(tmp_path / split, train, test))


def test_the_embedded_corpus_raises_no_question() -> None:
    assert load(DataConfig(name=DataName.contrast, order_fraction=0.5)).quality == {}


@pytest.mark.usefixtures("_own_cache")
def test_questions_are_told_once_and_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_reviews(tmp_path / "reviews", TRAIN, [*TEST, TRAIN[1]])
    where = ["data=files", f"data.path={config.path}"]
    line = f"Questions about the data: {quality.TEST_IN_TRAIN}: 1; {quality.BOTH_LABELS}: 1"
    run_dir, result = train_run(compose([*where, "model.d_model=8", f"out={tmp_path}"]))
    assert capsys.readouterr().err.count(line) == 1
    assert line in (run_dir / "run.log").read_text()
    assert result.data["quality"] == {quality.TEST_IN_TRAIN: 1, quality.BOTH_LABELS: 1}
    app(["data", *where], standalone_mode=False)
    shown = capsys.readouterr().out
    assert line in " ".join(shown.split())
    assert max(map(len, shown.partition("Questions")[2].splitlines())) <= 80
