"""Precision, recall and F1 of each class, from the predictions of runs on disk."""

import pandas as pd

from attnexp.analysis.group import Group
from attnexp.base.errors import UserError
from attnexp.runs import predictions, store
from attnexp.runs.result import Run
from attnexp.training.metrics import by_class

METRICS = ["precision", "recall", "F1", "num_texts"]


def class_rows(groups: list[Group]) -> pd.DataFrame:
    """A row for each run, class and metric: data, protocol, variant, class, metric, value; the
    class `macro` has means over classes. Raises `UserError` where no run is on disk."""
    keys = ["data", "protocol", "variant", "class"]
    parts = []
    for group in groups:
        runs = group.runs.reindex(columns=["variant", "folder"]).dropna()
        for run in runs.itertuples():
            stored = Run(path=run.folder, result=store.load_result(run.folder))
            by_metric = by_class(*predictions.at_endpoint(stored, group.points[0].name))
            frame = pd.DataFrame(by_metric, METRICS, stored.result.classes).T
            macro = frame.mean()
            macro["num_texts"] = frame["num_texts"].sum()
            frame.loc["macro"] = macro
            frame = frame.rename_axis("class").reset_index()
            frame = frame.assign(data=group.data, protocol=group.protocol, variant=run.variant)
            parts.append(frame.melt(keys, METRICS, "metric"))
    if not parts:
        raise UserError("--table classes takes a folder of runs: other files hold no predictions.")
    return pd.concat(parts)
