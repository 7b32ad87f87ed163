"""The run that K published, and whether it could be one more of our seeds (C20).

Su Jianlin, "Attention is All You Need" 浅读, kexue.fm/archives/4765, January 2018: one seed of each
variant, with the test set used for validation. `kexue.csv` has the table.

Two settings follow from the date. K's code divides scores by sqrt(d_head) only since March 2018,
and Adam's epsilon in Keras is 1e-7 only since 2.1.3 of January 2018 (pull request 8710); before, it
was 1e-8. Runs with the later ones are compared with the table as well, and say so.
"""

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attnexp.config.compose import compose
from attnexp.config.schema import flatten, to_dict
from attnexp.runs.identity import settings
from attnexp.statistics.intervals import inside_by_the_others, prediction_interval

if TYPE_CHECKING:
    from attnexp.analysis.frames import Group

METRICS = ["train_loss", "train_accuracy", "val_loss", "val_accuracy"]

SETTINGS = {"model.score.scale": False, "train.eps": 1e-8}
"""K's settings that differ from our defaults, which are those of later code and later Keras."""


def k_epochs(config: dict[str, Any], data: dict[str, Any]) -> pd.DataFrame:
    """K's values for a run of K's comparison on the whole of IMDB: columns position, epoch and
    `METRICS`; no rows for any other run. The number of epochs may differ."""
    with (files("attnexp.analysis") / "kexue.csv").open() as file:
        table = pd.read_csv(file)
    free = {"train.epochs", "train.measure_train", "train.precision"}
    given = {k: v for k, v in settings(config).items() if k not in free}
    given = {k: v for k, v in given.items() if v != SETTINGS.get(k, ...)}
    if (data["n_train"], data["n_test"]) != (25_000, 25_000):
        return table[:0]
    own = [p for p in table["position"].unique() if given.items() <= _default(p).items()]
    return table[table["position"].isin(own)]


def unlike_k(config: dict[str, Any]) -> tuple[str, ...]:
    """Settings among `SETTINGS` in which a run differs from K's, as `key=value`."""
    given = flatten(config)
    return tuple(
        f"{k}={json.dumps(given[k])}" for k, value in SETTINGS.items() if given[k] != value
    )


@cache
def _default(position: str) -> dict[str, Any]:
    return settings(to_dict(compose([f"position={position}"])))


def k_counts(group: "Group") -> list[dict[str, Any]]:
    """How many of K's values lie in the 95 % prediction interval of one more of our seeds: a record
    for the variants that make up K's comparison, by the settings in which they differ from K's.

    Keys: variants; n, the number of seeds; inside and values, the count and its maximum; own, the
    same counts of our own seeds, each by the others (none below four seeds); unlike, the settings.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in group.published["variant"].unique() if len(group.published) else ():
        groups.setdefault(unlike_k(group.configs[name]), []).append(name)
    found = []
    for unlike, variants in groups.items():
        ours = group.epochs[group.epochs["variant"].isin(variants)]
        wide = ours.pivot(index="seed", columns=["variant", "epoch", "metric"], values="value")
        k = group.published.melt(["variant", "epoch"], METRICS, var_name="metric")
        k = k.set_index(["variant", "epoch", "metric"])["value"]
        k = k[k.index.isin(wide.columns)]
        wide = wide[k.index].dropna()
        low, high = np.array([prediction_interval(wide[place]) for place in k.index]).T
        own = inside_by_the_others(wide.to_numpy()) if len(wide) > 3 else []
        count = {"inside": int(k.between(low, high).sum()), "values": len(k), "own": own}
        found.append({"variants": variants, "n": len(wide), "unlike": unlike, **count})
    return found
