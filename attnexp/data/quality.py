"""What is questionable in the texts of a corpus, counted."""

from itertools import combinations

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read

from attnexp.base.errors import join_names
from attnexp.data.corpus import SPLITS, Corpus

MISSING = frozenset("nan -nan none null na n/a #n/a <na> #na nat nil \\n".split())
"""Labels, in lower case, that programs write and pandas reads where there is none."""


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
