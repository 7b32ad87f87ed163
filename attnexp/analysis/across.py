"""One difference on several data sets: the mean over them, and what to expect of the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from attnexp.analysis.comparison import Comparison
from attnexp.analysis.differences import Difference
from attnexp.base.errors import UserError
from attnexp.statistics.meta import Meta, meta
from attnexp.statistics.verdict import Unit

SCHEMA = 2
"""Version of the JSON document of differences over data sets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Across:
    """A metric of a variant minus the baseline's at one endpoint, on every data set."""

    variant: str
    baseline: str
    protocol: str
    point: str
    metric: str
    unit: Unit
    differences: dict[str, Difference]
    """Differences, by data set."""
    with_texts: bool
    """Whether errors are those of other seeds and texts; else of other seeds alone."""
    mean: Meta


def across_data(comparisons: Sequence[Comparison]) -> list[Across]:
    """Combine differences over data sets, where variant, baseline and protocol have the same names.

    Every judged metric is combined by itself, over the data sets where its difference has an
    interval. Raises `UserError` if no variant has two such data sets.
    """
    found: dict[tuple[str, ...], dict[str, Difference]] = {}
    units = dict[str, Unit]()
    for comparison in comparisons:
        baseline = comparison.variants[0].label
        units |= {name: metric.unit for name, metric in comparison.judged.items()}
        for label, by_point in comparison.differences.items():
            for (point, difference), metric in product(by_point.items(), comparison.judged):
                if difference.metrics[metric].low is not None:
                    names = (label, baseline, comparison.protocol, point, metric)
                    of = found.setdefault(names, {})
                    of[_numbered(comparison.title, of)] = difference
    combined = []
    for (variant, baseline, protocol, point, metric), differences in found.items():
        if len(differences) < 2:
            continue
        pairs = [difference.metrics[metric] for difference in differences.values()]
        texts = [difference.texts for difference in differences.values() if difference.texts]
        with_texts = metric == "accuracy" and len(texts) == len(pairs)
        errors = [one.se for one in (texts if with_texts else pairs)]
        combined.append(
            Across(
                variant=variant,
                baseline=baseline,
                protocol=protocol,
                point=point,
                metric=metric,
                unit=units[metric],
                differences=differences,
                with_texts=with_texts,
                mean=meta([pair.difference.mean for pair in pairs], errors),
            )
        )
    if not combined:
        seen = "; ".join(
            f"{comparison.title} ({comparison.protocol}): "
            f"{', '.join(variant.label for variant in comparison.variants)}"
            for comparison in comparisons
        )
        raise UserError(
            f"--across data combines differences of variants that have the same names, the "
            f"baseline's too, and two seeds or more on two data sets or more. Here are {seen}."
        )
    return combined


def _numbered(title: str, taken: dict[str, Difference]) -> str:
    """The title, with a number if another data set has the same one."""
    n = sum(name.partition(" #")[0] == title for name in taken)
    return f"{title} #{n + 1}" if n else title
