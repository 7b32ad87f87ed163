"""Data sets as arrays of ids, ready to train on."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read
from numpy.typing import NDArray

from attnexp.base import progress
from attnexp.base.errors import UserError, join_names
from attnexp.config.schema import DataConfig
from attnexp.data import text
from attnexp.data.corpus import SENTIMENT_OF, SENTIMENTS, SPLITS, Corpus, read_corpus, stamp_files
from attnexp.data.text import Ids

Labels = NDArray[np.integer]  # (n,), 0 to C - 1
MISSING = frozenset("nan -nan none null na n/a #n/a <na> #na nat nil \\n".split())
"""Labels, in lower case, that programs write and pandas reads where there is none."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Encoded:
    """Split of a data set as the model takes it."""

    ids: Ids  # (n, max_len)
    labels: Labels


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """Encoded data set: its splits, the vocabulary and the source."""

    train: Encoded
    test: Encoded
    val: Encoded | None = None  # the split that `data.val_split` names
    words: list[str]  # the vocabulary in use, most frequent first
    vocab_size: int  # number of ids that texts may have, `data.vocab_size` at most
    classes: tuple[str, ...]  # C names, in the order of their labels
    source: str
    files: dict[str, Any]  # `Corpus.files`
    fingerprint: str
    quality: dict[str, int]  # as from `find_problems`


last_read: dict[Any, Dataset] = {}
"""The data set that was read last, by its config and the stamps of its files: the runs of a sweep
mostly share it, and a sweep hands it to its processes."""


def load_once(config: DataConfig, resample: int | None = None) -> Dataset:
    """Data set of a config, read anew when a file of it has changed, and its problems noted."""
    key = (config, resample, stamp_files(config))
    if key not in last_read:
        dataset = load_dataset(config, resample)
        problems = [f"{count:,} {problem}" for problem, count in dataset.quality.items()]
        if problems:
            progress.note(f"Warning: {'; '.join(problems)}.")
        last_read.clear()
        last_read[key] = dataset
    return last_read[key]


def load_dataset(config: DataConfig, resample: int | None = None) -> Dataset:
    """The data set that a config asks for, with its words ranked and its texts cut and padded.
    resample: seed that draws train and test anew. The fingerprint stays as it is, and words that
    only the old test split had stay unknown."""
    corpus = rank_words(load_corpus(config))
    fingerprint = compute_fingerprint(corpus)
    if resample is not None:
        corpus = rank_words(corpus.redraw(resample))
    ids = text.to_ids(list(corpus.rows.tokens), config)
    labels = corpus.rows.label.to_numpy(copy=True)  # Torch warns of arrays that are read-only.
    splits = {}
    for split, rows in corpus.rows.groupby("split").indices.items():
        splits[split] = _limit(ids[rows], labels[rows], split, config)
    words = corpus.words[: config.vocab_size - text.FIRST_WORD]
    return Dataset(
        **splits,
        words=words,
        vocab_size=len(words) + text.FIRST_WORD,
        classes=corpus.classes,
        source=corpus.source,
        files=corpus.files,
        fingerprint=fingerprint,
        quality=find_problems(corpus),
    )


def load_corpus(config: DataConfig) -> Corpus:
    """The data set that a config names, tokenized; where it has no test split, a share of train is
    drawn. Raises `UserError` as `read_corpus` does, or for too few classes."""
    corpus = read_corpus(config)
    texts = progress.track(list(corpus.rows.text), "encoding")
    tokens, words = text.number_words(texts, text.tokenizer_of(config))
    contents = np.array([numbers.tobytes() for numbers in tokens], object)
    same, _ = pd.factorize(contents)  # one number for texts of the same tokens
    corpus = replace(corpus, rows=corpus.rows.assign(tokens=tokens, same=same), words=words)
    if "test" not in corpus.files:
        corpus = corpus.add_test(config.test_share)
    check_classes(corpus)
    return corpus


def check_classes(corpus: Corpus) -> None:
    """Raise `UserError` unless every split has two classes or more, and train all of them."""
    classes_of: dict[Any, list[str]] = {"test": []}  # A draw may have left no test.
    for split, labels in corpus.rows.groupby("split").label:
        classes_of[split] = [corpus.written[label] for label in np.unique(labels)]
    in_train = classes_of["train"]
    for split, classes in classes_of.items():
        if len(classes) < 2 or not set(classes) <= set(in_train):
            raise UserError(
                f"{split} of {corpus.source} has the classes {join_names(classes) or 'none'}, and "
                f"train {join_names(in_train)}. Each needs two or more, and train all. Add or "
                f"relabel texts, or name another file, column or split: data.path=FILE "
                f"data.label=COLUMN data.{split}_split=NAME (validation, where the labels of a "
                f"contest's test split are hidden as -1)."
            )


def rank_words(corpus: Corpus) -> Corpus:
    """The corpus with its words numbered by their rank in train, most frequent first; words that it
    lacks become 0. Of equally frequent words the lower number comes first, as in Keras."""
    rows = corpus.rows
    tokens_of_train = np.concatenate(list(rows.tokens[rows.split == "train"]))
    counts = np.bincount(tokens_of_train, minlength=len(corpus.words) + 1)  # by number of the word
    counts[0] = 0  # The unknown word has no rank.
    num_ranks = np.count_nonzero(counts)
    by_frequency = np.argsort(-counts, kind="stable")[:num_ranks]  # numbers of words
    rank_of = np.zeros(len(counts), np.int32)
    rank_of[by_frequency] = np.arange(1, num_ranks + 1)
    ranks = [rank_of[tokens] for tokens in rows.tokens]
    words = [corpus.words[number - 1] for number in by_frequency]
    return replace(corpus, rows=rows.assign(tokens=ranks), words=words)


def compute_fingerprint(corpus: Corpus) -> str:
    """Sixteen hex digits that change with any text, label, word or name of a class, and are the
    same for the same texts in another kind of file."""
    digest = hashlib.sha256()
    for _, rows in corpus.rows.groupby("split", sort=False):
        texts = list(rows.tokens)
        # The offsets tell apart the same words in other texts.
        offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        for numbers in (np.concatenate(texts), offsets, rows.label.to_numpy()):
            digest.update(numbers.tobytes())
    digest.update("\n".join(corpus.words).encode())  # No word holds a line break.
    if corpus.classes != SENTIMENTS:
        digest.update(json.dumps(corpus.classes).encode())
    return digest.hexdigest()[:16]


def _limit(ids: Ids, labels: Labels, split: str, config: DataConfig) -> Encoded:
    """A split, or the `limit_` of it: stratified by class, the same every time."""
    limit: int | None = getattr(config, f"limit_{split}", None)
    if limit is None:
        return Encoded(ids=ids, labels=labels)
    if limit > len(labels):
        raise UserError(
            f"data.limit_{split}={limit}, but there are {len(labels)} texts. Use {len(labels)} or "
            f"less, or data.limit_{split}=null for all."
        )
    num_up_to = np.cumsum(np.bincount(labels))  # (C,), texts of the classes up to each
    # Sums are rounded down, not quotas, so that these add up to the limit.
    quotas = np.diff(limit * num_up_to // len(labels), prepend=0)
    random = np.random.default_rng(0)
    rows: list[int] = []
    for label, quota in enumerate(quotas):
        shuffled = random.permutation(np.flatnonzero(labels == label))
        rows.extend(shuffled[:quota])
    rows.sort()
    return Encoded(ids=ids[rows], labels=labels[rows])


def find_problems(corpus: Corpus) -> dict[str, int]:
    """What is questionable in texts, with how often; nothing that does not occur."""
    rows = corpus.rows
    has_words = rows.tokens.map(len) > 0
    with_words = rows[has_words]
    counts = {}
    same_of = {split: with_words.same[with_words.split == split] for split in SPLITS}
    for other, split in combinations(SPLITS, 2):
        is_shared = same_of[split].isin(same_of[other])
        counts[f"{split} texts also occur in {other}"] = is_shared.sum()
    is_repeated = with_words.duplicated(["split", "same"])
    counts["texts repeat another of their split"] = is_repeated.sum()
    has_two_labels = with_words.groupby("same").label.nunique() > 1
    counts["texts have two labels"] = has_two_labels.sum()

    places = rows.place[~has_words]
    counts[f"texts hold no word: {join_names(places)}"] = len(places)
    for label, name in enumerate(corpus.written):
        if name.lower() in MISSING:
            places = rows.place[rows.label == label]
            problem = f"labels are {name}, as where one is missing: {join_names(places)}"
            counts[problem] = len(places)

    num_texts = pd.crosstab(rows.label, rows.split)  # (C, splits)
    names = np.array(corpus.classes)
    one_in_train = names[num_texts["train"] <= 1]
    none_in_test = names[num_texts["test"] == 0]
    for amount, few in (("one text in train", one_in_train), ("no text in test", none_in_test)):
        counts[f"of {len(names)} classes with {amount}: {join_names(few)}"] = len(few)
    return {problem: int(count) for problem, count in counts.items() if count}


def load_test(config: DataConfig, words: Sequence[str], classes: Sequence[str]) -> Encoded:
    """Other texts for a finished run, with its words and classes: a test split, or else all. They
    may be few, and of one class."""
    corpus = read_corpus(config)
    rows = corpus.rows
    if "test" in corpus.files:
        rows = rows[rows.split == "test"]
    names = corpus.written
    if tuple(classes) == SENTIMENTS:
        names = tuple(SENTIMENT_OF.get(name, name) for name in names)
    if not set(names) <= set(classes):
        raise UserError(
            f"{corpus.source} does not fit the run: it needs labels among {join_names(classes)}, "
            f"and has {join_names(names)}. Recode them, or name their column: data.label=COLUMN."
        )
    label_in_run = np.array([classes.index(name) for name in names])
    ranks = text.rank_with(words, rows.text, text.tokenizer_of(config))
    ids = text.to_ids(ranks, config)
    return _limit(ids, label_in_run[rows.label], "test", config)
