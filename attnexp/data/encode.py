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
from attnexp.data.corpus import SENTIMENT_OF, SENTIMENTS, SPLITS, Corpus, read_corpus, stamp_files
from attnexp.data.text import FIRST_WORD, Ids, number_words, rank_with, to_ids, tokenizer_of

MISSING = frozenset("nan -nan none null na n/a #n/a <na> #na nat nil \\n".split())
"""Labels, in lower case, that programs write and pandas reads where there is none."""


@dataclass(frozen=True, kw_only=True)
class TokenizedCorpus(Corpus):
    """Corpus whose rows have two more columns: numbers (an array, each word's place in `words` from
    1, or 0 if it is not there) and group (a number that texts of the same tokens share)."""

    words: list[str]  # in the order of their first appearance, or by rank as from `by_rank`

    def renumber(self, order: NDArray[np.integer]) -> Self:
        """The corpus with words numbered from 1 in this order of old numbers; others get 0."""
        new_numbers = np.zeros(len(self.words) + 1, np.int32)  # by old number
        new_numbers[order] = np.arange(1, len(order) + 1)
        rows = self.rows.assign(numbers=[new_numbers[old] for old in self.rows.numbers])
        words = [self.words[old - 1] for old in order]
        return replace(self, rows=rows, words=words)

    def by_rank(self) -> Self:
        """The corpus with words numbered by their rank in train, most frequent first; 0 if train
        lacks them. Of equally frequent words the lower number comes first, as in Keras."""
        rows = self.rows
        in_train = np.concatenate(list(rows.numbers[rows.split == "train"]))
        counts = np.bincount(in_train, minlength=1)  # by number of the word
        counts[0] = 0  # The unknown word has no rank.
        by_frequency = np.argsort(-counts, kind="stable")
        return self.renumber(by_frequency[: np.count_nonzero(counts)])

    def add_test(self, share: float) -> Self:
        """The corpus with a share of train drawn as test. Words are numbered by first appearance
        again, which is how `by_rank` breaks ties."""
        train = self.rows[self.rows.split == "train"]
        shares = dict.fromkeys(train.label, share)
        # Earlier versions shuffled texts, not groups, and the splits stay what they were.
        drawn = self.draw_test(train.drop_duplicates("text"), shares, seed=0)
        numbers = np.concatenate(list(drawn.rows.numbers))
        renumbered = drawn.renumber(pd.unique(numbers))
        return replace(renumbered, source=f"{self.source}, {share:.0%} drawn as test")

    def redraw(self, seed: int) -> Self:
        """The corpus with train and test drawn anew, of every class in the shares they have."""
        rows = self.rows[self.rows.split != "val"]
        is_test = rows.split == "test"
        shares = is_test.groupby(rows.label).mean().to_dict()
        return self.draw_test(rows.drop_duplicates("group"), shares, seed)

    def draw_test(self, candidates: pd.DataFrame, shares: dict[int, float], seed: int) -> Self:
        """The corpus with train and test drawn anew, the same for one seed. Texts of the same
        tokens are one group, which has the label of its first text. Of each class test gets as many
        groups as come nearest to its share. candidates: rows with the first of each group."""
        is_val = self.rows.split == "val"
        groups = self.rows[~is_val].groupby("group").label.agg(label="first", num_rows="size")
        random = np.random.default_rng(seed)
        drawn: list[int] = []
        for label, own in groups.groupby("label"):  # those whose first text has this label
            shuffled = random.permutation(candidates.group[candidates.label == label])
            order = [group for group in pd.unique(shuffled) if group in own.index]
            num_rows = own.num_rows[order]
            # Sizes of test with the first 0, 1, 2, ... groups; the last one stays in train.
            sizes = np.cumsum([0, *num_rows[:-1]])
            errors = np.abs(sizes - shares[label] * num_rows.sum())
            drawn.extend(order[: errors.argmin()])
        is_drawn = self.rows.group.isin(drawn)
        rows = self.rows.assign(split=np.select([is_val, is_drawn], ["val", "test"], "train"))
        by_split = pd.Categorical(rows.split, SPLITS).argsort(kind="stable")
        return replace(self, rows=rows.iloc[by_split])


def read_tokenized(config: DataConfig) -> TokenizedCorpus:
    """The data set of a config, tokenized. Raises `UserError`, as for too few classes."""
    corpus = read_corpus(config)
    texts = progress.track(corpus.rows.text, "encoding")
    numbers, words = number_words(texts, tokenizer_of(config))
    rows = corpus.rows.assign(numbers=numbers)
    rows["group"], _ = pd.factorize(rows.numbers.map(bytes))
    tokenized = TokenizedCorpus(**vars(corpus) | {"rows": rows, "words": words})
    if "test" not in corpus.files:
        tokenized = tokenized.add_test(config.test_share)
    elif config.test_share != DataConfig().test_share:
        raise UserError("data.test_share would do nothing: these data have a test split.")
    tokenized.check_classes()
    return tokenized


def compute_fingerprint(corpus: TokenizedCorpus) -> str:
    """Sixteen hex digits that change with any rank, label, word of train or name of a class. They
    are the same for another kind of file, and for texts that differ in words unknown to train."""
    digest = hashlib.sha256()
    for _, rows in corpus.rows.groupby("split", sort=False):
        texts = list(rows.numbers)
        offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)  # where each text begins
        for array in (np.concatenate(texts), offsets, rows.label.to_numpy()):
            digest.update(array.tobytes())
    digest.update("\n".join(corpus.words).encode())  # No word holds a line break.
    if corpus.classes != SENTIMENTS:
        digest.update(json.dumps(corpus.classes).encode())
    return digest.hexdigest()[:16]


def find_problems(corpus: TokenizedCorpus) -> dict[str, int]:
    """Number of questionable texts, labels or classes by problem, as one reads on after the number:
    {"test texts also occur in train": 12, "of 3 classes with no text in test: x": 1}."""
    rows = corpus.rows
    has_words = rows.numbers.map(len) > 0
    with_words = rows[has_words]
    counts = {}
    groups_of = {split: with_words.group[with_words.split == split] for split in SPLITS}
    for other, split in combinations(SPLITS, 2):
        is_shared = groups_of[split].isin(groups_of[other])
        counts[f"{split} texts also occur in {other}"] = is_shared.sum()
    is_repeated = with_words.duplicated(["split", "group"])
    counts["texts repeat another of their split"] = is_repeated.sum()
    num_labels = with_words.groupby("group").label.nunique()
    counts["different texts have two labels or more"] = (num_labels > 1).sum()
    places = rows.place[~has_words]
    counts[f"texts hold no word: {join_names(places)}"] = len(places)
    for label, name in enumerate(corpus.written):
        if name.lower() in MISSING:
            places = rows.place[rows.label == label]
            problem = f"labels are {name}, as where one is missing: {join_names(places)}"
            counts[problem] = len(places)
    num_texts = pd.crosstab(rows.label, rows.split)  # (C, splits)
    lacks = {"one text in train": num_texts.train <= 1, "no text in test": num_texts.test == 0}
    for lack, is_class in lacks.items():
        names = np.array(corpus.classes)[is_class]
        problem = f"of {len(corpus.classes)} classes with {lack}: {join_names(names)}"
        counts[problem] = len(names)
    return {problem: int(count) for problem, count in counts.items() if count}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Encoded:
    """Split of a data set as the model takes it, compared and hashed by identity."""

    ids: Ids  # (n, max_len)
    labels: NDArray[np.integer]  # (n,), 0 to C - 1


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
"""The last data set, by its config and stamps of its files: a sweep's processes start with it."""


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
    """The data set that a config asks for. resample: seed that draws train and test anew; the
    fingerprint stays as it is, and words that only the old test split had stay unknown."""
    corpus = read_tokenized(config).by_rank()
    fingerprint = compute_fingerprint(corpus)
    if resample is not None:
        corpus = corpus.redraw(resample).by_rank()
        corpus.check_classes(f" as seeds.resample={resample} draws it")
    ids = to_ids(corpus.rows.numbers, config)
    labels = corpus.rows.label.to_numpy(copy=True)  # Torch warns of arrays that are read-only.
    splits = {}
    for split, rows in corpus.rows.groupby("split").indices.items():
        splits[split] = Encoded(ids=ids[rows], labels=labels[rows])
    for split, limit in (("train", config.limit_train), ("test", config.limit_test)):
        if limit is not None:
            splits[split] = _limit(splits[split], limit, split)
    words = corpus.words[: config.vocab_size - FIRST_WORD]
    return Dataset(
        **splits,
        words=words,
        vocab_size=len(words) + FIRST_WORD,
        classes=corpus.classes,
        source=corpus.source,
        files=corpus.files,
        fingerprint=fingerprint,
        quality=find_problems(corpus),
    )


def _limit(encoded: Encoded, limit: int, split: str) -> Encoded:
    """A split with `limit` of its texts: stratified, in their order, the same every time. Raises
    `UserError` where there are not so many, or a class of few texts would lose all."""
    labels = encoded.labels
    if limit > len(labels):
        raise UserError(
            f"data.limit_{split}={limit}, but there are {len(labels)} texts. Use {len(labels)} or "
            f"less, or data.limit_{split}=null for all."
        )
    num_texts = np.bincount(labels)  # (C,)
    # The shares of the classes up to each are rounded down, so that quotas add up to the limit.
    quotas = np.diff(limit * np.cumsum(num_texts) // len(labels), prepend=0)
    if 0 in quotas[num_texts > 0]:
        raise UserError(f"data.limit_{split}={limit} leaves no text of some class. Use more.")
    random = np.random.default_rng(0)
    rows: list[int] = []
    for label, quota in enumerate(quotas):
        shuffled = random.permutation(np.flatnonzero(labels == label))
        rows.extend(shuffled[:quota])
    rows.sort()
    return Encoded(ids=encoded.ids[rows], labels=labels[rows])


def load_test(config: DataConfig, words: Sequence[str], classes: Sequence[str]) -> Encoded:
    """Other texts for a finished run, by its words and classes: the test split, or else all."""
    corpus = read_corpus(config)
    rows = corpus.rows
    if "test" in corpus.files:
        rows = rows[rows.split == "test"]
    names = corpus.written
    if tuple(classes) == SENTIMENTS:
        names = tuple(SENTIMENT_OF.get(name, name) for name in names)
    if not set(classes).issuperset(names):
        raise UserError(
            f"{corpus.source} does not fit the run: it needs labels among {join_names(classes)}, "
            f"and has {join_names(names)}. Recode them, or name their column: data.label=COLUMN."
        )
    label_in_run = pd.Index(classes).get_indexer(names)
    ranks = rank_with(words, rows.text, tokenizer_of(config))
    test = Encoded(ids=to_ids(ranks, config), labels=label_in_run[rows.label])
    return test if config.limit_test is None else _limit(test, config.limit_test, "test")
