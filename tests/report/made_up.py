"""A made-up comparison, and what a made-up model reads."""

from typing import Any

import numpy as np
import pandas as pd

from attnexp.analysis.frames import Group
from attnexp.inspect.insight import Attention, Reading


def made_group(*variants: str, seeds: int = 4, data: str = "imdb", **more: Any) -> Group:
    """Three epochs of variants that lie a point apart."""
    rng, place = np.random.default_rng(0), {"data": data, "protocol": "blog"}
    epochs = pd.DataFrame(
        {**place, "variant": name, "seed": str(seed), "epoch": epoch, "metric": metric}
        | {"value": 0.8 + 0.01 * i - 0.005 * epoch + rng.normal(0, 0.002)}
        for i, name in enumerate(variants)
        for seed in range(seeds)
        for epoch in (1, 2, 3)
        for metric in ("val_accuracy", "val_loss")
    )
    last = epochs[(epochs["epoch"] == 3) & (epochs["metric"] == "val_accuracy")]
    last = last.assign(metric="accuracy", point="final")
    about = {**place, "points": ["final"], "endpoints": last, "epochs": epochs, **more}
    return Group(variants=[*variants], num_texts={"final": 1000}, **about)


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
