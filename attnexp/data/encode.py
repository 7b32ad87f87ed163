"""Reviews as arrays of ids, ready to train on, with a cache on disk.

What is cached is the whole of every review as ranks, before `max_len`, `vocab_size` and the limits
apply, so one file serves every setting but the tokenizer.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from attnexp.base import memory, progress
from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, DataName, Tokenizer
from attnexp.data import contrast, sources
from attnexp.data.cache import cache_dir, load_or_compute
from attnexp.data.corpus import SENTIMENTS, SPLITS, Corpus
from attnexp.data.quality import Quality, compare
from attnexp.data.text import INDEX_FROM, Ragged, rank_with, rank_words, to_ids, tokenizer

CACHE_FORMAT = 3
"""Raised when the meaning of a cache file changes; files of another format are not read."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Encoded:
    """One split as the model takes it."""

    ids: NDArray[np.int32]  # (n, max_len)
    labels: NDArray[np.integer]  # (n,), 0 to C - 1

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """Both splits, the vocabulary, and where it all came from."""

    train: Encoded
    test: Encoded
    words: list[str]
    """The vocabulary in use, most frequent first; empty where the source has ranks only."""
    classes: tuple[str, ...]
    """C names, in the order of their labels."""
    source: str
    fingerprint: str
    """Of the content: the same reviews from another kind of file have the same."""
    quality: Quality
    """What should be questioned in the whole of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """A whole corpus as ranks: what the cache holds."""

    train: Ragged
    train_labels: NDArray[np.integer]
    test: Ragged
    test_labels: NDArray[np.integer]
    words: list[str]
    classes: tuple[str, ...]
    is_drawn: bool
    quality: Quality

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that change with any review, label, word or name of a class."""
        digest = hashlib.sha256()
        for split, labels in ((self.train, self.train_labels), (self.test, self.test_labels)):
            for array in (split.values, split.offsets, labels):
                digest.update(array.tobytes())
        digest.update("\n".join(self.words).encode())
        if self.classes != SENTIMENTS:
            digest.update(json.dumps(self.classes).encode())
        return digest.hexdigest()[:16]

    def save(self, file: IO[bytes], about: dict[str, str]) -> None:
        """Write as an uncompressed npz: quick, and its checksums show damage on reading.

        about: what to say of the file without reading it all (see `describe`).
        """
        sizes = {"n_train": len(self.train), "n_test": len(self.test)}
        counts = [
            np.bincount(labels, minlength=len(self.classes)).tolist()
            for labels in (self.train_labels, self.test_labels)
        ]
        found = {
            "fingerprint": self.fingerprint,
            "classes": dict(zip(self.classes, zip(*counts, strict=True), strict=True)),
            "is_drawn": self.is_drawn,
            "quality": self.quality,
        }
        text = json.dumps({**about, **sizes, **found})
        np.savez(
            file,
            about=np.frombuffer(text.encode(), np.uint8),
            train=self.train.values,
            train_offsets=self.train.offsets,
            train_labels=self.train_labels,
            test=self.test.values,
            test_offsets=self.test.offsets,
            test_labels=self.test_labels,
            words=np.frombuffer("\n".join(self.words).encode(), np.uint8),
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote. Raises one of `cache.DAMAGED` where that is damaged."""
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            words = arrays["words"].tobytes().decode()
            about = json.loads(arrays["about"].tobytes())
            return cls(
                train=Ragged(arrays["train"], arrays["train_offsets"]),
                train_labels=arrays["train_labels"],
                test=Ragged(arrays["test"], arrays["test_offsets"]),
                test_labels=arrays["test_labels"],
                words=words.split("\n") if words else [],
                classes=tuple(about["classes"]),
                is_drawn=about["is_drawn"],
                quality=about["quality"],
            )


def describe(path: Path) -> dict[str, Any]:
    """What a cache file says of itself: source, tokenizer, sizes, fingerprint, and of every class
    how many reviews of train and of test it has."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        about: dict[str, Any] = json.loads(arrays["about"].tobytes())
    return about


def cache_path(source: sources.Source, config: DataConfig) -> Path:
    """Where the ranks of a source under a tokenizer are cached."""
    settings = json.dumps([CACHE_FORMAT, source.key, config.tokenizer])
    return cache_dir() / f"{config.name}-{hashlib.sha256(settings.encode()).hexdigest()[:16]}.npz"


def load(config: DataConfig) -> Dataset:
    """The data set a config asks for: found, ranked or taken from the cache, cut and padded."""
    if config.name is DataName.contrast:
        description = "generated"
        ranked = _rank(contrast.generate(config.order_fraction or 0.0), config)
    else:
        source = sources.find(config)
        description = source.description

        def rank() -> Ranked:
            progress.note(f"Reading and encoding {description} (once; kept in {cache_dir()})")
            corpus = source.read()
            if corpus.is_drawn:
                share = f"{config.test_share:.0%}"
                progress.note(f"There is no test split: {share} of train is drawn as one.")
            return _rank(corpus, config)

        ranked = load_or_compute(
            cache_path(source, config),
            read=Ranked.load,
            make=rank,
            write=lambda file, made: made.save(file, _about(source, made, config)),
        )
        description = _about(source, ranked, config)["source"]
    return Dataset(
        train=_encode(ranked.train, ranked.train_labels, config, "train"),
        test=_encode(ranked.test, ranked.test_labels, config, "test"),
        words=ranked.words[: max(config.vocab_size - INDEX_FROM - 1, 0)],  # ranks count from 1
        classes=ranked.classes,
        source=description,
        fingerprint=ranked.fingerprint,
        quality=ranked.quality,
    )


def _about(source: sources.Source, ranked: Ranked, config: DataConfig) -> dict[str, str]:
    drawn = f", {config.test_share:.0%} drawn as test" if ranked.is_drawn else ""
    return {"source": source.description + drawn, "tokenizer": str(config.tokenizer)}


def load_test(config: DataConfig, words: Sequence[str], classes: Sequence[str]) -> Encoded:
    """A test split, or all of what has none, under a vocabulary and classes made before: a finished
    run meets other reviews.

    Raises `UserError` where the two do not meet.
    """
    corpus = sources.find(config).read()
    splits = [corpus.train, corpus.test] if corpus.is_drawn else [corpus.test]
    texts: list[Any] = [*chain(*(split.reviews for split in splits))]
    if not words or not isinstance(texts[0], str):
        raise UserError(
            "Word ranks have no words (Keras's imdb.npz), so a model and reviews from different "
            "places cannot meet. Use text on both sides."
        )
    if unknown := [name for name in corpus.classes if name not in classes]:
        raise UserError(
            f"{config.path} has labels that the run has not: {', '.join(unknown[:5])}. The run has "
            f"{', '.join(classes[:5])}. Recode them, or name their column: data.label=COLUMN."
        )
    label_of = np.array([classes.index(name) for name in corpus.classes])
    labels = label_of[np.concatenate([split.labels for split in splits])]
    tracked = progress.track(texts, total=len(texts), label="encoding test")
    ranks = rank_with(words, tracked, tokenizer(config.tokenizer))
    _check_words(ranks, "test", config)
    return _encode(ranks, labels, config, "test")


def _rank(corpus: Corpus, config: DataConfig) -> Ranked:
    """Replace words by ranks, unless the source holds ranks already."""
    train, test = corpus.train, corpus.test
    if isinstance(train.reviews, Ragged) or isinstance(test.reviews, Ragged):
        assert isinstance(train.reviews, Ragged)
        assert isinstance(test.reviews, Ragged)
        if config.tokenizer is not Tokenizer.keras:
            raise UserError(
                f"Keras's imdb.npz holds word ranks, not text, so "
                f"data.tokenizer={config.tokenizer} has nothing to work on. Use "
                f"data.tokenizer=keras, or another copy of the reviews."
            )
        ranks: tuple[Ragged, Ragged, list[str]] = (train.reviews, test.reviews, [])
    else:
        ranks = rank_words(
            progress.track(train.reviews, total=len(train.reviews), label="encoding train"),
            progress.track(test.reviews, total=len(test.reviews), label="encoding test"),
            tokenizer(config.tokenizer),
        )
    for split, rows in zip(SPLITS, ranks[:2], strict=True):
        _check_words(rows, split, config)
    compared = compare((train.reviews, test.reviews), (train.labels, test.labels), ranks=ranks[:2])
    return Ranked(
        train=ranks[0],
        train_labels=train.labels,
        test=ranks[1],
        test_labels=test.labels,
        words=ranks[2],
        classes=corpus.classes,
        is_drawn=corpus.is_drawn,
        quality=corpus.quality | compared,
    )


def _check_words(ranks: Ragged, split: str, config: DataConfig) -> None:
    if not len(ranks.values):
        raise UserError(
            f"No review of {split} in {config.path} holds a word that data.tokenizer="
            f"{config.tokenizer} finds; {len(ranks)} were read. Give reviews of words."
        )


def _encode(ranks: Ragged, labels: NDArray[np.integer], config: DataConfig, split: str) -> Encoded:
    limit = config.limit_train if split == "train" else config.limit_test
    num_bytes = len(ranks) * config.max_len * np.dtype(np.int32).itemsize
    memory.check(num_bytes, f"{len(ranks):,} reviews as data.max_len={config.max_len} ids")
    ids = to_ids(ranks, config)
    if limit is not None:
        chosen = _stratified_sample(labels, limit, split)
        ids, labels = ids[chosen], labels[chosen]
    return Encoded(ids=ids, labels=labels)


def _stratified_sample(labels: NDArray[np.integer], limit: int, split: str) -> NDArray[np.intp]:
    """`limit` rows, every class with its share, the same in every run, in their old order."""
    if limit > len(labels):
        raise UserError(
            f"data.limit_{split}={limit}, but there are {len(labels)} reviews. Use {len(labels)} "
            f"or less, or data.limit_{split}=null for all."
        )
    random = np.random.default_rng(0)
    ends = limit * np.cumsum(np.bincount(labels)) // len(labels)
    classes = [
        random.permutation(np.flatnonzero(labels == label))[:size]
        for label, size in enumerate(np.diff(ends, prepend=0))
    ]
    return np.sort(np.concatenate(classes))
