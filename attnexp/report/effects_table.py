"""The table of `probe`: what interventions change."""

from typing import Any

import pandas as pd

from attnexp.report.cells import format_interval, format_number
from attnexp.report.table import Table


def tabulate_effects(effects: pd.DataFrame) -> Table:
    """Effects of `probe` on a variant: changes of accuracy in points, and measures of attention."""
    variant, data, num_texts = effects.iloc[0][["variant", "data", "num_texts"]]
    note = "" if (effects["metric"] == "accuracy").all() else " (entropy: 1 is uniform)"
    title = f"{variant}, {num_texts:,} texts of {data}: points{note}, 95 % intervals"
    cells = [_cells_of_effect(row) for _, row in effects.iterrows()]
    return Table(title, pd.DataFrame(cells))


def _cells_of_effect(row: "pd.Series[Any]") -> dict[str, str]:
    is_accuracy = row["metric"] == "accuracy"
    return {
        "intervention": str(row["intervention"] if is_accuracy else row["metric"]),
        "n": str(row["n"]),
        "mean": format_number(row["mean"], is_accuracy, "+" if is_accuracy else ""),
        "other seeds": format_interval(row["low"], row["high"], is_accuracy),
        "other texts too": format_interval(row["texts_low"], row["texts_high"], is_accuracy),
        "flips, %": format_number(row["flips"], True),
    }
