"""A made-up comparison, and what a made-up model reads."""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from conftest import PUBLISHED

from attnexp.analysis.answer import Answer, compare
from attnexp.analysis.endpoints import ENDPOINTS
from attnexp.analysis.families import differences_from
from attnexp.analysis.group import Group
from attnexp.analysis.metrics import ACCURACY
from attnexp.analysis.read_runs import load_groups
from attnexp.inspect.insight import Attention, Reading

FINAL = ENDPOINTS["blog"][0]


def made_group(*variants: str, seeds: int = 4, data: str = "imdb", **more: Any) -> Group:
    rows = product(variants, map(str, range(seeds)), [1, 2, 3], ["val_accuracy", "val_loss"])
    epochs = pd.DataFrame(rows, columns=["variant", "seed", "epoch", "metric"])
    epochs = epochs.assign(data=data, protocol="blog")
    number = epochs["variant"].map(variants.index)
    noise = np.random.default_rng(0).normal(0, 0.002, len(epochs))
    epochs["value"] = 0.8 + 0.01 * number - 0.005 * epochs["epoch"] + noise
    last = epochs[(epochs["epoch"] == 3) & (epochs["metric"] == "val_accuracy")]
    about: dict[str, Any] = {
        "source": data,
        "endpoints": [FINAL],
        "at_endpoints": last.assign(metric="accuracy", point="final"),
        "epochs": epochs,
        "families": [differences_from(variants[0], variants)],
        "num_texts": {(variant, "final"): 1000 for variant in variants},
    }
    return Group(variants=list(variants), data=data, protocol="blog", **(about | more))


def made_answer(*groups: Group) -> Answer:
    return compare(groups, ACCURACY)


@cache
def published(*studies: str) -> Answer:
    return made_answer(*load_groups([PUBLISHED / study for study in studies]))


def made_reading(text: str, *, num_padding: int = 0) -> Reading:
    """Two heads of uniform attention over words and padding."""
    tokens = text.split(" ")
    num_keys = len(tokens) + num_padding
    weights = np.full((2, len(tokens), len(tokens)), 1 / num_keys, dtype=np.float32)
    to_padding = np.full((2, len(tokens)), num_padding / num_keys, dtype=np.float32)
    return Reading(
        tokens=tokens,
        known=[True] * len(tokens),
        num_cut=0,
        probabilities={"negative": 0.25, "positive": 0.75},
        layers=[Attention(weights=weights, to_padding=to_padding)],
        table=np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3),
    )
