"""What one variant measured, and the published run beside it: could that be one more seed (C20)?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnexp.analysis import published
from attnexp.analysis.results import EPOCH_METRICS, At, Results
from attnexp.statistics.agreement import Agreement, agreement, leave_one_out
from attnexp.statistics.paired import Mean


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """Runs that differ only in their seed."""

    label: str
    seeds: list[str]
    """Names of the seeds, as `identity.replicate` gives them."""
    means: dict[At, dict[str, Mean]]
    """Mean over the seeds, by epoch or evaluation point, then by metric."""
    published: dict[At, dict[str, float]]
    """Values of the published run, likewise; empty unless the variant is its experiment."""
    agreement: dict[At, dict[str, Agreement]]
    """Whether each published value could be that of one more seed, by epoch and metric."""
    unlike_published: list[str]
    """Settings that differ from the published run's, as `key=value`."""
    best_epoch: int | None
    """Epoch of the endpoint `best`, the same for all seeds; None without that endpoint."""
    parameters: int | None
    flops_per_example: int | None

    @property
    def epochs(self) -> list[int]:
        """Epochs that have means, ascending."""
        return [at for at in self.means if isinstance(at, int)]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedComparison:
    """How many of K's values could be those of one more of our seeds."""

    variants: list[str]
    """Names of our variants: one, or both of K's comparison."""
    n: int
    """Number of seeds; of two variants, the smaller number."""
    inside: int
    """Number of K's values inside the 95 % prediction interval of one more seed."""
    num_values: int
    """Number of K's values compared."""
    furthest: float
    """The largest distance from our mean, in standard deviations of our seeds."""
    furthest_value: tuple[str, int, str]
    """Variant, epoch and metric of the largest distance."""
    own: dict[str, int]
    """`inside` of each of our seeds, compared with the others. Empty below four seeds."""
    unlike: list[str]
    """Our settings that differ from K's, as `key=value`."""


def summarise_variant(label: str, results: Results) -> Variant:
    """Means over the seeds of a variant, with the published run where it is of that kind."""
    runs = results.runs.get(label, [])
    num_epochs = min((len(run.result.epochs) for run in runs), default=0)
    means: dict[At, dict[str, Mean]] = {}
    for epoch in range(1, num_epochs + 1):
        found = results.metrics(label, epoch)
        means[epoch] = {
            name: Mean.of([*found[name].values()])
            for name in EPOCH_METRICS
            if len(found.get(name, ())) == len(runs)
        }
    for point in results.points:
        found = results.metrics(label, point)
        means[point] = {name: Mean.of([*by_seed.values()]) for name, by_seed in found.items()}
    values = {at: row for at in means if (row := results.published(label, at))}
    first = runs[0].result if runs else None
    return Variant(
        label=label,
        seeds=results.seeds(label),
        means=means,
        published=values,
        agreement=_agreement(values, means),
        unlike_published=published.unlike(first) if first and values else [],
        best_epoch=results.best_epochs.get(label),
        parameters=first.parameters if first else None,
        flops_per_example=first.flops_per_example if first else None,
    )


def _agreement(
    values: Mapping[At, Mapping[str, float]], means: Mapping[At, Mapping[str, Mean]]
) -> dict[At, dict[str, Agreement]]:
    """Whether each published value could be that of one more seed. Empty below three seeds."""
    found: dict[At, dict[str, Agreement]] = {}
    for at, row in values.items():
        if isinstance(at, int):
            each = {name: agreement(value, means[at][name]) for name, value in row.items()}
            found[at] = {name: one for name, one in each.items() if one}
    return found if any(found.values()) else {}


def compare_with_published(
    variants: Sequence[Variant], results: Results
) -> list[PublishedComparison]:
    """A comparison for each variant, and one for each two that make up K's experiment."""
    groups: dict[tuple[str, ...], dict[str, Variant]] = {}
    for variant in variants:
        if variant.agreement:
            groups.setdefault(tuple(variant.unlike_published), {})[variant.label] = variant
    found = []
    for group in groups.values():
        positions = [published.position(results.runs[label][0].result) for label in group]
        found += [_compare_published([variant], results) for variant in group.values()]
        if sorted(positions) == sorted(published.EPOCHS):
            found.append(_compare_published(list(group.values()), results))
    return found


def _compare_published(variants: Sequence[Variant], results: Results) -> PublishedComparison:
    each = {
        (variant.label, int(epoch), name): found
        for variant in variants
        for epoch, row in variant.agreement.items()
        for name, found in row.items()
    }
    furthest = max(each, key=lambda value: abs(each[value].distance))
    owns = [_inside_by_seed(variant, results) for variant in variants]
    return PublishedComparison(
        variants=[variant.label for variant in variants],
        n=min(len(variant.seeds) for variant in variants),
        inside=sum(found.inside for found in each.values()),
        num_values=len(each),
        furthest=each[furthest].distance,
        furthest_value=furthest,
        own={seed: sum(o[seed] for o in owns) for seed in owns[0] if all(seed in o for o in owns)},
        unlike=variants[0].unlike_published,
    )


def _inside_by_seed(variant: Variant, results: Results) -> dict[str, int]:
    cells = [
        results.metrics(variant.label, at)[name]
        for at, values in variant.published.items()
        if isinstance(at, int)
        for name in values
    ]
    counts = leave_one_out([[cell[seed] for cell in cells] for seed in variant.seeds])
    return dict(zip(variant.seeds, counts, strict=False))
