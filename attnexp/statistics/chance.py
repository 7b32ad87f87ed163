"""Whether a classifier does better than a guess, which always answers the largest class.

Both answer the same texts (at `final` of protocol holdout the guess answers those of the test set),
so their difference is judged. Bounds are one-sided, at 95 %.
"""

import math

from scipy.special import stdtrit

from attnexp.statistics.crossed import crossed
from attnexp.statistics.defaults import ALPHA
from attnexp.statistics.intervals import Floats


def bound_by_answers(d: Floats) -> float:
    """Lower bound of the mean of D for other seeds and texts. d: (seeds, texts), 1 where only the
    classifier is right, -1 where only the guess is, else 0."""
    mean = float(d.mean())
    crossing = crossed(d)
    if crossing is None:  # Nothing varies, or there is one text, which says nothing of others.
        return mean if d.shape[1] > 1 else -math.inf
    return mean - float(stdtrit(crossing.df, 1 - ALPHA)) * crossing.se


def bound_by_means(values: Floats, guess: float, num_texts: int) -> float:
    """Lower bound of the mean of values (n seeds,) minus that of the guess, for other seeds and
    texts, where no answers are stored. The values are accuracies, or are treated like them.

    The variance of D over texts is the mean of D² minus excess². D² is 1 where one of both is right
    and the other wrong, in a share of the texts that is at most (1 - mean) + (1 - guess). Degrees
    of freedom are Satterthwaite's, as in `crossed`; those of texts count as infinite."""
    n = len(values)
    mean = float(values.mean())
    excess = mean - guess
    most_unequal = 2 - mean - guess
    of_texts = (most_unequal - excess**2) / num_texts
    of_seeds = values.var(ddof=1) / n if n > 1 else 0.0
    variance = of_texts + of_seeds
    df = variance**2 / (of_seeds**2 / (n - 1)) if of_seeds else math.inf
    return excess - float(stdtrit(df, 1 - ALPHA)) * math.sqrt(variance)


def guesses(share: float | None, num_classes: int) -> dict[str, float]:
    """Metrics of the guess by name. share: of the largest class; None in old results."""
    if share is None:
        return {}
    f1 = 2 * share / (1 + share)  # of the largest class; the F1 of all others is 0
    return {"accuracy": share, "macro_f1": f1 / num_classes}
