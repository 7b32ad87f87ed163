"""The answer in words: one golden study, and properties of tables, lines and documents."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_up import made_answer, made_group, published
from rich.console import Console
from samples import result

from attnexp.analysis.answer import Answer, compare
from attnexp.analysis.metrics import ACCURACY
from attnexp.analysis.read_results import read_results
from attnexp.base.errors import UserError
from attnexp.report import TableName, cells, formats, tables
from attnexp.report.difference_tables import tabulate_differences
from attnexp.report.tables import make_table
from attnexp.report.terminal import show_answer
from attnexp.runs import predictions, store
from attnexp.statistics.verdict import MetricSpec

GOLDEN = Path(__file__).parent / "golden"


def printed(answer: Answer) -> str:
    file = io.StringIO()
    show_answer(answer, Console(file=file, width=80, markup=False, highlight=False))
    return file.getvalue()


def test_the_golden_study() -> None:
    """`attnexp report outputs/published/contrast` as JSON and as markdown."""
    answer = published("contrast")
    text = json.dumps(formats.make_document(answer))
    rounded = json.loads(text, parse_float=lambda number: round(float(number), 9))
    assert rounded == json.loads((GOLDEN / "contrast.json").read_text())
    text = formats.format_answer(answer, None, "markdown")
    assert text == (GOLDEN / "contrast.md").read_text().strip()


LINES = {"blog": 34, "position": 50, "blog_data": 52, "position_x_embedding": 80}


@pytest.mark.parametrize(("study", "most"), LINES.items())
def test_an_answer_fits_a_screen(study: str, most: int) -> None:
    assert len(printed(published(study)).splitlines()) <= most


def test_of_many_contrasts_the_means_over_data_sets_come_first_then_what_is_decided() -> None:
    text = printed(published("position_x_embedding"))
    means, _, listed = text.partition("\nDifference")
    assert "Mean difference from none over 6 to 7 data sets" in means
    assert re.search(r"emotion +pe within +(plain +)?-8.56.*hurts", listed)
    assert "78 of 84 differences at final are not decided." in listed
    assert "undecided" not in listed


def test_intervals_end_where_a_difference_can_be_no_larger() -> None:
    frame = pd.DataFrame({"variant": [*"abab"], "seed": [*"0011"]})
    frame["accuracy"] = [0.4, 0.5, 0.5, 0.7]
    (row,) = compare(*read_results(frame)).differences
    wide = replace(row, interval=row.interval._replace(low=-1.5))
    assert list(tabulate_differences([wide]).cells["other seeds"]) == ["[-100.00, +78.53]"]
    assert cells.size_of(wide) == "+15.00 [-100.00, +78.53]"


def test_what_all_variants_share_is_said_without_what_is_not_there() -> None:
    answer = published("blog")
    _, _, shared = printed(answer).partition("All variants: ")
    words = {"max_len=80", "d_model=128", "heads=8", "lr=0.001"}
    absent = {"score.scale=false", "vectors=null", "warmup=0"}
    assert words <= {*shared.split()}
    assert not absent & {*shared.split()}
    assert words | absent <= {*formats.format_answer(answer, "study", "markdown").split()}
    assert "max_len" not in printed(published("blog_data")).partition("All variants: ")[2]


def test_k_stands_beside_variants_that_k_trained_alone() -> None:
    assert "K final" in tables.tabulate_means(published("blog")).cells
    for study in ("position", "blog_scaled"):
        assert "K final" not in tables.tabulate_means(published(study)).cells


def test_every_endpoint_of_a_holdout_run_names_its_split() -> None:
    answer = published("blog_holdout")
    labels = ["chosen (test)", "final (validation)"]
    assert list(tables.tabulate_means(answer).cells) == ["variant", *labels]
    assert list(tabulate_differences(answer.differences).cells["at"]) == labels
    records = formats.make_document(answer)["endpoints"]
    splits = {(record["point"], record["split"]) for record in records}
    assert splits == {("chosen", "test"), ("final", "validation")}


def test_the_title_has_the_metric_and_its_margin() -> None:
    frame = pd.DataFrame({"variant": [*"ab"] * 4, "seed": [*"00112233"]})
    frame["accuracy"] = frame["loss"] = [0.5, 0.6, 0.6, 0.5] * 2
    table = tabulate_differences(compare(*read_results(frame)).differences)
    assert table.title == "Difference from a in points, margin ±0.25, 95 % intervals"
    table = tabulate_differences(compare(*read_results(frame, "loss", margin=0.01)).differences)
    assert table.title == "Difference in loss from a, margin ±0.01, 95 % intervals"


def test_seeds_wanted_are_two_numbers_whose_meaning_is_said() -> None:
    answer = published("blog_data")
    words = [row.words for row in answer.differences]
    assert "undecided, 31 to 1,218 seeds" in words
    assert "undecided, at most 88 seeds" in words
    assert "A to B seeds: " in printed(answer)
    assert "A to B seeds: " not in printed(published("blog"))


def test_n_is_a_column_where_variants_differ_in_seeds() -> None:
    group = made_group("none", "pe", "rotary", seeds=5)
    is_kept = (group.endpoints["variant"] != "pe") | (group.endpoints["seed"] != "0")
    answer = made_answer(replace(group, endpoints=group.endpoints[is_kept]))
    assert list(tables.tabulate_means(answer).cells["n"]) == ["5", "4", "5"]
    assert list(tabulate_differences(answer.differences).cells["n"]) == ["4", "5"]


def test_numbers_have_two_decimals_in_per_cent_and_four_digits_else() -> None:
    loss = MetricSpec(name="loss", is_share=False)
    per_cent = MetricSpec(is_share=False, is_percent=True)
    assert cells.format_number(0.51349, loss) == "0.5135"
    assert cells.format_number(12.345678, loss) == "12.35"
    assert cells.format_number(81.5, per_cent) == "81.50"
    assert cells.format_number(0.81584, ACCURACY) == "81.58"
    assert cells.format_number(np.nan, ACCURACY) == "–"


def test_classes_are_means_over_seeds_and_end_with_their_mean(tmp_path: Path) -> None:
    """Of one class predicted for all: precision is its share, recall 1; of the other both 0."""
    labels = np.repeat([0, 1, 1], 500)
    for seed, sign in enumerate((1, -1)):
        run = result("a", seed, [0.5])
        (tmp_path / str(seed)).mkdir()
        store.save_result(tmp_path / str(seed), run.result)
        arrays = {predictions.FINAL: np.full(1500, sign), predictions.VAL_LABELS: labels}
        predictions.save_arrays(tmp_path / str(seed) / predictions.FILE, arrays)
    runs = pd.DataFrame({"variant": "a", "folder": [*tmp_path.iterdir()]})
    answer = made_answer(made_group("a", runs=runs))
    assert tables.tabulate_classes(answer).cells.to_numpy().tolist() == [
        ["negative", "500", "16.67", "50.00", "25.00", "50.00", "50.00"],
        ["positive", "1,000", "33.33", "50.00", "40.00", "50.00", "50.00"],
        ["macro", "1,500", "25.00", "50.00", "32.50", "–", "–"],
    ]
    records = formats.make_document(answer, "classes")["classes"]
    macro_f1 = next(row for row in records if (row["class"], row["metric"]) == ("macro", "F1"))
    assert (macro_f1["n"], macro_f1["mean"]) == (2, pytest.approx(0.325))
    assert macro_f1["sd"] == pytest.approx(0.1060660)
    with pytest.raises(UserError, match="a folder of runs"):
        tables.tabulate_classes(made_answer(made_group("a")))


def test_two_protocols_stay_apart_in_every_table() -> None:
    both = published("blog", "blog_holdout")
    for table in (tables.tabulate_means(both), make_table("differences", both)):
        assert [*table.cells["protocol"].unique()] == ["blog", "holdout"]
    for tabulate in (tables.tabulate_epochs, tables.tabulate_metrics):
        frame = tabulate(both).cells
        alone = tabulate(published("blog")).cells
        rows = frame[frame["protocol"] == "blog"].reset_index(drop=True)
        pd.testing.assert_frame_equal(rows[alone.columns], alone, check_dtype=False)


def test_a_metric_that_only_some_results_have_is_a_dash_in_the_others() -> None:
    group = made_group("none", "pe")
    f1 = group.endpoints.assign(metric="f1", data="cr")
    other = made_group("none", "pe", data="cr")
    other = replace(other, endpoints=pd.concat([other.endpoints, f1]))
    frame = tables.tabulate_metrics(made_answer(group, other)).cells
    assert list(frame["f1"].where(frame["data"] == "imdb").dropna()) == ["–", "–"]
    assert "–" not in set(frame["accuracy"])


def test_latex_is_escaped_and_captioned() -> None:
    text = formats.format_answer(published("blog"), None, "latex")
    for part in (r"\toprule", r"\caption{Accuracy on imdb, \%", r"\label{tab:verdicts}", r"$\pm$",
                 r"no\_pe", "[+2.32, +2.73]", "K's run: 40 of 40"):  # fmt: skip
        assert part in text
    assert r"no\_pe" in formats.format_answer(published("blog"), "study", "latex")


def test_csv_holds_the_numbers_of_each_seed_and_of_the_json_document() -> None:
    answer = published("position_x_scale")
    text = formats.format_answer(answer, None, "csv")
    frame = pd.read_csv(io.StringIO(text), dtype={"seed": str})
    columns = ["variant", "seed", "point", "metric", "value"]
    expected = answer.groups[0].endpoints[columns]
    pd.testing.assert_frame_equal(frame[columns], expected, check_dtype=False)
    document = formats.make_document(answer)
    names: dict[TableName, str] = {"differences": "differences", "metrics": "endpoints"}
    for name, key in names.items():
        frame = pd.read_csv(io.StringIO(formats.format_answer(answer, name, "csv")))
        assert list(frame) == list(document[key][0])
        means = [row["mean"] for row in document[key]]
        assert list(frame["mean"]) == pytest.approx(means, abs=1e-12)


def test_means_over_data_sets_are_in_every_format_and_have_the_next_ones_interval() -> None:
    answer = published("blog_data")
    for format, title in (("markdown", "Mean difference from no_pe over"), ("latex", "tab:across")):
        assert title in formats.format_answer(answer, None, format)
    text = formats.format_answer(answer, "across", "csv")
    row = pd.read_csv(io.StringIO(text)).iloc[0]
    assert row[["variant", "baseline", "point", "metric", "n"]].to_list() == [
        "pe", "no_pe", "final", "accuracy", 6
    ]  # fmt: skip
    assert row["next_low"] < row["low"] < row["mean"] < row["high"] < row["next_high"]


def test_json_has_null_where_there_is_no_number() -> None:
    frame = pd.DataFrame({"variant": list("ab"), "seed": 0, "accuracy": [0.5, 0.6]})
    document = formats.make_document(compare(*read_results(frame)))
    (row,) = json.loads(json.dumps(document, allow_nan=False))["differences"]
    empty = ("sd", "low", "high", "texts_low", "p", "within", "seeds_at_most")
    assert [row[key] for key in empty] == [None] * len(empty)
    assert (row["n"], row["mean"], row["verdict"]) == (1, pytest.approx(0.1), "too few seeds")


def test_a_run_alone_is_one_seed_and_its_table_does_not_repeat_its_name() -> None:
    answer = made_answer(made_group("pe", seeds=1))
    assert tables.tabulate_means(answer).title == "Accuracy on imdb, %, one seed, validated on test"
    assert list(tables.tabulate_epochs(answer).cells) == ["epoch", "val_accuracy", "val_loss"]


def test_missing_seeds_and_notes_are_said() -> None:
    (group,) = published("contrast").groups
    plan = {name: [*seeds, "99"] for name, seeds in group.planned.items()}
    text = printed(made_answer(replace(group, planned=plan, notes=["Left out: 3 rows."])))
    assert "Missing: pe, 1 of 7 planned (seed 99)." in text
    assert "Left out: 3 rows." in text
    line = "A difference leaves out seeds that one of its variants lacks; means do not."
    assert line not in text
    rows = group.endpoints[(group.endpoints["seed"] != "0") | (group.endpoints["variant"] == "pe")]
    assert line in printed(made_answer(replace(group, endpoints=rows)))
