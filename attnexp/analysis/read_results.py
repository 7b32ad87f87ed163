"""Results of any trainer as groups: a row for each run, or for each answer to an example."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike

import pandas as pd

from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.families import differences_from
from attnexp.analysis.group import Bits, Group
from attnexp.analysis.metrics import METRICS
from attnexp.analysis.read_cells import (
    KEYS,
    ORIGIN,
    check_columns,
    check_keys,
    name_row,
    name_run,
    read_cells,
)
from attnexp.base.errors import UserError, join_names
from attnexp.config.options import did_you_mean
from attnexp.statistics.defaults import MARGIN
from attnexp.statistics.verdict import MetricSpec

ACCURACY_WORDS = {"acc", "accuracy"}  # words of the names of columns that hold one
QUALIFIERS = """train val valid validation dev test eval final best last mean balanced metrics
binary categorical sparse""".split()
"""Words that may stand beside them in the name of a column that is judged unasked."""
OUR_SHARES = [metric.name for metric in METRICS if metric.is_share and metric.higher_is_better]
"""Metrics that attnexp measures as shares, of which more is better."""
GAINS = {"f1", "precision", "recall", "auc", "bleu", "score"}  # more is better
COSTS = {"loss", "error", "perplexity", "wer"}  # less is better

SMALLEST_MARGIN = 0.05  # points; a smaller one was meant as a share
LARGEST = 1e150  # of a metric; the squares of larger numbers are none
LARGEST_STEP = 1 / 20  # of an accuracy; a larger one is no step of a test set
BITS = {"true": "1", "false": "0", "1": "1", "0": "0", "1.0": "1", "0.0": "0", "": ""}


def read_results(
    results: "Sequence[str | PathLike[str]] | pd.DataFrame",
    columns: Sequence[str] = (),
    *,
    higher: Sequence[str] = (),
    lower: Sequence[str] = (),
    margins: Sequence[str] = (),
    variant_column: str = "variant",
    seed_column: str = "seed",
    baseline: str | None = None,
    sequential: bool = False,
) -> tuple[list[Group], list[MetricSpec]]:
    """Groups of files (csv, tsv, json, jsonl, parquet) or a data frame, one for each value of a
    column `dataset`, and the metrics that are judged. The other variants are compared with
    `baseline`, the first one if None.

    A row has variant, seed and the metrics of a run; or variant, seed, example and correct (1 or 0)
    of an answer. columns: metrics to judge; those called accuracy if empty. higher, lower: further
    ones, of which more or less is better. margins: METRIC=NUMBER, which judges that metric, too, or
    a number for all, in the unit of the tables. No other column counts. sequential: whether seeds
    were added because of results. Raises `UserError`.
    """
    margin_of = _read_margins(margins)
    named = [*higher, *lower, *filter(None, margin_of)]
    cells = read_cells(results, variant_column, seed_column, [*columns, *named])
    if cells.empty:
        raise UserError("There are no rows to judge.")
    chosen = list(columns)
    if "example" in cells:
        check_columns(["correct"], cells, "Answers by example need it, 1 or 0.")
        bits = cells["correct"].str.lower()
        wrong = cells[~bits.isin(BITS)]
        if len(wrong):
            text = wrong["correct"].iloc[0]
            raise UserError(f"{name_row(wrong)}: correct holds {text!r}, which is neither 1 nor 0.")
        cells["accuracy"] = bits.map(BITS)
        chosen.append("accuracy")
    names = _name_metrics(chosen, named, cells)
    numbers = _to_numbers(cells, names)
    keys = [name for name in (*KEYS, "example") if name in cells]
    rows = cells[keys].join(numbers).dropna(subset=names)
    if rows.empty:
        raise UserError(f"Every row has an empty cell in {', '.join(names)}. Name one: --columns.")
    notes = check_keys(cells.loc[rows.index])
    repeated = rows[rows.duplicated(keys)]
    if len(repeated):
        raise UserError(
            f"{name_run(repeated)} has more than one result. Give one row, of the epoch that you "
            "declared, or a column example."
        )
    first = baseline or str(cells["variant"].iloc[0])
    groups = []
    for data, group_rows in rows.groupby("data", sort=False):
        groups.append(_make_group(str(data), group_rows, names, first, sequential))
    groups[0].notes.extend([*notes, *_describe_empty_cells(cells, names)])
    metrics = [_make_spec(name, rows, higher, lower, margin_of) for name in names]
    for group in groups:
        group.notes.extend(_describe_units(group, metrics))
    return groups, metrics


def _describe_empty_cells(cells: pd.DataFrame, metrics: list[str]) -> Iterator[str]:
    """Notes on rows that are left out."""
    for name in metrics:
        left_out = cells[cells[name] == ""]
        if len(left_out):
            runs = left_out["variant"] + " seed " + left_out["seed"]
            listed = join_names(runs.unique())
            yield f"Left out: {len(left_out):,} rows with an empty cell in {name} ({listed})."


def _describe_units(group: Group, metrics: list[MetricSpec]) -> Iterator[str]:
    """Notes on margins above all values, and on accuracies that do not tell of how many examples
    they are."""
    for metric in metrics:
        values = group.endpoints.loc[group.endpoints["metric"] == metric.name, "value"]
        if metric.margin > values.abs().max():
            yield f"The margin of {metric.name} is above all its values. Is it in their unit?"
        if group.num_texts:
            continue
        step = group.step(RESULT.name, metric)
        if metric.in_points and step > LARGEST_STEP * metric.whole:
            yield (
                f"{group.data}: the number of test examples is not known, and {metric.name} has "
                "too few values to tell it, so intervals are wide. Answers by example (columns "
                "example, correct) tell it."
            )


def _is_accuracy(name: str) -> bool:
    """Whether a judged column is like an accuracy: `test_acc`, `macro_f1`, not `inaccuracy`."""
    return name in OUR_SHARES or not ACCURACY_WORDS.isdisjoint(_words_of(name))


def _is_plain(name: str) -> bool:
    """Whether that is all that its name says: `test_acc`, not `acc_err`, `1-acc` or `acc ±`."""
    has_words = _is_accuracy(name) and _words_of(name) <= ACCURACY_WORDS.union(QUALIFIERS)
    return has_words and re.fullmatch(r"[\w /.:()\[\]%-]+", name, re.ASCII) is not None


def _words_of(name: str) -> set[str]:
    return set(re.findall("[a-z0-9]+", name.lower()))


def _name_metrics(chosen: list[str], named: list[str], cells: pd.DataFrame) -> list[str]:
    """The metrics to judge: those chosen, or else each column that plainly is an accuracy (not
    `grad_acc`); and those named. Raises `UserError` for none, or one that is no column."""
    columns = [name for name in cells if name not in (*KEYS, ORIGIN)]
    if not chosen:
        chosen = [name for name in columns if _is_plain(name)]
    metrics = list(dict.fromkeys([*chosen, *named]))
    check_columns(metrics, columns, "Choose with --columns.")
    if not metrics:
        example = columns[-1] if columns else "loss"
        raise UserError(
            f"No column is called accuracy or acc. There are {', '.join(columns) or 'no others'}. "
            f"Name the metric, its direction and the smallest difference that matters, for example "
            f"{_suggest_options(example)}"
        )
    return metrics


def _suggest_options(name: str, higher: Sequence[str] = (), lower: Sequence[str] = ()) -> str:
    """Options that judge a metric: its direction where it was typed or is plain, else a choice."""
    words = _words_of(name).difference(QUALIFIERS)
    is_gain = name in higher or words <= GAINS | ACCURACY_WORDS
    is_cost = name in lower or words <= COSTS
    direction = f"--higher {name} or --lower {name}"
    if is_gain and not is_cost:
        direction = f"--higher {name}"
    if is_cost and not is_gain:
        direction = f"--lower {name}"
    margin = 0.25 if _is_accuracy(name) else 0.01
    return f"{direction} --margin {name}={margin}"


def _to_numbers(cells: pd.DataFrame, metrics: list[str]) -> pd.DataFrame:
    """Numbers below `LARGEST`; NaN for an empty cell. Raises `UserError` for any other, and for an
    accuracy that is neither a share nor per cent."""
    numbers = cells[metrics].apply(pd.to_numeric, errors="coerce").astype(float)
    numbers = numbers.mask(numbers.abs() > LARGEST)
    for name in metrics:
        values = numbers[name]
        wrong = cells[values.isna() & (cells[name] != "")]
        if len(wrong):
            text = wrong[name].iloc[0]
            cure = "Leave the cell empty where a run failed."
            plain = text.replace(",", ".").replace("%", "").strip()
            if plain != text and pd.notna(pd.to_numeric(plain, errors="coerce")):
                cure = f"Write {plain}."
            what = f"{name} holds {text!r}, which is no finite number below {LARGEST:g}"
            raise UserError(f"{name_row(wrong)}: {what}. {cure}")
        outside = cells[(values < 0) | (values > 100)]
        if len(outside) and _is_accuracy(name):
            text = outside[name].iloc[0]
            raise UserError(
                f"{name_row(outside)}: {name} is {text}: neither a share nor per cent. Leave the "
                "cell empty where a run failed."
            )
    return numbers


def _make_group(
    data: str, rows: pd.DataFrame, metrics: list[str], baseline: str, sequential: bool
) -> Group:
    variants = list(rows["variant"].unique())
    if baseline not in variants or len(variants) < 2:
        hint = did_you_mean(baseline, {*variants} - {baseline})
        raise UserError(
            f"{data}: {baseline} has nothing to be compared with.{hint} In rows without an empty "
            f"cell there is {', '.join(variants)}."
        )
    variants.sort(key=lambda name: name != baseline)
    notes = _check_pairs(data, rows, variants)
    means = rows.groupby(KEYS, sort=False)[metrics].mean().rename_axis(columns="metric").stack()
    endpoints = means.reset_index(name="value")
    endpoints = endpoints.assign(protocol="", point=RESULT.name, epoch=math.nan)
    answers: dict[tuple[str, str, str], Bits] = {}
    num_texts = {}
    if "example" in rows:
        _check_examples(data, rows)
        examples = set()
        for (variant, seed), run in rows.sort_values("example").groupby(["variant", "seed"]):
            answers[variant, seed, RESULT.name] = run["accuracy"].to_numpy(bool)
            examples.add(tuple(run["example"]))
        num_texts[RESULT.name] = min(map(len, examples))
        if len(examples) > 1:
            notes.append("Seeds answered different examples, so no interval is for other texts.")
            answers.clear()
    return Group(
        data=data,
        source=data,
        protocol="",
        variants=variants,
        points=[RESULT],
        endpoints=endpoints,
        epochs=endpoints.iloc[:0],
        families=[differences_from(baseline, variants)],
        right=answers,
        num_texts=num_texts,
        sequential=frozenset(variants if sequential else ()),
        notes=notes,
    )


def _check_pairs(data: str, rows: pd.DataFrame, variants: Sequence[str]) -> list[str]:
    """Notes on variants that share no seed with the first one. Raises `UserError` if none does."""
    baseline, *others = variants
    seeds = rows.groupby("variant")["seed"].unique()
    baseline_seeds = set(seeds[baseline])
    alone = [name for name in others if baseline_seeds.isdisjoint(seeds[name])]
    if alone == others:
        texts = [f"{name}: {join_names(seeds[name])}" for name in variants]
        listed = "; ".join(texts)
        raise UserError(f"{data}: no two variants share a seed ({listed}). Pairs need one.")
    return [f"{name} has no seed in common with {baseline}, so no difference." for name in alone]


def _check_examples(data: str, rows: pd.DataFrame) -> None:
    """Raise `UserError` where a variant lacks examples that another one answered with its seed."""
    for seed, seed_rows in rows.groupby("seed", sort=False):
        all_examples = set(seed_rows["example"])
        for variant, run in seed_rows.groupby("variant", sort=False):
            lacking = sorted(all_examples.difference(run["example"]))
            if lacking:
                raise UserError(
                    f"{data}: {variant}, seed {seed} lacks {len(lacking):,} of the "
                    f"{len(all_examples):,} examples of this seed, such as {lacking[0]}. Leave "
                    "these examples out of all variants, or give accuracies instead."
                )


def _read_margins(margins: Sequence[str]) -> dict[str, float]:
    """Margins by metric; under an empty name that of all others. NaN for what is no number."""
    margin_of = {}
    for word in margins:
        name, _, number = word.rpartition("=")
        margin_of[name] = float(pd.to_numeric(number, errors="coerce"))
    return margin_of


def _make_spec(
    name: str,
    rows: pd.DataFrame,
    higher: Sequence[str],
    lower: Sequence[str],
    margin_of: Mapping[str, float],
) -> MetricSpec:
    """How a metric is judged. Raises `UserError` where direction or margin is wrong or missing."""
    is_accuracy = _is_accuracy(name)
    usual_margin = 100 * MARGIN if is_accuracy else 0.0
    margin = margin_of.get(name, margin_of.get("", usual_margin))
    directions = [name in higher, name in lower]
    has_direction = any([_is_plain(name), name in OUR_SHARES, *directions])
    has_both = all(directions)
    if not has_direction or has_both or not 0 < margin < math.inf:
        raise UserError(
            f"Say which direction of {name} is better, and the smallest difference that "
            f"matters, above 0: {_suggest_options(name, higher, lower)}"
        )
    low = rows[name].min()
    high = rows[name].max()
    if is_accuracy and high > 1 and 0 < low <= 1:
        run = name_run(rows[rows[name] == low])
        raise UserError(f"{run}: {name} is {low:g} beside {high:g}. Write all as per cent.")
    is_share = bool(is_accuracy and high <= 1)
    if is_accuracy and margin < SMALLEST_MARGIN:
        raise UserError(
            f"{margin:g} points? The tables show {name} in %, and margins in points. For half "
            f"a point write --margin {name}=0.5"
        )
    return MetricSpec(
        name=name,
        is_share=is_share,
        is_percent=is_accuracy and not is_share,
        higher_is_better=name not in lower,
        margin=margin / 100 if is_share else margin,
    )
