"""Data sets as arrays of ids, ready to train on: tokenized, drawn, ranked, cut and padded."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Self

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
    """Split of a data set as the model takes it, compared and hashed by identity."""

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
    corpus = rank_words(read_tokenized(config))
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


@dataclass(frozen=True, kw_only=True)
class TokenizedCorpus(Corpus):
    """Corpus whose rows have two more columns: tokens, an array of numbers of words, and same, a
    number that texts of the same tokens share."""

    words: list[str]  # the word of each number, from 1; a token that is none of them is 0

    def redraw(self, seed: int) -> Self:
        """The corpus with train and test drawn anew from their union. Of every class both keep
        their share, as nearly as equal texts allow."""
        rows = self.rows[self.rows.split != "val"]
        was_test = rows.split == "test"
        shares = was_test.groupby(rows.label).mean()
        return replace(self, rows=draw_test(self.rows, "same", shares, seed))

    def add_test(self, share: float) -> Self:
        """The corpus, which has no test split, with a share of train drawn as test, and its words
        numbered anew by their first appearance."""
        shares = pd.Series(share, range(len(self.written)))
        # Earlier versions shuffled texts, not groups, and the splits stay what they were.
        rows = draw_test(self.rows, "text", shares, seed=0)
        # Of equally frequent words the lower number ranks first: the first to appear in train.
        numbers, old_numbers = pd.factorize(np.concatenate(list(rows.tokens)))
        ends = rows.tokens.map(len).cumsum()
        renumbered = np.split(numbers.astype(np.int32) + 1, ends[:-1])
        return replace(
            self,
            rows=rows.assign(tokens=renumbered),
            words=[self.words[number - 1] for number in old_numbers],
            source=f"{self.source}, {share:.0%} drawn as test",
        )


def draw_test(rows: pd.DataFrame, unit: str, shares: "pd.Series[float]", seed: int) -> pd.DataFrame:
    """Rows with train and test drawn anew, the same for one seed, in the order of the splits. Texts
    of the same tokens are drawn as one group, of its first text's label. Test gets of each class as
    nearly its share of rows as such groups allow, and never all. unit: what is shuffled, `same`
    (groups) or `text` (distinct texts; a group stands where its first one falls)."""
    is_val = rows.split == "val"
    others = rows[~is_val]
    label_of_group = others.groupby("same").label.first()
    rows_in_group = others.same.value_counts()
    distinct = others.drop_duplicates(unit)
    random = np.random.default_rng(seed)
    drawn = []
    for label in np.unique(label_of_group):
        # The groups of this label in shuffled order, which `unique` keeps.
        groups = pd.unique(random.permutation(distinct.same[distinct.label == label]))
        groups = groups[label_of_group[groups] == label]
        # As many groups as bring the number of rows nearest to the share, but not all of them.
        num_up_to = np.cumsum([0, *rows_in_group[groups]])
        wanted = shares[label] * num_up_to[-1]
        num_drawn = np.abs(num_up_to[:-1] - wanted).argmin()
        drawn += list(groups[:num_drawn])
    split = np.select([is_val, rows.same.isin(drawn)], ["val", "test"], "train")
    order = pd.Categorical(split, SPLITS).argsort(kind="stable")
    return rows.assign(split=split).iloc[order]


def read_tokenized(config: DataConfig) -> TokenizedCorpus:
    """The data set that a config names, tokenized; where it has no test split, a share of train is
    drawn. Raises `UserError` as `read_corpus` does, or for too few classes."""
    corpus = read_corpus(config)
    texts = progress.track(list(corpus.rows.text), "encoding")
    tokens, words = text.number_words(texts, text.tokenizer_of(config))
    contents = np.array([numbers.tobytes() for numbers in tokens], object)
    same, _ = pd.factorize(contents)  # one number for texts of the same tokens
    corpus = replace(corpus, rows=corpus.rows.assign(tokens=tokens, same=same))
    tokenized = TokenizedCorpus(**vars(corpus), words=words)
    if "test" not in corpus.files:
        tokenized = tokenized.add_test(config.test_share)
    tokenized.check_classes()
    return tokenized


def rank_words(corpus: TokenizedCorpus) -> TokenizedCorpus:
    """The corpus with its words numbered by their rank in train, most frequent first; words that
    train lacks are 0. Of equally frequent words the lower number comes first, as in Keras."""
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


def compute_fingerprint(corpus: TokenizedCorpus) -> str:
    """Sixteen hex digits that change with any rank, label, word of train or name of a class. They
    are the same for another kind of file, and for texts that differ in words unknown to train."""
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
    """A split, or its `data.limit_train` or `limit_test` texts: stratified, the same every time."""
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


def find_problems(corpus: TokenizedCorpus) -> dict[str, int]:
    """Number of questionable texts, labels or classes, by problem; only problems that occur."""
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
