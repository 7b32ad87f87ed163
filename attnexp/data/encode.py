"""Data sets as arrays of ids, ready to train on, with a cache on disk.

The cache holds the whole of every text as ranks, before `max_len`, `vocab_size`, the limits and
`seeds.resample` apply, so one file serves every setting but the tokenizer.
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

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import contrast, sources, text
from attnexp.data.cache import cache_dir, code_digests, load_or_compute
from attnexp.data.corpus import SENTIMENTS, SPLITS, Corpus
from attnexp.data.quality import Quality, compare
from attnexp.data.text import Pair, Ragged, Tokenize

Labels = tuple[NDArray[np.integer], NDArray[np.integer]]
"""Labels of train and of test, (n,) each."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Encoded:
    """Split of a data set as the model takes it."""

    ids: NDArray[np.int32]  # (n, max_len)
    labels: NDArray[np.integer]  # (n,), 0 to C - 1

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """Encoded data set: both splits, the vocabulary and the source."""

    train: Encoded
    test: Encoded
    words: list[str]
    """The vocabulary in use, most frequent first; empty where the source has ranks only."""
    classes: tuple[str, ...]
    """C names, in the order of their labels."""
    source: str
    fingerprint: str
    """Sixteen hex digits of the content: the same texts from another kind of file have the same."""
    quality: Quality
    """Problems found in the corpus."""
    val: Encoded | None = None
    """Validation split of the data set itself, where `data.val_split` asks for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """Whole corpus as word ranks, as the cache holds it."""

    texts: Pair
    """Train, then test."""
    labels: Labels
    words: list[str]
    classes: tuple[str, ...]
    is_drawn: bool
    quality: Quality

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that change with any text, label, word or name of a class."""
        digest = hashlib.sha256()
        for split, labels in zip(self.texts, self.labels, strict=True):
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
        counts = [
            np.bincount(labels, minlength=len(self.classes)).tolist() for labels in self.labels
        ]
        described = {
            **about,
            **{f"n_{split}": len(texts) for split, texts in zip(SPLITS, self.texts, strict=True)},
            "fingerprint": self.fingerprint,
            "classes": dict(zip(self.classes, zip(*counts, strict=True), strict=True)),
            "is_drawn": self.is_drawn,
            "quality": self.quality,
        }
        arrays: dict[str, Any] = {
            "about": np.frombuffer(json.dumps(described).encode(), np.uint8),
            "words": np.frombuffer("\n".join(self.words).encode(), np.uint8),
        }
        for split, texts, labels in zip(SPLITS, self.texts, self.labels, strict=True):
            arrays |= {
                split: texts.values,
                f"{split}_offsets": texts.offsets,
                f"{split}_labels": labels,
            }
        np.savez(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote. Raises one of `cache.DAMAGED` where that is damaged."""
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            words = arrays["words"].tobytes().decode()
            about = json.loads(arrays["about"].tobytes())
            train, test = (Ragged(arrays[name], arrays[f"{name}_offsets"]) for name in SPLITS)
            return cls(
                texts=(train, test),
                labels=(arrays["train_labels"], arrays["test_labels"]),
                words=words.split("\n") if words else [],
                classes=tuple(about["classes"]),
                is_drawn=about["is_drawn"],
                quality=about["quality"],
            )


def describe(path: Path) -> dict[str, Any]:
    """Source, tokenizer, sizes and fingerprint of a cache file, and the texts of every class in
    train and in test."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        about: dict[str, Any] = json.loads(arrays["about"].tobytes())
    return about


def cache_path(source: sources.Source, config: DataConfig) -> Path:
    """The cache file of a source's ranks, keyed by data, tokenizer and the code that encodes."""
    kind = text.tokenizer_kind(config.tokenizer)
    code = code_digests(kind)
    key = hashlib.sha256(json.dumps([code, source.key, kind]).encode()).hexdigest()[:16]
    return cache_dir() / f"{config.name}-{key}.npz"


def load(config: DataConfig, resample: int | None = None) -> Dataset:
    """The data set that a config asks for, from the cache where it is there: ranked, cut, padded.

    resample: seed that draws train and test anew from their union (see `text.resample`); None
    leaves them. Fingerprint and quality stay those of the corpus.
    """
    if config.name is DataName.contrast:
        description = "generated"
        ranked = _rank(contrast.generate(config.order_fraction or 0.0), config)
    else:
        source = sources.find(config)
        description = source.description

        def rank() -> Ranked:
            progress.note(f"Reading and encoding {description} (once; cached in {cache_dir()})")
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
    (train, test), labels, words = ranked.texts, ranked.labels, ranked.words
    if resample is not None:
        (train, test), labels, words = text.resample((train, test), labels, words, resample)
    return Dataset(
        train=_encode(train, labels[0], config, "train"),
        test=_encode(test, labels[1], config, "test"),
        words=text.vocabulary(words, config),
        classes=ranked.classes,
        source=description,
        fingerprint=ranked.fingerprint,
        quality=ranked.quality,
    )


def _about(source: sources.Source, ranked: Ranked, config: DataConfig) -> dict[str, str]:
    drawn = f", {config.test_share:.0%} drawn as test" if ranked.is_drawn else ""
    return {"source": source.description + drawn, "tokenizer": config.tokenizer}


def load_test(config: DataConfig, words: Sequence[str], classes: Sequence[str]) -> Encoded:
    """Other texts for a finished run, with the vocabulary and the classes of the run.

    They are the test split, or all texts of data without one. Raises `UserError` if the texts or
    their classes do not fit the run.
    """
    corpus = sources.find(config).read()
    splits = [corpus.train, corpus.test] if corpus.is_drawn else [corpus.test]
    texts: list[Any] = [*chain(*(split.texts for split in splits))]
    if not words or not isinstance(texts[0], str):
        raise UserError(
            "Word ranks have no words (Keras's imdb.npz), so a model and data from different "
            "places do not fit. Use text on both sides."
        )
    names = corpus.classes if tuple(classes) == SENTIMENTS else corpus.written
    if unknown := [name for name in names if name not in classes]:
        raise UserError(
            f"{config.path} has labels that the run has not: {', '.join(unknown[:5])}. The run has "
            f"{', '.join(classes[:5])}. Recode them, or name their column: data.label=COLUMN."
        )
    label_of = np.array([classes.index(name) for name in names])
    labels = label_of[np.concatenate([split.labels for split in splits])]
    tracked = progress.track(texts, total=len(texts), label="encoding test")
    ranks = text.rank_with(words, tracked, tokenizer_of(config))
    _check_words(ranks, "test", config)
    return _encode(ranks, labels, config, "test")


def tokenizer_of(config: DataConfig) -> Tokenize:
    """The tokenizer of `data.tokenizer`, imported from the user's folder where it lies there."""
    pieces.load(text.tokenizer_kind(config.tokenizer))
    return text.tokenizer(config.tokenizer)


def _rank(corpus: Corpus, config: DataConfig) -> Ranked:
    """Replace words by ranks, unless the source holds ranks already."""
    train, test = corpus.train, corpus.test
    ranks: Pair
    words: list[str]
    if isinstance(train.texts, Ragged):
        assert isinstance(test.texts, Ragged)
        if config.tokenizer != "keras":
            raise UserError(
                f"Keras's imdb.npz holds word ranks, not text, so "
                f"data.tokenizer={config.tokenizer} has nothing to work on. Use "
                f"data.tokenizer=keras, or another copy of the texts."
            )
        ranks, words = (train.texts, test.texts), []
    else:
        assert isinstance(test.texts, list)
        ranks, words = text.rank_words(
            progress.track(train.texts, total=len(train.texts), label="encoding train"),
            progress.track(test.texts, total=len(test.texts), label="encoding test"),
            tokenizer_of(config),
        )
    for split, rows in zip(SPLITS, ranks, strict=True):
        _check_words(rows, split, config)
    return Ranked(
        texts=ranks,
        labels=(train.labels, test.labels),
        words=words,
        classes=corpus.classes,
        is_drawn=corpus.is_drawn,
        quality=compare((train.texts, test.texts), (train.labels, test.labels), ranks),
    )


def _check_words(ranks: Ragged, split: str, config: DataConfig) -> None:
    if not len(ranks.values):
        raise UserError(
            f"No text of {split} in {config.path} holds a word that data.tokenizer="
            f"{config.tokenizer} finds; {len(ranks)} were read. Give texts of words."
        )


def _encode(ranks: Ragged, labels: NDArray[np.integer], config: DataConfig, split: str) -> Encoded:
    limit = config.limit_train if split == "train" else config.limit_test
    ids = text.to_ids(ranks, config)
    if limit is not None:
        if limit > len(labels):
            raise UserError(
                f"data.limit_{split}={limit}, but there are {len(labels)} texts. Use "
                f"{len(labels)} or less, or data.limit_{split}=null for all."
            )
        rows = text.stratified_sample(labels, limit)
        ids, labels = ids[rows], labels[rows]
    return Encoded(ids=ids, labels=labels)
