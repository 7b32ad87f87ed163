"""What a run on disk makes of each class."""

from pathlib import Path

import pandas as pd

from attnexp.runs import predictions
from attnexp.runs.find import load_run
from attnexp.training.metrics import by_class, count_confusions

MEASURES = ["precision", "recall", "F1", "num_texts"]  # as `by_class` returns them


def measure_classes(folder: Path, point: str) -> pd.DataFrame:
    """class, num_texts, metric, value of a run at an endpoint whose predictions are stored. metric:
    precision, recall, F1, and `as NAME`, the share of the class's texts that are taken for class
    NAME. After the classes stands their mean."""
    run = load_run(folder)
    logits, labels = predictions.at_endpoint(run, point)
    classes = run.result.classes
    measures = pd.DataFrame([*by_class(logits, labels)], MEASURES, classes).T
    macro = measures.mean()
    macro["num_texts"] = len(labels)
    measures.loc["(macro)" if "macro" in classes else "macro"] = macro
    confusions = pd.DataFrame(count_confusions(logits, labels), classes, classes)
    shares = confusions.div(measures["num_texts"], axis=0).add_prefix("as ")
    measures = measures.join(shares)  # The shares of macro are NaN.
    measures = measures.rename_axis("class").reset_index().astype({"num_texts": int})
    return measures.melt(["class", "num_texts"], var_name="metric").dropna()
