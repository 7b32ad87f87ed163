"""Data sets as arrays of ids, ready to train on."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnexp.base.errors import UserError, join_names
from attnexp.config.schema import DataConfig
from attnexp.data import text
from attnexp.data.corpus import SENTIMENT_OF, SENTIMENTS, Corpus, load_corpus, read_corpus
from attnexp.data.quality import find_problems
from attnexp.data.text import Ids

Labels = NDArray[np.integer]  # (n,), 0 to C - 1


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


def rank_words(corpus: Corpus) -> Corpus:
    """The corpus with its words numbered by their rank in train; words that it lacks become 0."""
    num_train = (corpus.rows.split == "train").sum()
    ranks, words = text.rank_by_frequency(list(corpus.rows.tokens), num_train, corpus.words)
    return replace(corpus, rows=corpus.rows.assign(tokens=ranks), words=words)


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
