"""The baseline to beat: TF-IDF and logistic regression, blind to word order.

It reads the same ids as the models, so the same words and the same `max_len` tokens of a review.
Fitting has one optimum and draws nothing at random: there is no seed.

Shapes: n reviews, T tokens, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from attnexp.data.text import START
from attnexp.errors import UserError
from attnexp.model.seams import Baseline
from attnexp.runs.result import Evaluation
from attnexp.training.metrics import measure

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Float = NDArray[np.float64]
Integer = NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class TfidfModel(Baseline):
    """The logit of a review is its TF-IDF vector, of length 1, times `coef`, plus `intercept`."""

    idf: Float
    """(V,): ln((1 + n) / (1 + reviews with the word)) + 1; 0 for a word no training review has."""
    coef: Float
    """(V,)."""
    intercept: Float
    """(1,)."""

    @property
    def parameters(self) -> int:
        """V + 1: the weights and the intercept, which are learned; idf is counted, not learned."""
        return self.coef.size + self.intercept.size

    def logits(self, ids: Integer) -> Float:
        """(n, T) -> (n,)."""
        logits: Float = features(ids, self.idf) @ self.coef + self.intercept
        return logits

    def probabilities(self, ids: Integer) -> Float:
        """Of the positive class: (n, T) -> (n,)."""
        from scipy.special import expit

        return expit(self.logits(ids))

    def evaluate(self, ids: Integer, labels: NDArray[Any]) -> Evaluation:
        """What the model is worth. ids: (n, T). labels: (n,), 0 or 1."""
        return measure(self.logits(ids), labels)

    def to_arrays(self) -> dict[str, Float]:
        """By name, fit for safetensors; `from_arrays` gives the same model to the bit."""
        return asdict(self)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Float]) -> Self:
        """What `to_arrays` gave."""
        return cls(**arrays)


def fit_tfidf(ids: Integer, labels: NDArray[Any], *, vocab_size: int) -> TfidfModel:
    """Fit scikit-learn's TF-IDF and logistic regression, both with their defaults.

    ids: (n, T), below `vocab_size`. labels: (n,), 0 or 1. Raises `UserError` without scikit-learn,
    or where all labels are one.
    """
    try:
        from sklearn.feature_extraction.text import TfidfTransformer
        from sklearn.linear_model import LogisticRegression
    except (ImportError, OSError) as error:
        raise UserError(
            f"The TF-IDF baseline needs scikit-learn, which does not load here ({error}). Install "
            f"it: pip install 'attnexp[baseline]'."
        ) from error
    kinds = np.unique(labels)
    if len(kinds) < 2:
        raise UserError(
            f"The TF-IDF baseline has nothing to tell apart: all {len(labels)} training reviews "
            f"have label {kinds[0]:g}. Give it both, or raise data.limit_train."
        )
    counts = word_counts(ids, vocab_size=vocab_size)
    # A word never seen, cut off in every training review, must not lengthen a review's vector.
    idf = np.where(counts.sum(axis=0) > 0, TfidfTransformer().fit(counts).idf_, 0.0)
    # IMDB takes about 30 iterations; other reviews may pass the default limit of 100.
    regression = LogisticRegression(max_iter=10_000).fit(features(ids, idf), labels)
    return TfidfModel(idf=idf, coef=regression.coef_[0], intercept=regression.intercept_)


def features(ids: Integer, idf: Float) -> "csr_array[np.float64]":
    """TF-IDF vectors of length 1: (n, T) -> sparse (n, V). A review without words gives zeros."""
    x = word_counts(ids, vocab_size=len(idf))
    x.data *= idf[x.indices]
    length = np.sqrt(x.power(2).sum(axis=1))
    x.data /= np.repeat(length, np.diff(x.indptr))
    return x


def word_counts(ids: Integer, *, vocab_size: int) -> "csr_array[np.float64]":
    """How often each word stands in each review: (n, T) -> sparse (n, V).

    Padding and the start of a review are no words; the id that all rare words share is one.
    """
    from scipy.sparse import coo_array

    row, column = np.nonzero(ids > START)
    ones = np.ones(len(row))
    return coo_array((ones, (row, ids[row, column])), shape=(len(ids), vocab_size)).tocsr()
