"""The answer in words: one golden study, and properties of tables, lines and documents."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up import made_group
from rich.console import Console
from samples import result

from attnexp.analysis.contrasts import differences, within
from attnexp.analysis.frames import Group, load
from attnexp.analysis.judge import metrics_of, read_results
from attnexp.base.errors import UserError
from attnexp.report import formats, tables, terminal
from attnexp.runs import predictions, store
from attnexp.statistics.verdict import Metric

PUBLISHED = Path(__file__).parents[2] / "outputs" / "published"
GOLDEN = Path(__file__).parent / "golden"
STUDIES = sorted(file.stem for file in PUBLISHED.glob("*.parquet") if ".probe" not in file.name)


def printed(groups: list[Group], metric: Metric | None = None) -> str:
    console = Console(file=io.StringIO(), width=80, markup=False, highlight=False)
    terminal.show_answer(groups, [metric or Metric()], console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def rounded(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: rounded(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [rounded(value) for value in tree]
    return round(tree, 9) if isinstance(tree, float) else tree


def test_the_golden_study() -> None:
    """`attnexp report outputs/published/contrast` as JSON and as markdown."""
    groups = load([PUBLISHED / "contrast"])
    document = rounded(formats.document(groups, [Metric()]))
    assert document == json.loads((GOLDEN / "contrast.json").read_text())
    text = formats.text(groups, [Metric()], "markdown")
    assert text == (GOLDEN / "contrast.md").read_text().strip()


@pytest.mark.parametrize(
    ("studies", "most"),
    [(["blog"], 30), (["position"], 60), (["blog_data"], 60), (["blog_data", "blog"], 60)],
)
def test_an_answer_fits_a_screen(studies: list[str], most: int) -> None:
    text = printed(load([PUBLISHED / name for name in studies]))
    assert len(text.splitlines()) <= most


@pytest.mark.parametrize("study", STUDIES)
def test_tables_fit_80_columns_and_say_every_verdict_once(study: str) -> None:
    groups = load([PUBLISHED / study])
    text = printed(groups)
    lines = [
        line for line in text.splitlines() if not line.startswith(("best:", "K's run", "Miss"))
    ]
    rows = [line for line in lines if re.search(r"[+-]\d+\.\d\d  ?\s*\[", line)]
    assert max(map(len, rows), default=0) <= 80
    found = pd.concat(map(differences, groups))
    if len({group.data for group in groups}) > 1:  # at the deciding endpoint
        found = found[found["point"] == groups[0].points[0]]
    assert sum("[" in line for line in rows) >= len(found)


def test_the_answer_has_table_curve_verdict_and_ks_run() -> None:
    text = printed(load([PUBLISHED / "blog"]))
    assert text.startswith("Accuracy on imdb, %, mean ± sd over 40 seeds, validated on test\n")
    assert re.search(r"pe +81.58 ± 0.62 +84.17 ± 0.54 +81.78 +84.47", text)
    assert re.search(
        r"final +pe +\+2.53 +\[\+2.32, \+2.73\] +\[\+2.18, \+2.87\] +helps by at least", text
    )
    assert "equivalent on these texts" in text
    assert "40 of 40 values within the interval of one more seed (ours: 32 to 40)" in text
    assert "best: the epoch that is best on average over seeds (no_pe 1, pe 2)." in text
    assert "a no_pe   b pe   capitals: K's run" in text


WIDE = """
data  at     difference   mean  verdict
imdb  final  pe          +1.00  helps
imdb  final  alibi       -0.20  undecided, ~46 seeds
cr    best   pe          +3.00  hurts"""
NARROW = """
data at    difference  mean verdict
imdb final pe         +1.00 helps
imdb final alibi      -0.20 undecided, ~46 seeds
cr   best  pe         +3.00 hurts"""
HEADINGS = """
difference     mean  verdict
imdb, final
  pe          +1.00  helps
  alibi       -0.20  undecided, ~46 seeds
cr, best, pe  +3.00  hurts"""
NARROW_HEADINGS = """
difference    mean  verdict
imdb, final
  pe         +1.00  helps
  alibi      -0.20  undecided, ~46 seeds
cr, best
  pe         +3.00  hurts"""


@pytest.mark.parametrize(
    ("widths", "text"),
    [((80, 52), WIDE), ((51, 48), NARROW), ((47, 42), HEADINGS), ((41, 40), NARROW_HEADINGS)],
)
def test_a_table_too_wide_has_headings_in_place_of_columns(
    widths: tuple[int, int], text: str
) -> None:
    header, *rows = [re.split(r" \s*(?!seeds|~)", line) for line in WIDE.splitlines()[1:]]
    for width in widths:
        console = Console(file=io.StringIO(), width=width)
        terminal.print_table(("Title", pd.DataFrame(rows, columns=header)), console)
        title, *lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        shown = [line.rstrip() for line in lines if not line.startswith("─")]
        assert (title, shown) == ("Title", [*text.splitlines()[1:], ""])


def test_a_verdict_wraps_before_a_name_does() -> None:
    row = {"difference": "position=sinusoidal", "mean": "+2.53", "verdict": "no verdict of these"}
    for width, is_whole in ((45, True), (38, True), (33, False)):
        console = Console(file=io.StringIO(), width=width)
        terminal.print_table(("Title", pd.DataFrame([row])), console)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert (row["difference"] in text, row["verdict"] in text) == (is_whole, width == 45)


def test_names_verdicts_and_sizes_of_differences() -> None:
    (group,) = load([PUBLISHED / "blog"])
    said = (tables.name_of, tables.verdict_words, tables.size_of)
    assert [[say(row) for say in said] for _, row in differences(group).iterrows()] == [
        ["pe − no_pe, final", "helps by at least 0.25", "+2.53 [+2.32, +2.73]"],
        ["pe − no_pe, best", "equivalent on these texts", "-0.05 [-0.23, +0.12]"],
    ]
    (group,) = load([PUBLISHED / "position_x_scale"])
    rows = within(group)
    first, interaction = tables.name_of(rows.iloc[0]), tables.name_of(rows.iloc[-1])
    assert first == "pe_scaled − none_scaled within scaled, final"
    assert interaction == "(pe_unscaled − none_unscaled) − (pe_scaled − none_scaled), best"
    judged = pd.Series(rows.iloc[0].to_dict() | {"within": "", "point": "result", "metric": "f1"})
    assert tables.name_of(judged) == "pe_scaled − none_scaled, f1"


def test_the_margin_of_every_open_metric_is_said() -> None:
    frame = pd.DataFrame({"variant": [*"ab"] * 4, "seed": [*"00112233"]})
    frame["accuracy"] = [0.5, 0.6, 0.6, 0.5, 0.5, 0.6, 0.6, 0.5]
    groups = read_results(frame.assign(loss=frame["accuracy"]))
    metrics = [*metrics_of(groups, [], ["loss"], ["loss=0.01"])]
    one, other = terminal.remarks(groups, differences(groups[0], metrics))
    assert one.endswith("the interval to ±0.25.")
    assert other.endswith("the interval to ±0.01 of loss.")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"verdict": "helps", "low": 0.003, "high": 0.01}, "helps by at least 0.25"),
        ({"verdict": "helps", "low": 0.001, "high": 0.01}, "helps"),
        ({"verdict": "hurts", "low": -0.01, "high": -0.003}, "hurts by at least 0.25"),
        ({"verdict": "undecided", "low": -0.01, "high": 0.01}, "undecided, ~46 seeds"),
        ({"verdict": "undecided", "low": -0.01, "high": 0.01, "n": 60}, "undecided"),
        (
            {"verdict": "", "low": 0, "high": 1, "reason": "2 of 9 seeds finished"},
            "2 of 9 seeds finished",
        ),
    ],
)
def test_words_of_a_verdict(row: dict[str, Any], words: str) -> None:
    usual = {"margin": 0.0025, "is_share": True, "seeds_wanted": 46, "n": 10, "reason": ""}
    assert tables.verdict_words(pd.Series(usual | row)) == words


@pytest.mark.parametrize(
    ("value", "share", "text"),
    [(0.81584, True, "81.58"), (0.51349, False, "0.5135"), (12.345678, False, "12.35"),
     (float("nan"), True, "–")],
)  # fmt: skip
def test_numbers(value: float, share: bool, text: str) -> None:
    assert tables.number(value, share) == text


@pytest.mark.parametrize("name", [name for name in tables.TABLES if name != "classes"])
def test_every_table_of_every_kind_of_study_has_texts_alone(name: str) -> None:
    study = {"across": "position_x_embedding", "within": "position_x_scale"}.get(name, "blog")
    _, frame = tables.TABLES[name](load([PUBLISHED / study]), [Metric()])
    assert len(frame)
    assert frame.map(lambda cell: isinstance(cell, str)).all(axis=None)


def test_classes_are_means_over_seeds_and_end_with_their_mean(tmp_path: Path) -> None:
    """Of one class predicted for all: precision is its share, recall 1; of the other both 0."""
    labels = np.repeat([0, 1, 1], 500)
    for seed, sign in enumerate((1, -1)):
        run = result("a", seed, [0.5])
        (tmp_path / str(seed)).mkdir()
        store.save_result(tmp_path / str(seed), run.result)
        arrays = {predictions.FINAL: np.full(1500, sign), predictions.VAL_LABELS: labels}
        predictions.save_arrays(tmp_path / str(seed) / predictions.FILE, arrays)
    group = made_group("a", runs=pd.DataFrame({"variant": "a", "folder": [*tmp_path.iterdir()]}))
    _, frame = tables.classes([group], [])
    assert frame.to_numpy().tolist() == [
        ["negative", "16.67 ± 23.57", "50.00 ± 70.71", "25.00 ± 35.36", "500"],
        ["positive", "33.33 ± 47.14", "50.00 ± 70.71", "40.00 ± 56.57", "1,000"],
        ["macro", "25.00 ± 11.79", "50.00 ± 0.00", "32.50 ± 10.61", "1,500"],
    ]
    with pytest.raises(UserError, match="a folder of runs"):
        tables.classes([made_group("a")], [])


def test_epochs_are_means_over_seeds_with_ks_run_below() -> None:
    _, frame = tables.epochs(load([PUBLISHED / "blog"]), [])
    last = frame.set_index(["variant", "epoch"])["val_accuracy"]
    assert (last["pe", "5"], last["pe, K", "5"]) == ("81.58 ± 0.62", "81.78")


def test_two_protocols_stay_apart_in_every_table() -> None:
    groups = load([PUBLISHED / name for name in ("blog", "blog_holdout")])
    for made in (tables.accuracy, tables.differences):
        assert [*made(groups, [Metric()])[1]["protocol"].unique()] == ["blog", "holdout"]
    for name in ("epochs", "metrics"):
        _, frame = tables.TABLES[name](groups, [])
        _, alone = tables.TABLES[name](groups[:1], [])
        own = frame[frame["protocol"] == "blog"].reset_index(drop=True)
        pd.testing.assert_frame_equal(own[alone.columns], alone, check_dtype=False)


def test_latex_is_escaped_and_captioned() -> None:
    text = formats.text(load([PUBLISHED / "blog"]), [Metric()], "latex")
    for part in (r"\toprule", r"\caption{Accuracy on imdb, \%", r"\label{tab:verdicts}", r"$\pm$",
                 r"no\_pe", "[+2.32, +2.73]"):  # fmt: skip
        assert part in text


def test_csv_is_the_long_frame() -> None:
    groups = load([PUBLISHED / "blog"])
    frame = pd.read_csv(io.StringIO(formats.text(groups, [Metric()], "csv")), dtype={"seed": str})
    columns = ["variant", "seed", "point", "metric", "value"]
    pd.testing.assert_frame_equal(frame[columns], groups[0].endpoints[columns], check_dtype=False)


def test_json_has_null_where_there_is_no_number() -> None:
    frame = pd.DataFrame({"variant": list("ab"), "seed": 0, "accuracy": [0.5, 0.6]})
    groups = read_results(frame)
    metrics = [*metrics_of(groups, [], [], [])]
    document = formats.document(groups, metrics)
    (found,) = json.loads(json.dumps(document, allow_nan=False))["differences"]
    assert [found[key] for key in ("sd", "low", "high", "texts_low", "p", "within")] == [None] * 6
    assert (found["n"], found["mean"], found["verdict"]) == (1, pytest.approx(0.1), "too few seeds")


def test_a_run_alone_is_one_seed_and_its_table_does_not_repeat_its_name() -> None:
    groups = [made_group("pe", seeds=1)]
    title, _ = tables.accuracy(groups, [Metric()])
    assert title == "Accuracy on imdb, %, one seed, validated on test"
    assert [*tables.metrics(groups, [])[1].columns][:2] == ["at", "accuracy"]


def test_missing_seeds_and_notes_are_said() -> None:
    (group,) = load([PUBLISHED / "contrast"])
    plan = {name: [*seeds, "99"] for name, seeds in group.planned.items()}
    text = printed([replace(group, planned=plan, notes=["Left out: 3 rows."])])
    assert "Missing: pe, 1 of 7 planned seeds." in text
    assert "Left out: 3 rows." in text
    line = "A difference leaves out seeds that one of its variants lacks; means do not."
    assert line not in text
    rows = group.endpoints[(group.endpoints["seed"] != "0") | (group.endpoints["variant"] == "pe")]
    assert line in printed([replace(group, endpoints=rows)])


def test_a_curve_has_ten_lines_and_a_mark_for_every_variant() -> None:
    """And K's run has marks only where it has values: at (0, 0) they would flatten the rest."""
    console = Console(file=io.StringIO(), width=80)
    (group,) = load([PUBLISHED / "position"])
    picture = terminal.curve(group, console)
    lines = picture.plain.strip("\n").splitlines()
    assert (len(lines), lines[1][:4]) == (13, "84.5")
    assert lines[8].startswith("79.2")
    assert max(map(len, lines[1:11])) <= 80
    assert lines[-2].startswith("a none   b sinusoidal   c concat")
    assert lines[-1].endswith("capitals: K's run   first 6 of 9")
