"""Tables of an answer, each a title and a data frame of texts, for terminal, page and files."""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pandas as pd

from attnexp.analysis import contrasts
from attnexp.analysis.frames import Group
from attnexp.analysis.published import METRICS
from attnexp.base.errors import UserError
from attnexp.runs import predictions, store
from attnexp.runs.result import Run
from attnexp.statistics.verdict import HELPS, HURTS, TOO_FEW, UNDECIDED, Metric, is_beyond
from attnexp.training.metrics import by_class

Table = tuple[str, pd.DataFrame]

SHARES = "accuracy train_accuracy val_accuracy ece gap precision recall F1".split()
"""Metrics of runs that are shown in %."""

PROTOCOLS = {"blog": ", validated on test", "holdout": ", epoch chosen on held-out data", "": ""}
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
    sd = "" if values.count() < 2 else f" ± {number(values.std(), is_share)}"
    return number(values.mean(), is_share) + sd


def interval(low: float, high: float, is_share: bool) -> str:
    """`[+2.32, +2.73]`, or a dash where there is none."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return "–"
    return f"[{number(low, is_share, '+')}, {number(high, is_share, '+')}]"


def margin(row: "pd.Series[Any]") -> str:
    """The margin in the unit of the tables: `0.25`."""
    return f"{row['margin'] * (100 if row['is_share'] else 1):.4g}"


def sides(row: "pd.Series[Any]") -> str:
    """`pe − none`; of an interaction `(a − b) − (c − d)`."""
    names = row[["variant", "baseline"]].str.removesuffix(f" {row['within']}")
    return " − ".join(f"({name})" if " − " in name else name for name in names)


def name_of(row: "pd.Series[Any]") -> str:
    """Name of a difference: `pe − none within scaled, final, loss`."""
    within = f" within {row['within']}" if row["within"] else ""
    more = [name for name in row[["point", "metric"]] if name not in ("result", "accuracy")]
    return ", ".join([sides(row) + within, *more])


def verdict_words(row: "pd.Series[Any]") -> str:
    """`helps by at least 0.25`, `undecided, ~46 seeds`, or why there is no verdict."""
    if row["verdict"] in (HELPS, HURTS) and is_beyond(row["low"], row["high"], row["margin"]):
        return f"{row['verdict']} by at least {margin(row)}"
    if row["verdict"] == UNDECIDED and row["seeds_wanted"] > row["n"]:
        return f"{UNDECIDED}, ~{row['seeds_wanted']:,.0f} seeds"
    return str(row["verdict"] or row["reason"])


def size_of(row: "pd.Series[Any]") -> str:
    """`+2.53 [+2.32, +2.73]`."""
    return f"{number(row['mean'], row['is_share'], '+')} {bounds_of(row)}"


def bounds_of(row: "pd.Series[Any]", prefix: str = "") -> str:
    """The interval; prefix: `texts_` or `next_` for that of other texts or the next data set."""
    return interval(row[f"{prefix}low"], row[f"{prefix}high"], row["is_share"])


CELLS: dict[str, Callable[["pd.Series[Any]"], str]] = {
    "at": lambda row: str(row["point"]),
    "difference": sides,
    "data sets": lambda row: str(row["n"]),
    "mean": lambda row: number(row["mean"], row["is_share"], "+"),
    "sd": lambda row: number(row["sd"], row["is_share"]),
    "95 %": bounds_of,
    "other seeds": bounds_of,
    "other texts too": lambda row: bounds_of(row, "texts_"),
    "next data set": lambda row: bounds_of(row, "next_"),
    "p": lambda row: "<0.001" if row["p"] < 0.001 else f"{row['p']:.3f}".replace("nan", "–"),
    "verdict": verdict_words,
}
"""Text of a difference in the columns whose value alone is not the text."""

PLACES = ("data", "protocol", "within", "at", "metric")
"""Columns that say what a difference is about; left out where they say the same in every row."""

VERDICT = ("mean", "other seeds", "other texts too", "verdict")
"""Columns of the default answer."""


def of_differences(found: pd.DataFrame, columns: Sequence[str] = VERDICT, title: str = "") -> Table:
    """Rows of `contrasts` as texts: what they are about, then some columns of `CELLS`. title: with
    a place for the baseline. Raises `UserError` where there are no rows."""
    if found.empty:
        raise UserError("No two variants, or levels of two factors, can be compared here.")
    names = [*PLACES, "difference", *columns]
    table = pd.DataFrame(
        {name: CELLS[name](row) if name in CELLS else str(row[name]) for name in names}
        for _, row in found.iterrows()
    )
    base = f" from {found['baseline'].iloc[0]}" if found["baseline"].nunique() == 1 else ""
    if base:
        table["difference"] = found["variant"].to_numpy()
    if not title:
        at = f" at {found['point'].iloc[0]}" if {*found["point"]} in ({"final"}, {"chosen"}) else ""
        points = " in points" if found["is_share"].all() else ""
        valid = "anytime-valid " if found["anytime"].all() else ""
        together = f", all {found['m'].max()} together" if found["m"].max() > 1 else ""
        title = f"Difference{{}}{at}{points}, {valid}95 % intervals{together}"
    table = table.loc[:, ~(table == "–").all()]
    return title.format(base), _without_constant(table, PLACES)


def _without_constant(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The table without those of the columns that say the same in every row."""
    return table.drop(columns=[c for c in columns if c in table and table[c].nunique() == 1])


def accuracy(groups: Sequence[Group], metrics: Sequence[Metric]) -> Table:
    """Means of every variant at every endpoint of one protocol, with K's where they belong."""
    tables = dict[tuple[str, str], pd.DataFrame]()
    for group in groups:
        n = group.endpoints.groupby("variant")["seed"].nunique().astype(str)
        table = tables[group.data, group.protocol] = pd.DataFrame({"n": n}).reindex(group.variants)
        for point, metric in product(group.points, metrics):
            more = "" if metric.name == "accuracy" else f" {metric.name}"
            name = metric.name if point == "result" else f"{point}{more}"
            values = group.values(point, metric.name)
            table[name] = values.apply(mean_and_sd, args=[metric.is_share])
        k = group.published
        if "final" in table and len(k) and k["epoch"].max() == group.epochs["epoch"].max():
            found = k.groupby("variant")["val_accuracy"].agg(["last", "max"])
            table[["K final", "K best"]] = found.map(number, is_share=True)
    table = pd.concat(tables, names=["data", "protocol", "variant"]).fillna("").reset_index()
    n = table["n"].iloc[0] if table["n"].nunique() == 1 else "n"
    over = "one seed" if n == "1" else f"mean ± sd over {n} seeds"
    what = "Accuracy" if all(metric.name == "accuracy" for metric in metrics) else "Results"
    is_made = any("order_fraction" in config["data"] for config in groups[0].configs.values())
    on = f" on {groups[0].data}{' (synthetic)' * is_made}" if len(groups) == 1 else ""
    percent = ", %" if all(metric.is_share for metric in metrics) else ""
    protocol = PROTOCOLS[groups[0].protocol] if table["protocol"].nunique() == 1 else ""
    title = f"{what}{on}{percent}, {over}{protocol}"
    return title, _without_constant(table, ["data", "protocol", "n"])


def differences(groups: Sequence[Group], metrics: Sequence[Metric]) -> Table:
    """Every number of a difference, a row each: what a paper quotes."""
    found = pd.concat([contrasts.differences(group, metrics) for group in groups])
    return of_differences(found, ["n", "mean", "sd", "other seeds", "other texts too", "p"])


def within(groups: Sequence[Group], metrics: Sequence[Metric]) -> Table:
    """One factor at each level of another, and their interactions."""
    title = "Differences within the levels of another factor, and their interactions"
    found = pd.concat([contrasts.within(group, metrics) for group in groups])
    return of_differences(found, ["mean", "other seeds", "verdict"], title)


def across(groups: Sequence[Group], metrics: Sequence[Metric], point: str = "") -> Table:
    """Mean differences over data sets, and where the next one's would lie. point: all if empty."""
    title = "Mean difference{} over data sets (random effects), and the next one's"
    found = contrasts.across(groups, metrics).assign(data="")
    found = found[found["point"].str.startswith(point)]
    return of_differences(found, ["data sets", "mean", "95 %", "next data set"], title)


def undecided(groups: Sequence[Group], metrics: Sequence[Metric]) -> list[str]:
    """Differences without a verdict yet, as `pe − none`."""
    found = pd.concat([contrasts.differences(group, metrics) for group in groups])
    if found.empty:
        return ["no two variants share a seed"]
    rows = found[found["verdict"].isin([UNDECIDED, TOO_FEW, ""])]
    return [*rows.apply(sides, axis=1).unique()] if len(rows) else []


def epochs(groups: Sequence[Group], _: Sequence[Metric]) -> Table:
    """Metrics of every epoch, mean ± sd over seeds, with K's run below."""
    keys = ["data", "protocol", "variant", "epoch"]
    rows = [group.epochs[group.epochs["metric"].isin(METRICS)] for group in groups]
    for group in groups:
        if len(k := group.published):
            k = k.assign(data=group.data, protocol=group.protocol, variant=k["variant"] + ", K")
            rows.append(k.melt(keys, METRICS, "metric"))
    title = "Metrics by epoch: running mean in training, validation after each epoch"
    return title, _means(pd.concat(rows), keys)


def metrics(groups: Sequence[Group], _: Sequence[Metric]) -> Table:
    """Probabilities and over-fitting at every endpoint."""
    rows = pd.concat([group.endpoints for group in groups]).rename(columns={"point": "at"})
    gap = ", gap: train accuracy minus accuracy" if (rows["metric"] == "gap").any() else ""
    title = f"Metrics at the endpoints (ece: calibration error{gap})"
    return title, _means(rows, ["data", "protocol", "variant", "at"])


def classes(groups: Sequence[Group], _: Sequence[Metric]) -> Table:
    """Precision, recall and F1 of each class at the deciding endpoint, and their means over
    classes. Raises `UserError` where no run is on disk, with its predictions."""
    rows, names = [], ["precision", "recall", "F1", "n"]
    keys = ["data", "protocol", "variant", "class"]
    for group in groups:
        for run in group.runs.reindex(columns=["variant", "folder"]).dropna().itertuples():
            stored = Run(path=run.folder, result=store.load_result(run.folder))
            figures = by_class(*predictions.at_endpoint(stored, group.points[0]))
            own = pd.DataFrame(figures, names, stored.result.classes).T
            own.loc["macro"] = [*own.mean()[:-1], own["n"].sum()]
            about = {"data": group.data, "protocol": group.protocol, "variant": run.variant}
            own = own.rename_axis("class").reset_index().assign(**about)
            rows.append(own.melt(keys, var_name="metric"))
    if not rows:
        raise UserError("--table classes takes a folder of runs: other files hold no predictions.")
    found = pd.concat(rows)
    n = found[found["metric"] == "n"].groupby(keys, sort=False)["value"].mean()
    table = _means(found, keys).assign(n=[f"{mean:,.0f}" for mean in n])
    return "By class, %, mean ± sd over seeds (macro: mean over classes)", table


def _means(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """mean ± sd over seeds: a row for each combination of keys, a column for each metric."""
    cells = rows.astype(dict.fromkeys(keys, str)).groupby([*keys, "metric"], sort=False)["value"]
    texts = pd.Series({place: mean_and_sd(of, place[-1] in SHARES) for place, of in cells})
    table = texts.rename_axis([*keys, "metric"]).unstack(sort=False).fillna("–")
    table = table.rename_axis(columns=None).reset_index()
    return _without_constant(table, ["data", "protocol", "variant"])


def effects(found: pd.DataFrame) -> Table:
    """Effects of `probe` on a variant: changes of accuracy in points, and measures of attention."""
    variant, data, n = found.iloc[0][["variant", "data", "num_texts"]]
    note = "" if (found["metric"] == "accuracy").all() else " (entropy: 1 is uniform)"

    def cells(row: "pd.Series[Any]") -> dict[str, str]:
        is_share = row["metric"] == "accuracy"
        return {
            "intervention": str(row["intervention"] if is_share else row["metric"]),
            "n": str(row["n"]),
            "mean": number(row["mean"], is_share, "+" if is_share else ""),
            "other seeds": interval(row["low"], row["high"], is_share),
            "other texts too": interval(row["texts_low"], row["texts_high"], is_share),
            "flips, %": number(row["flips"], True),
        }

    title = f"{variant}, {n:,} texts of {data}: points{note}, 95 % intervals"
    return title, pd.DataFrame([cells(row) for _, row in found.iterrows()])


TABLES: dict[str, Callable[[Sequence[Group], Sequence[Metric]], Table]] = {
    table.__name__: table for table in (differences, epochs, metrics, classes, within, across)
}
"""Tables by the name that `--table` takes."""
