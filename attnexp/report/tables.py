"""Tables of an answer, each a title and a data frame of texts: for the terminal, the page and files."""

import math
from collections.abc import Callable, Sequence

import pandas as pd

from attnexp.analysis import contrasts
from attnexp.analysis.frames import Group
from attnexp.analysis.published import k_counts
from attnexp.statistics.verdict import HELPS, HURTS, UNDECIDED, Metric, is_beyond

Table = tuple[str, pd.DataFrame]

SHARES = (
    "accuracy",
    "train_accuracy",
    "train_accuracy_after",
    "val_accuracy",
    "ece",
    "gap",
    "val_ece",
)
"""Metrics of runs that are shown in %."""

ON_TEST = {
    "blog": ", validated on test",
    "holdout": ", epoch chosen on held-out train data",
    "": "",
}
"""What a title says of the protocol."""


def number(value: float, is_share: bool, sign: str = "") -> str:
    """`81.58` of a share, in %; of another metric four decimals, or four digits of a large one."""
    if math.isnan(value):
        return "–"
    if is_share:
        return f"{100 * value:{sign}.2f}"
    return f"{value:{sign}.4f}" if abs(value) < 10 else f"{value:{sign}.4g}"


def mean_and_sd(values: "pd.Series[float]", is_share: bool) -> str:
    """`81.58 ± 0.62`; the mean alone of one seed."""
    sd = "" if len(values) < 2 else f" ± {number(values.std(), is_share)}"
    return number(values.mean(), is_share) + sd


def interval(low: float, high: float, is_share: bool) -> str:
    """`[+2.32, +2.73]`, or a dash where there is none."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return "–"
    return f"[{number(low, is_share, '+')}, {number(high, is_share, '+')}]"


def margin(row: "pd.Series") -> str:
    """The margin in the unit of the tables: `0.25`."""
    return f"{row['margin'] * (100 if row['is_share'] else 1):.4g}"


def verdict_words(row: "pd.Series") -> str:
    """`helps by at least 0.25`, `undecided, ~46 seeds`, or why there is no verdict."""
    if row["verdict"] in (HELPS, HURTS) and is_beyond(row["low"], row["high"], row["margin"]):
        return f"{row['verdict']} by at least {margin(row)}"
    if row["verdict"] == UNDECIDED and row["seeds_wanted"] > row["n"]:
        return f"{UNDECIDED}, ~{row['seeds_wanted']:,.0f} seeds"
    return str(row["verdict"] or row["reason"])


def verdict_line(row: "pd.Series") -> str:
    """One sentence: `pe − no_pe, final: helps by at least 0.25 points: +2.53 [+2.32, +2.73]; for
    other texts too [+2.18, +2.87]`."""
    words = verdict_words(row) + (
        " points" if "least" in verdict_words(row) and row["is_share"] else ""
    )
    size = f"{number(row['mean'], row['is_share'], '+')} {_bounds(row)}"
    texts = _bounds(row, "texts_")
    within = f" within {row['within']}" if row["within"] else ""
    where = f"{row['variant']} − {row['baseline']}{within}, {row['point']}"
    return f"{where}: {words}: {size}{'' if texts == '–' else f'; for other texts too {texts}'}"


def _bounds(row: "pd.Series", prefix: str = "") -> str:
    return interval(row[f"{prefix}low"], row[f"{prefix}high"], row["is_share"])


def title_of(group: Group) -> str:
    """Name of the data set; generated data are called synthetic."""
    is_generated = any("order_fraction" in config["data"] for config in group.configs.values())
    return f"{group.data} (synthetic)" if is_generated else group.data


def accuracy(groups: Sequence[Group], metrics: Sequence[Metric]) -> Table:
    """Means of every variant at every endpoint, with K's figures where they belong.

    groups: of one protocol. Several have a column for the data set.
    """
    rows = pd.concat([group.endpoints for group in groups])
    seeds = rows.groupby(["data", "variant"])["seed"].nunique()
    tables = []
    for group in groups:
        cells = {
            (f"{point} " if len(group.points) > 1 else "") + metric.name: group.values(point, metric.name)
            .apply(lambda of, share=metric.is_share: mean_and_sd(of.dropna(), share))
            for point in group.points for metric in metrics
        }  # fmt: skip
        if len(metrics) == 1 and group.protocol:
            cells = dict(zip(group.points, cells.values(), strict=True))
        table = pd.DataFrame(cells, index=group.variants)
        k = group.published
        if len(k) and "final" in cells and k["epoch"].max() == group.epochs["epoch"].max():
            k = k.groupby("variant")["val_accuracy"]
            for name, values in (("K final", k.last()), ("K best", k.max())):
                table[name] = values.map(lambda value: number(value, True))
        table.insert(0, "n", [str(seeds[group.data, name]) for name in group.variants])
        tables.append(table.rename_axis("variant").reset_index().assign(data=group.data))
    table = pd.concat(tables).fillna("")
    table.insert(0, "data", table.pop("data"))
    over = f"{seeds.iloc[0]} seeds" if seeds.nunique() == 1 else "n seeds"
    what = "Accuracy" if all(metric.name == "accuracy" for metric in metrics) else "Results"
    on = f" on {title_of(groups[0])}" if len(groups) == 1 else ""
    percent = ", %" if all(metric.is_share for metric in metrics) else ""
    title = f"{what}{on}{percent}, mean ± sd over {over}{ON_TEST[groups[0].protocol]}"
    return title, _without_constant(table, ["data", "n"])


def verdicts(groups: Sequence[Group], found: Sequence[pd.DataFrame]) -> Table:
    """Every difference with its intervals and its verdict."""
    rows, first = [], pd.concat(found).iloc[0]
    baselines = {group.variants[0] for group in groups}
    for (data, point, metric), own in pd.concat(found).groupby(
        ["data", "point", "metric"], sort=False
    ):
        named = [data] * (len(groups) > 1) + [point] * (point != "result")
        heading = ", ".join([*named, *[metric] * (metric != "accuracy")])
        if heading and len(own) > 1:
            rows.append({"difference": heading})
        opening = "  " if len(own) > 1 and heading else f"{heading}, " * bool(heading)
        rows += [
            {
                "difference": opening + row["variant"],
                "mean": number(row["mean"], row["is_share"], "+"),
                "other seeds": _bounds(row),
                "other texts too": _bounds(row, "texts_"),
                "verdict": verdict_words(row),
            }
            for _, row in own.iterrows()
        ]
    minus = f" from {baselines.pop()}" if len(baselines) == 1 else ""
    valid = f"{'anytime-valid ' if first['anytime'] else ''}95 % intervals"
    together = f", all {first['m']} together" if first["m"] > 1 else ""
    title = f"Difference{minus}{' in points' if first['is_share'] else ''}, {valid}{together}"
    return title, pd.DataFrame(rows).fillna("")


def differences(groups: Sequence[Group], metrics: Sequence[Metric]) -> Table:
    """Every number of a difference, a row each: what a paper quotes."""
    table = _records([contrasts.differences(group, metrics) for group in groups])
    bases = {group.variants[0] for group in groups}
    if len(bases) == 1:
        table["difference"] = table["difference"].str.removesuffix(f" − {min(bases)}")
    return f"Differences from {' and '.join(bases)}", table


def within(groups: Sequence[Group], metrics: Sequence[Metric]) -> Table:
    """One factor at each level of another, and their interactions."""
    found = [contrasts.within(group, metrics) for group in groups]
    return "Differences within the levels of another factor", _records(found)


def _records(found: Sequence[pd.DataFrame]) -> pd.DataFrame:
    rows = [
        {
            "data": row["data"],
            "difference": f"{row['variant']} − {row['baseline']}",
            "within": row["within"],
            "at": row["point"],
            "metric": row["metric"],
            "n": str(row["n"]),
            "mean": number(row["mean"], row["is_share"], "+"),
            "sd": number(row["sd"], row["is_share"]),
            "other seeds": _bounds(row),
            "other texts too": _bounds(row, "texts_"),
            "p": "<0.001" if row["p"] < 0.001 else number(row["p"], False)[:-1],
            "verdict": verdict_words(row),
        }
        for _, row in pd.concat(found).iterrows()
    ]
    return _without_constant(pd.DataFrame(rows), ["data", "metric", "within"])


def _without_constant(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The table without those of the columns that say the same in every row."""
    return table.drop(columns=[c for c in columns if c in table and table[c].nunique() == 1])


def across(groups: Sequence[Group], metrics: Sequence[Metric]) -> Table:
    """Mean differences over data sets, and where the next data set's would lie."""
    rows = [
        {
            "difference": f"{row['variant']} − {row['baseline']}",
            "at": row["point"],
            "metric": row["metric"],
            "data sets": str(row["n"]),
            "mean": number(row["mean"], row["is_share"], "+"),
            "95 %": _bounds(row),
            "next data set": _bounds(row, "next_"),
        }
        for _, row in contrasts.across(groups, metrics).iterrows()
    ]
    title = "Mean difference over data sets (random effects), and that of the next one"
    return title, _without_constant(pd.DataFrame(rows), ["metric"])


def epochs(groups: Sequence[Group], metrics: Sequence[Metric]) -> Table:
    """Metrics of every epoch, mean ± sd over seeds, with K's run below."""
    names = ["train_loss", "train_accuracy", "val_loss", "val_accuracy"]
    tables = [_means(group.epochs, ["data", "variant", "epoch"])[names] for group in groups]
    for group in groups:
        if len(k := group.published):
            k = k.assign(
                data=group.data, variant=k["variant"] + ", K", epoch=k["epoch"].astype(str)
            )
            texts = {
                name: k[name].map(lambda v, name=name: number(v, name in SHARES)) for name in names
            }
            tables.append(k.assign(**texts).set_index(["data", "variant", "epoch"])[names])
    title = "Metrics by epoch: of training a running mean, of validation after the epoch"
    return title, _without_constant(pd.concat(tables).reset_index(), ["data"])


def metrics(groups: Sequence[Group], _: Sequence[Metric]) -> Table:
    """Probabilities and over-fitting at every endpoint."""
    tables = [_means(group.endpoints, ["data", "variant", "point"]) for group in groups]
    title = (
        "Metrics at the endpoints. loss: negative log-likelihood, nats. brier: mean squared error of "
        "the probability. ece: calibration error, points. gap: accuracy on train minus accuracy"
    )
    return title, _without_constant(pd.concat(tables).reset_index().fillna("–"), ["data"])


def _means(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """mean ± sd over seeds as texts: a row for each combination of keys, a column for each metric."""
    cells = rows.astype(dict.fromkeys(keys, str)).groupby([*keys, "metric"], sort=False)["value"]
    texts = {place: mean_and_sd(values, place[-1] in SHARES) for place, values in cells}
    return pd.Series(texts).rename_axis([*keys, "metric"]).unstack(sort=False)


def seeds(groups: Sequence[Group], metrics: Sequence[Metric]) -> Table:
    """The values of every seed."""
    tables = [
        group.values(point, metric.name)
        .map(lambda value, share=metric.is_share: number(value, share))
        .assign(data=group.data, at=point, metric=metric.name)
        for group in groups for point in group.points for metric in metrics
    ]  # fmt: skip
    table = pd.concat(tables).reset_index().fillna("–")
    keys = ["data", "at", "metric", "seed"]
    return "Values by seed", _without_constant(table[[*keys, *table.columns.drop(keys)]], keys[:3])


def published(groups: Sequence[Group], _: Sequence[Metric]) -> Table:
    """How many of K's values one more of our seeds could have given."""
    rows = [
        {
            "variants": ", ".join(count["variants"]),
            "n": str(count["n"]),
            "inside": f"{count['inside']} of {count['values']}",
            "our seeds": f"{min(count['own'], default=0)} to {max(count['own'], default=0)}",
            "unlike K": " ".join(count["unlike"]),
        }
        for group in groups
        for count in k_counts(group)
    ]
    title = "K's run: values inside the 95 % prediction interval of one more of our seeds"
    return title, pd.DataFrame(rows)


def paper(group: Group, metric: Metric, point: str) -> Table:
    """What a paper shows of one endpoint: a grid of means for two crossed factors, else a row for
    each variant with its difference from the baseline."""
    wide = group.values(point, metric.name)
    cells = wide.apply(lambda of: mean_and_sd(of.dropna(), metric.is_share))
    percent = " in %" if metric.is_share else ""
    title = f"{metric.name.capitalize()}{percent} on {title_of(group)}, mean ± sd ({point})"
    if group.levels:
        grid = pd.DataFrame(group.levels).T.assign(cell=cells)
        one, other = grid.columns[:2]
        return title, grid.pivot(index=one, columns=other, values="cell").reset_index()
    table = pd.DataFrame({"n": wide.count().astype(str), metric.name: cells}).rename_axis("variant")
    found = contrasts.differences(group, [metric])
    if len(found):
        own = found[found["point"] == point].set_index("variant")
        base = f"minus {group.variants[0]}"
        table[base] = own.apply(lambda row: number(row["mean"], row["is_share"], "+"), axis=1)
        table["95 % interval"] = own.apply(_bounds, axis=1)
    return title, table.fillna("–").reset_index()


TABLES: dict[str, Callable[[Sequence[Group], Sequence[Metric]], Table]] = {
    table.__name__: table
    for table in (differences, epochs, metrics, seeds, within, across, published)
}
"""Tables by the name that `--table` takes."""
