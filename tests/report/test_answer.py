"""The answer in words: golden studies, and properties of tables, lines and documents."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up import made_answer, made_group, published
from rich.console import Console
from samples import message_of, result

from attnexp.analysis.answer import Answer
from attnexp.analysis.group import Origin
from attnexp.report import TableName, cells, formats, methods, tables
from attnexp.report.tables import VERDICT_COLUMNS, make_table, tabulate_differences
from attnexp.report.terminal import show_answer
from attnexp.runs import predictions, store
from attnexp.statistics.verdict import MetricSpec

LOSS = MetricSpec(name="loss", is_share=False, margin=0.01)
GOLDEN = Path(__file__).parent / "golden"


def printed(answer: Answer) -> str:
    file = io.StringIO()
    show_answer(answer, Console(file=file, width=80, markup=False, highlight=False))
    return file.getvalue()


def test_the_golden_document() -> None:
    """`attnexp report outputs/published/contrast --json`."""
    text = json.dumps(formats.make_document(published("contrast")))
    rounded = json.loads(text, parse_float=lambda number: round(float(number), 9))
    assert rounded == json.loads((GOLDEN / "contrast.json").read_text())


@pytest.mark.parametrize(
    ("study", "table"),
    [("contrast", None), ("blog", None), ("blog", "study"), ("blog_data", None)],
)
def test_the_golden_answers(study: str, table: TableName | None) -> None:
    """`attnexp report outputs/published/STUDY --format markdown`, of some with `--table study`."""
    markdown = formats.format_answer(published(study), table, "markdown")
    file = GOLDEN / (f"{study}_{table}.md" if table else f"{study}.md")
    assert markdown == file.read_text().strip()


LINES = {"blog": 34, "position": 50, "blog_data": 52, "position_x_embedding": 80}


@pytest.mark.parametrize(("study", "most"), LINES.items())
def test_an_answer_fits_a_screen(study: str, most: int) -> None:
    assert len(printed(published(study)).splitlines()) <= most


def test_of_many_contrasts_the_means_over_data_sets_come_first_then_what_is_decided() -> None:
    text = printed(published("position_x_embedding"))
    means, _, listed = text.partition("\nDifference")
    assert "Mean difference from none over 6 to 7 data sets" in means
    assert re.search(r"emotion +pe within +(plain +)?-8.56.*hurts", listed)
    assert "78 of 84 differences are not decided." in listed
    assert "undecided" not in listed


def test_n_stands_beside_an_interval_for_other_texts_that_rests_on_fewer_seeds() -> None:
    (row,) = made_answer(made_group("a", "b", seeds=4)).differences
    for texts_n, words in ((3, "[-1.00, +2.00], n = 3"), (4, "[-1.00, +2.00]")):
        stored = replace(row, texts=(-0.01, 0.02), texts_n=texts_n)
        table = tabulate_differences([stored], VERDICT_COLUMNS)
        assert [*table.cells["other texts too"]] == [words]


@pytest.mark.parametrize("study", ["position", "blog_scaled"])
def test_k_stands_only_beside_variants_that_k_trained(study: str) -> None:
    assert "K final" not in tables.tabulate_means(published(study)).cells


def test_of_a_unit_of_its_own_are_four_digits_and_per_cent_has_two_decimals() -> None:
    (row,) = made_answer(made_group("a", "b")).differences
    table = tabulate_differences([replace(row, metric=LOSS)], VERDICT_COLUMNS)
    assert table.title == "Difference in loss from a at final, margin ±0.01, 95 % intervals"
    assert cells.format_number(0.51349, LOSS) == "0.5135"
    assert cells.format_number(12.345678, LOSS) == "12.35"
    assert cells.format_number(0.815, MetricSpec()) == "81.50"


def test_code_of_the_users_is_told_from_ours_whatever_its_name() -> None:
    (comparison,) = published("blog").comparisons
    origin = comparison.group.origin
    code = dict.fromkeys(("api.py", "model/init.py", "model/mine.py"), "digest")
    setups = {"pe": replace(origin.setups["pe"], own_code=code)}
    group = replace(comparison.group, origin=replace(origin, setups=setups))
    study = methods.describe_study(replace(comparison, group=group), MetricSpec())
    assert [*study["code"]] == [*code]
    _, training, *_ = methods.describe_in_words(study | {"epochs": [1], "seeds": ["0"]})
    assert training.startswith("Training: no_pe, pe, one epoch, one seed (0), protocol blog,")


def save_predictions(folder: Path, logit: int, labels: Any) -> None:
    folder.mkdir()
    store.save_result(folder, result("a", 0, [0.5]).result)
    arrays = {predictions.FINAL: np.full(len(labels), logit), predictions.VAL_LABELS: labels}
    predictions.save_arrays(folder / predictions.FILE, arrays)


def test_classes_are_means_over_seeds_and_end_with_their_mean(tmp_path: Path) -> None:
    """Of one class predicted for all: precision is its share, recall 1; of the other both 0."""
    labels = np.repeat([0, 1, 1], 500)
    save_predictions(tmp_path / "0", -1, labels)
    save_predictions(tmp_path / "1", 1, labels)
    runs = pd.DataFrame({"variant": "a", "folder": [*tmp_path.iterdir()]})
    table = tables.tabulate_classes(made_answer(made_group("a", origin=Origin(runs=runs))))
    assert table.cells.to_numpy().tolist() == [
        ["negative", "500", "16.67", "50.00", "25.00", "50.00", "50.00"],
        ["positive", "1,000", "33.33", "50.00", "40.00", "50.00", "50.00"],
        ["macro", "1,500", "25.00", "50.00", "32.50", "–", "–"],
    ]
    assert table.title.startswith("By class, %, at final, mean over seeds (macro: ")
    macro_f1 = table.frame.set_index(["class", "metric"]).loc[("macro", "F1")]
    assert macro_f1[["n", "mean", "sd"]].tolist() == pytest.approx([2, 0.325, 0.15 / 2**0.5])
    assert "hold no predictions" in message_of(make_table, "classes", made_answer(made_group("a")))


def test_two_protocols_stay_apart_in_every_table_and_endpoints_name_their_split() -> None:
    both = published("blog", "blog_holdout")
    for name in ("differences", "epochs", "metrics"):
        table = make_table(name, both)
        assert [*table.cells["protocol"].unique()] == ["blog", "holdout"]
        assert table.title.endswith(" on imdb, 40 to 100 seeds")
    across = make_table("across", published("blog_data", "blog_holdout"))
    assert across.title.endswith(" 95 % intervals, 10 seeds, measured on test")
    means = tables.tabulate_means(both).cells
    assert [*means["protocol"]] == ["blog", "blog", "holdout", "holdout"]
    endpoints = ["final", "best", "chosen (test)", "final (validation)"]
    assert {*endpoints} <= {*means}
    assert [*tabulate_differences(both.measured, VERDICT_COLUMNS).cells["at"]] == endpoints


def test_latex_is_escaped_and_captioned() -> None:
    text = formats.format_answer(published("blog"), None, "latex")
    for part in (r"\toprule", r"\caption{Accuracy on imdb, \%", r"\label{tab:verdicts}", r"$\pm$",
                 "intervals on imdb, 40 seeds", "K's run: 40 of 40", "ours: 32 to 40"):  # fmt: skip
        assert part in text
    assert r"no\_pe" in formats.format_answer(published("blog"), "study", "latex")
    assert "tab:across" in formats.format_answer(published("blog_data"), None, "latex")
    text = formats.format_answer(made_answer(made_group("[CLS]", "*")), None, "latex")
    assert not re.search(r"^[\[*]", text, re.MULTILINE)
    alone = made_answer(made_group("alone"))
    assert re.findall("tab:[a-z]+", formats.format_answer(alone, None, "latex")) == ["tab:accuracy"]
    assert "No two variants" in message_of(make_table, "differences", alone)


def read_csv(answer: Answer, table: TableName | None) -> pd.DataFrame:
    text = formats.format_answer(answer, table, "csv")
    return pd.read_csv(io.StringIO(text), dtype={"seed": str})


def test_csv_holds_the_numbers_of_each_seed_and_of_the_json_document() -> None:
    assert formats.to_csv(pd.DataFrame({"a": ["=1", "pe"]})).split() == ["a", "'=1", "pe"]
    answer = published("position_x_scale")
    expected = answer.groups[0].at_endpoints[formats.SEED_COLUMNS]
    pd.testing.assert_frame_equal(read_csv(answer, None), expected, check_dtype=False)
    document = formats.make_document(answer)
    keys: dict[TableName, str] = {"differences": "differences", "metrics": "endpoints"}
    for name, key in keys.items():
        expected = pd.DataFrame(document[key]).fillna(np.nan)
        frame = read_csv(answer, name)
        pd.testing.assert_frame_equal(frame, expected, check_dtype=False, rtol=1e-12)


def test_of_one_seed_json_has_null_where_there_is_no_number() -> None:
    answer = made_answer(made_group("a", "b", seeds=1))
    for tabulate, at in ((tables.tabulate_means, ""), (tables.tabulate_by_data, "at final, ")):
        assert tabulate(answer).title == f"Accuracy on imdb, %, {at}one seed, measured on test"
    document = json.dumps(formats.make_document(answer), allow_nan=False)
    (row,) = json.loads(document)["differences"]
    assert (row["n"], row["verdict"]) == (1, "too few seeds")
    for key in ("sd", "low", "high", "texts_low", "p", "within", "seeds_at_most"):
        assert row[key] is None


def test_seeds_that_are_missing_are_said_and_where_variants_differ_n_is_a_column() -> None:
    origin = Origin(planned={"pe": ["0", "98", "99"]})
    group = made_group("none", "pe", "rotary", origin=origin, notes=["Left out: 3 rows."])
    text = printed(made_answer(group))
    assert "Missing: pe, 2 of 3 planned (seed 98, 99)." in text
    assert "Left out: 3 rows." in text
    rows = group.at_endpoints.query("variant != 'pe' or seed != '0'")
    answer = made_answer(replace(group, at_endpoints=rows))
    assert "Differences take shared seeds alone (pe − none: 3); means take all." in printed(answer)
    of_rotary = replace(answer.groups[0], families=[group.families[0][1:]])
    assert made_answer(of_rotary).notes[0].startswith("Missing")
    assert [*tables.tabulate_means(answer).cells["n"]] == ["4", "3", "4"]
    stopped = made_answer(made_group("pe"), made_group("pe", data="cr", seeds=3))
    assert [*tables.tabulate_means(stopped).cells] == ["data", "variant", "n", "final"]
    assert [*tabulate_differences(answer.differences, VERDICT_COLUMNS).cells["n"]] == ["3", "4"]
