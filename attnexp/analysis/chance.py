"""Which variants are shown to do better than always answering the largest class."""

import numpy as np

from attnexp.analysis.endpoints import Endpoint
from attnexp.analysis.group import Group
from attnexp.analysis.metrics import ACCURACY
from attnexp.statistics.chance import bound_by_answers, bound_by_means
from attnexp.statistics.defaults import FEWEST_SEEDS
from attnexp.statistics.verdict import MetricSpec


def variants_above_chance(group: Group, endpoint: Endpoint, metric: MetricSpec) -> set[str]:
    """Variants whose lower bound, minus that guess, is above 0; all variants where the guess of a
    metric is not known. Answers are paired by text where three seeds or more have stored them."""
    guess = group.chance.get(metric.name)
    if guess is None:
        return set(group.variants)
    values = group.values(endpoint.name, metric.name)
    above = set()
    for variant in values:
        by_seed = values[variant].dropna()
        keys = [(variant, seed, endpoint.name) for seed in by_seed.index]
        answers = [group.right[key] for key in keys if key in group.right]
        if (
            metric.name == ACCURACY.name
            and group.guess is not None
            and len(answers) >= FEWEST_SEEDS
        ):
            bound = bound_by_answers(np.array(answers, dtype=float) - group.guess)
        else:
            bound = bound_by_means(by_seed.to_numpy(), guess, group.num_texts[endpoint.name])
        if bound > 0:
            above.add(variant)
    return above
