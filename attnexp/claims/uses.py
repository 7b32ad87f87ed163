"""Claims on what positions and heads are used for, and on when positions harm: C30, C31, C32.

C30 and C31 read what `attnexp probe` stored with runs of `study=blog`, C32 reads
`study=position_x_embedding` on several data sets. Conclusions are as in `sweeps.py`.
"""

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from attnexp.analysis.comparison import compare
from attnexp.claims.claim import Conclusion, Finding, NotRun, claim, concluded
from attnexp.claims.evidence import MIN_SEEDS, above, beyond_zero, finding, interval, out_word
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.runs import manifest, probed, store
from attnexp.runs.identity import replicate, settings
from attnexp.statistics.meta import meta
from attnexp.statistics.paired import MARGIN, Paired, paired
from attnexp.statistics.verdict import POINTS

K = ["model.score.scale=false", "train.eps=1e-8"]
"""Words of `study=blog`, whose probed runs count."""

Probed = dict[str, dict[str, Any]]
"""What is stored of each intervention, by its name, keyed by seed."""


@claim("C30", "own", reads_sweeps=True)
def c30(results: Path) -> Finding:
    """PE is used for order: shuffled words cost more than PE gives.

    The cost is what the model with PE loses at the final epoch when the words of each text are
    shuffled; the gain is what it has over the model without PE on the same texts.
    """
    probed_runs = _probed(results, "shuffle")
    none, pe = ({seed: of["shuffle"] for seed, of in runs.items()} for runs in probed_runs)
    cost = {seed: _cost(result) for seed, result in pe.items()}
    gain = {seed: result["accuracy"] - none[seed]["accuracy"] for seed, result in pe.items()}
    nothing = dict.fromkeys(cost, 0.0)
    compared = {"cost": (cost, nothing), "gain": (gain, nothing), "cost − gain": (cost, gain)}
    parts: list[tuple[str, Paired, Conclusion | None]] = []
    for name, (one, other) in compared.items():
        pair = paired(one, other, step=1 / next(iter(pe.values()))["n"])
        assert pair is not None  # `_probed` left shared seeds alone
        parts.append((name, pair, above(pair) if other is gain else None))
    return finding(parts)


@claim("C31", "own", reads_sweeps=True)
def c31(results: Path) -> Finding:
    """Most heads of the model with PE can be removed, one at a time.

    A head can be removed if accuracy then falls by less than the project's margin. Supported if
    the mean share of such heads over seeds is above one half. Michel et al. 2019 (arXiv
    1905.10650) found so in models with far more heads.
    """
    _, pe = _probed(results, "no_head=*")
    shares = {}
    for seed, of in pe.items():
        costs = [*map(_cost, of.values())]
        shares[seed] = sum(cost < MARGIN for cost in costs) / len(costs)
    pair = paired(shares, dict.fromkeys(shares, 0.5), step=1 / len(costs))
    assert pair is not None
    low, high = interval(pair)
    return Finding(
        measured=f"{0.5 + pair.difference.mean:.0%} of {len(costs)} heads "
        f"[{max(0.5 + low, 0):.0%}, {min(0.5 + high, 1):.0%}], at a cost below "
        f"{POINTS.plain(MARGIN)} points each",
        conclusion=above(pair),
        n=pair.difference.n,
    )


@claim("C32", "P", reads_sweeps=True)
def c32(results: Path) -> Finding:
    """Embeddings times √d keep positions from drowning the words.

    What sinusoidal positions give with embeddings times √d, minus what they give without, in the
    mean over data sets (see `attnexp.statistics.meta`). P and the paper multiply, K does not.
    """
    study = "position_x_embedding"
    folder = results / study
    runs = manifest.load_runs([folder]) if (folder / manifest.FILE).exists() else []
    crossed = [
        interaction.points
        for comparison in compare(runs)
        for interaction in comparison.interactions
        if interaction.variants == ["pe_scaled", "none_scaled", "pe_plain", "none_plain"]
    ]
    by_point = {
        at: [points[at].metrics["accuracy"] for points in crossed if at in points]
        for at in ("best", "final")
    }
    num_seeds = [pair.difference.n for pair in by_point["final"]]
    if len(num_seeds) < 2 or min(num_seeds) < MIN_SEEDS:
        raise NotRun(
            f"{len(num_seeds)} data sets in {folder}; two or more with {MIN_SEEDS} seeds each are "
            f"needed: attnexp sweep study={study} data=trec,cr,emotion 'seed=range({MIN_SEEDS})'"
            f"{out_word(results)}"
        )
    lines, conclusions = [], []
    for at, pairs in by_point.items():
        mean = meta([pair.difference.mean for pair in pairs], [pair.se for pair in pairs])
        lines.append(f"{at} {POINTS.signed(mean.mean)}{POINTS.interval(mean.low, mean.high)}")
        conclusions.append(beyond_zero(mean.low, mean.high))
    return Finding(
        measured=f"{'; '.join(lines)}, over {len(num_seeds)} data sets",
        conclusion=concluded(conclusions),
        n=min(num_seeds),
    )


def _probed(results: Path, pattern: str) -> tuple[Probed, Probed]:
    """What is stored of runs without and with PE, for the seeds that both share, on equal
    numbers of texts. Raises `NotRun` where that is too little.

    pattern: names of interventions, as `no_head=*`.
    """
    positions = ("none", "sinusoidal")
    wanted = [settings(to_dict(compose([f"position={one}", *K]))) for one in positions]
    found: dict[int, tuple[Probed, Probed]] = {}
    for file in sorted((results / store.RUNS).glob(f"*/{probed.FILE}")):
        run = store.load(file.parent)
        full = (run.data["n_train"], run.data["n_test"]) == (25_000, 25_000)
        if not full or (own := settings(run.config)) not in wanted:
            continue
        for one in probed.load(file.parent).values():
            if fnmatch(one["name"], pattern) and "lost" in one:
                of_size = found.setdefault(one["n"], ({}, {}))[wanted.index(own)]
                of_size.setdefault(replicate(run.config), {})[one["name"]] = one
    shared: list[tuple[Probed, Probed]] = []
    for none, pe in found.values():
        seeds = sorted(none.keys() & pe.keys())
        shared.append(({seed: none[seed] for seed in seeds}, {seed: pe[seed] for seed in seeds}))
    most = max(shared, key=lambda pair: len(pair[0]), default=({}, {}))
    if len(most[0]) < MIN_SEEDS:
        raise NotRun(
            f"{len(most[0])} of {MIN_SEEDS} seeds or more of study=blog on IMDB are probed; make "
            f"them: attnexp sweep study=blog 'seed=range({MIN_SEEDS})'{out_word(results)}, then "
            f"attnexp probe {results / 'blog'} --do {pattern.partition('=')[0]}"
        )
    return most


def _cost(result: dict[str, Any]) -> float:
    """Accuracy that an intervention takes from a model."""
    num_texts: int = result["n"]
    return (len(result["lost"]) - len(result["won"])) / num_texts
