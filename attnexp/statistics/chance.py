"""Whether a classifier does better than a guess, which always answers the largest class.

Both answer the same texts, so their difference is judged, paired by text. (At `final` of protocol
holdout the guess answers those of the test set.) Bounds are one-sided, at 95 %."""

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
    if crossing is None:  # Nothing varies; or one seed, or text, says nothing of others.
        return mean if min(d.shape) > 1 else -math.inf
    return mean - float(stdtrit(crossing.df, 1 - ALPHA)) * crossing.se


def bound_by_means(values: Floats, guess: float, num_texts: int) -> float:
    """Lower bound of the mean of values (n seeds,) minus that of the guess, for other seeds and
    texts, where no answers are stored. The values are accuracies, or are treated like them.

    D, as in `bound_by_answers`, has the mean `excess`, so its variance over texts is the mean of D²
    minus excess². D² is 1 where exactly one of both is right: in a share of the texts of at most
    (1 - mean) + (1 - guess). Degrees of freedom are Satterthwaite's, as in `crossed`; those of
    texts count as infinite."""
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
