"""Results as two data frames, whoever measured them: what all comparisons start from."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnexp.analysis.endpoints import RESULT, Endpoint
from attnexp.analysis.families import Contrast, Family
from attnexp.analysis.rows import Setup
from attnexp.config.settings import Tree
from attnexp.runs.manifest import Manifest
from attnexp.statistics.intervals import smallest_step
from attnexp.statistics.verdict import MetricSpec

Key = tuple[str, str, str]  # variant, seed, name of an endpoint
Marks = NDArray[np.bool_ | np.float64]  # 1 if a text is right, else 0; or a difference of these


@dataclass(frozen=True, kw_only=True)
class Origin:
    """How the runs of a group came about, as far as our trainer made them."""

    setups: dict[str, Setup] = field(default_factory=dict)  # by variant
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)  # see make_groups.py
    made_by: list[Tree] = field(default_factory=list)  # `rows.MADE_BY`
    studies: list[Manifest] = field(default_factory=list)  # that planned these runs
    planned: Mapping[str, Collection[str]] = field(default_factory=dict)  # `Plans.seeds`


@dataclass(frozen=True, kw_only=True)
class Group:
    """Variants that may be compared: one data set and one protocol."""

    # Who is compared.
    data: str
    source: str  # data set of which this may be a cut; a mean takes one group of each name
    protocol: str = ""  # blog or holdout; empty where not our trainer measured
    variants: list[str]  # with finished runs; the baseline comes first
    families: list[Family]  # of each study, of variants with or without finished runs
    # What was measured.
    endpoints: Sequence[Endpoint] = (RESULT,)  # the one that decides comes first
    at_endpoints: pd.DataFrame  # data, protocol, variant, seed, point, epoch, metric, value
    epochs: pd.DataFrame  # data, protocol, variant, seed, epoch, metric, value
    right: dict[Key, Marks] = field(default_factory=dict)  # to the texts of one test set
    num_texts: dict[tuple[str, str], int] = field(default_factory=dict)  # by variant and endpoint
    chance: dict[str, float] = field(default_factory=dict)  # metrics of guessing the largest class
    guess: Marks | None = None  # of this guess to the test texts
    # What a reader must know.
    sequential: frozenset[str] = frozenset()  # variants whose seeds were added because of results
    notes: list[str] = field(default_factory=list)  # in sentences
    origin: Origin = field(default_factory=Origin)

    def values(self, point: str, metric: str) -> pd.DataFrame:
        """Values of a metric at an endpoint: a row a seed, a column a variant."""
        rows = self.at_endpoints.query("point == @point and metric == @metric")
        values = rows.pivot(index="seed", columns="variant", values="value")
        return values.filter(self.variants)  # in this order

    def step(self, contrast: Contrast, point: str, metric: MetricSpec) -> float:
        """Smallest step of a metric, as `t_interval` wants it: by the variant with fewest texts."""
        if self.num_texts:
            sizes = [self.num_texts[variant, point] for variant in contrast.weights]
            return 1 / min(sizes) if metric.counts_texts else 0.0
        is_metric = self.at_endpoints["metric"] == metric.name  # another trainer's, no answers
        return smallest_step(self.at_endpoints.loc[is_metric, "value"], metric.is_share)

    def missing(self) -> dict[str, list[str]]:
        """Planned seeds without a finished run, by variant."""
        missing: defaultdict[str, list[str]] = defaultdict(list)
        finished = set(self.at_endpoints.set_index(["variant", "seed"]).index)
        for variant, planned in self.origin.planned.items():
            for seed in planned:
                if (variant, seed) not in finished:
                    missing[variant].append(seed)
        return missing
