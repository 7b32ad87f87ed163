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
    by_text = group.guess if metric.name == ACCURACY.name else None
    above = set()
    for variant, values in group.values(endpoint.name, metric.name).items():
        by_seed = values.dropna()
        keys = [(variant, seed, endpoint.name) for seed in by_seed.index]
        answers = [group.right[key] for key in keys if key in group.right]
        if by_text is not None and len(answers) >= FEWEST_SEEDS:
            bound = bound_by_answers(np.array(answers, dtype=float) - by_text)
        else:
            bound = bound_by_means(by_seed.to_numpy(), guess, group.num_texts[endpoint.name])
        if bound > 0:
            above.add(variant)
    return above
