"""Data sets as arrays of ids, ready to train on, with a cache of the ranks of their words."""

import hashlib
import json
import os
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write
from attnexp.config import pieces
from attnexp.config.schema import DataConfig
from attnexp.data import text
from attnexp.data.corpus import SENTIMENTS, Corpus, find_problems, some
from attnexp.data.load import load_corpus
from attnexp.data.text import Ragged


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Encoded:
    """Split of a data set as the model takes it."""

    ids: NDArray[np.int32]  # (n, max_len)
    labels: NDArray[np.integer]  # (n,), 0 to C - 1

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """Encoded data set: its splits, the vocabulary and the source."""

    train: Encoded
    test: Encoded
    val: Encoded | None = None  # the data set's own, where `data.val_split` asks for it
    words: list[str]  # the vocabulary in use, most frequent first; none of Keras's ranks
    classes: tuple[str, ...]  # C names, in the order of their labels
    source: str
    fingerprint: str
    quality: dict[str, int]  # problems of the corpus


def load(config: DataConfig, resample: int | None = None) -> Dataset:
    """The data set that a config asks for, with its words ranked and its texts cut and padded.

    resample: seed that draws train and test anew from their union; None leaves them. Fingerprint
    and quality stay those of the corpus.
    """
    corpus = load_corpus(config)
    ranks, words = whole, all_words = rank_corpus(corpus, config)
    labels = corpus.rows.label.to_numpy()
    if resample is not None:
        order = redraw(labels, corpus.parts, resample)
        labels, drawn = labels[order], Ragged.of(map([*whole].__getitem__, order))
        ranks, words = text.rank_by_frequency(drawn, corpus.parts["train"].stop, all_words)
    ids = text.to_ids(ranks, config)
    limits = {"train": config.limit_train, "test": config.limit_test}
    splits = {
        split: _limit(ids[part], labels[part], split, limits.get(split))
        for split, part in corpus.parts.items()
    }
    return Dataset(
        **splits,
        words=words[: max(config.vocab_size - text.INDEX_FROM - 1, 0)],  # ranks count from 1
        classes=corpus.classes,
        source=corpus.source,
        fingerprint=fingerprint(corpus, whole, all_words),
        quality=find_problems(corpus, whole),
    )


def load_test(config: DataConfig, words: Sequence[str], classes: Sequence[str]) -> Encoded:
    """Other texts for a finished run, with the vocabulary and the classes of the run.

    They are the test split, or all texts of data without one. Raises `UserError` if the texts or
    their classes do not fit the run.
    """
    corpus = load_corpus(config)
    rows = corpus.rows if corpus.is_drawn else corpus.rows[corpus.parts["test"]]
    names = corpus.classes if tuple(classes) == SENTIMENTS else corpus.written
    if not words or not isinstance(rows.text.iloc[0], str) or {*names} - {*classes}:
        raise UserError(
            f"{corpus.source} does not fit the run: it needs texts (not Keras's word ranks) with "
            f"labels among {some(classes)}, and has {some(names)}. Recode them, or name their "
            f"column: data.label=COLUMN."
        )
    labels = np.array([classes.index(name) for name in names])[rows.label]
    ids = text.to_ids(text.rank_with(words, rows.text, text.tokenizer_of(config)), config)
    return _limit(ids, labels, "test", config.limit_test)


def _limit(
    ids: NDArray[np.int32], labels: NDArray[np.integer], split: str, limit: int | None
) -> Encoded:
    """A split, or so many of its texts: stratified by class, the same every time."""
    if limit is None:
        return Encoded(ids=ids, labels=labels)
    if limit > len(labels):
        raise UserError(
            f"data.limit_{split}={limit}, but there are {len(labels)} texts. Use {len(labels)} or "
            f"less, or data.limit_{split}=null for all."
        )
    ends = limit * np.cumsum(np.bincount(labels)) // len(labels)
    rows = _draw(labels, np.diff(ends, prepend=0), np.random.default_rng(0))
    return Encoded(ids=ids[rows], labels=labels[rows])


def _draw(
    labels: NDArray[np.integer], sizes: NDArray[np.intp], random: np.random.Generator
) -> NDArray[np.intp]:
    """`sizes[c]` rows of every class c, in their old order."""
    rows = [random.permutation(np.flatnonzero(labels == c))[:size] for c, size in enumerate(sizes)]
    return np.sort(np.concatenate(rows))


def redraw(labels: NDArray[np.integer], parts: dict[str, slice], seed: int) -> NDArray[np.intp]:
    """New order of the rows, (n,), which draws train and test anew from their union.

    Both keep their sizes and how many texts of each class they have, and list their texts in the
    order of the union. What only the old test split had among words is unknown, and stays so.
    """
    union = labels[: parts["test"].stop]
    sizes = np.bincount(labels[parts["train"]])
    train = _draw(union, sizes, np.random.default_rng(seed))
    return np.concatenate([train, np.delete(np.arange(len(labels)), train)])


def rank_corpus(corpus: Corpus, config: DataConfig) -> tuple[Ragged, list[str]]:
    """Ranks of the words of all rows, and the words of train by rank; kept in the cache."""
    texts = corpus.rows.text
    if not isinstance(texts.iloc[0], str):
        if config.tokenizer != "keras":
            raise UserError(
                f"Keras's imdb.npz holds word ranks, and no text for "
                f"data.tokenizer={config.tokenizer}. Use another copy of the texts."
            )
        return Ragged.of(texts), []
    tokenize = text.tokenizer_of(config)
    path = cache_dir() / f"{config.name}-{_key(corpus, config)}.npz"
    with suppress(OSError, ValueError, KeyError, zipfile.BadZipFile), np.load(path) as arrays:
        words = arrays["words"].tobytes().decode().split("\n")
        return Ragged(arrays["values"], arrays["offsets"]), words
    progress.note(f"Encoding the texts of {corpus.source} (once; cached in {cache_dir()})")
    ranks, words = text.rank_words(texts, corpus.parts["train"].stop, tokenize)
    for split, part in corpus.parts.items():
        if ranks.offsets[part.start] == ranks.offsets[part.stop]:
            raise UserError(
                f"data.tokenizer={config.tokenizer} finds no word in {split} of {corpus.source}. "
                f"Give texts of words, or another tokenizer."
            )
    known = np.frombuffer("\n".join(words).encode(), np.uint8)
    with suppress(OSError):  # a full or read-only disk costs time, and no run
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            np.savez(file, values=ranks.values, offsets=ranks.offsets, words=known)
    return ranks, words


def cache_dir() -> Path:
    """`$ATTNEXP_CACHE`, or `attnexp` in the user's cache folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return Path(os.environ.get("ATTNEXP_CACHE") or home / "attnexp")


def _key(corpus: Corpus, config: DataConfig) -> str:
    """Sixteen hex digits of the texts, the tokenizer, and the code of this room and of its own."""
    here = Path(__file__).parent
    code = pieces.syntax(here, here.glob("*.py"))
    if ":" in config.tokenizer:
        code |= pieces.code_of(config.tokenizer)
    digest = hashlib.sha256(f"{config.tokenizer} {corpus.parts} {code}".encode())
    for one in corpus.rows.text:
        digest.update(f"{len(one)} {one}".encode())
    return digest.hexdigest()[:16]


def fingerprint(corpus: Corpus, ranks: Ragged, words: Sequence[str]) -> str:
    """Sixteen hex digits that change with any text, label, word or name of a class, and are the
    same for the same texts in another kind of file."""
    digest = hashlib.sha256()
    for part in corpus.parts.values():
        offsets = ranks.offsets[part.start : part.stop + 1]
        digest.update(ranks.values[offsets[0] : offsets[-1]].tobytes())
        digest.update((offsets - offsets[0]).tobytes())
        digest.update(corpus.rows.label.to_numpy()[part].tobytes())
    digest.update("\n".join(words).encode())
    if corpus.classes != SENTIMENTS:
        digest.update(json.dumps(corpus.classes).encode())
    return digest.hexdigest()[:16]


def describe(config: DataConfig) -> dict[str, Any]:
    """Read a data set, encode it into the cache, and say what is in it, with three of its texts."""
    corpus = load_corpus(config)
    ranks, words = rank_corpus(corpus, config)
    lengths = np.diff(ranks.offsets) + 1  # with the start token
    rows = corpus.rows.assign(name=[corpus.classes[label] for label in corpus.rows.label])
    middle = rows.iloc[[len(rows) * sixth // 6 for sixth in (1, 3, 5)]]
    tokens = {f"{share:.0%} up to": int(np.quantile(lengths, share)) for share in (0.5, 0.95, 1)}
    return {
        "source": corpus.source,
        "fingerprint": fingerprint(corpus, ranks, words),
        "texts": rows.split.value_counts(sort=False).to_dict(),
        "classes": rows.groupby("name").split.value_counts().unstack().to_dict("index"),
        "quality": find_problems(corpus, ranks),
        "tokens": tokens,
        "share_cut": float(np.mean(lengths > config.max_len)),
        "samples": [f"{row.name}: {some([row.text])}" for row in middle.itertuples()],
    }
