"""`report --table NAME`: one table alone, in every format, and what LaTeX makes of its cells."""

import csv
import io
from pathlib import Path

import pytest
from conftest import ROOT, Refused
from samples import MORE, crossed_runs, exit_code, only, result

from attnexp.analysis.comparison import compare
from attnexp.base.errors import UserError
from attnexp.report import formats, latex, tables

PUBLISHED = ROOT / "outputs" / "published" / "contrast"


def test_a_table_of_each_name_is_one_of_those_that_a_report_prints(tmp_path: Path) -> None:
    comparison = only(crossed_runs(tmp_path, more=MORE))
    printed = [table.title for table in tables.tables(comparison)]
    named = [
        table.title
        for name in ("epochs", "accuracy", "probabilities", "statistics", "within", "interactions")
        for table in tables.tables_named(name, [comparison])
    ]
    assert named == printed
    absent = "--table {}: these runs have no table of this name. Take epochs, accuracy, "
    for name in ("published", "none_at_all"):
        with pytest.raises(UserError, match=absent.format(name)):
            tables.tables_named(name, [comparison])


def test_differences_are_a_line_each_with_numbers_at_full_precision(tmp_path: Path) -> None:
    comparison = only(crossed_runs(tmp_path, more=MORE))
    found = tables.tables_named("differences", [comparison])
    (table,) = found
    assert table.columns == [
        *("variant", "n", "endpoint", "difference", "95 % interval", "verdict"),
    ]
    assert table.rows[0] == ["none_unscaled", "6", "final", "-1.25", "[-1.45, -1.05]", "hurts"]
    assert len(table.rows) == 3 * 2
    rows = csv.DictReader(io.StringIO(formats.tables_as_csv(found)))
    for row in rows:
        difference = comparison.differences[row["variant"]][row["endpoint"]]
        pair = difference.metrics["accuracy"]
        assert float(row["difference"]) == pair.difference.mean
        assert (float(row["low"]), float(row["high"])) == (pair.low, pair.high)
        assert row["verdict"] == difference.judgements["accuracy"].verdict
    assert "& $-1.25$ & $[-1.45, -1.05]$ & hurts" in latex.latex_tables(found)


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["table"], "\nDifferences from no_pe on contrast (synthetic), validated on test\n"),
        (["markdown"], "**Differences from no_pe on contrast (synthetic), validated on test**"),
        (["csv"], "data,protocol,variant,baseline,n,endpoint,metric,difference,low,high,"),
        (["json"], "{"),
        (["latex"], latex.PACKAGES),
    ],
)
def test_a_command_prints_it(
    capsys: pytest.CaptureFixture[str], words: list[str], start: str
) -> None:
    assert exit_code("report", PUBLISHED, "--table", "differences", "--format", *words) == 0
    assert capsys.readouterr().out.startswith(start)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["variance"], "--table variance: these runs have no table of this name. Take epochs,"),
        (["epochs", "--html", "a.html"], "--table epochs prints a table. Leave out --html."),
        (["epochs", "--figure", "a.svg"], "--table epochs prints a table. Leave out --figure."),
        (["epochs", "--across", "data"], "--table epochs prints a table. Leave out --across."),
        (["epochs", "--format", "csv"], "Use --table differences"),
    ],
)
def test_what_does_not_go_is_refused(refused: Refused, words: list[str], message: str) -> None:
    assert message in refused("report", str(PUBLISHED), "--table", *words)


def test_help_has_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("report", "--help") == 0
    text = capsys.readouterr().out
    assert [name for name in tables.TABLES if name not in text] == []


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("-0.35", "$-0.35$"),
        ("[-0.70, +0.10]", "$[-0.70, +0.10]$"),
        ("+1.40 [+0.90, +1.90]", "$+1.40$ $[+0.90, +1.90]$"),
        (".4484 ± .0044", r"$.4484 \pm .0044$"),
        ("within ±0.25, 95 %", r"within $\pm0.25$, 95 \%"),
        ("(least 3e-05)", r"(least $3 \times 10^{-5}$)"),
        ("pe − none", "pe $-$ none"),
        ("[CLS] *", "{[}CLS] {*}"),
        ("gpt-2 seed_-1 train.lr=-1e-3 2020-01-01", r"gpt-2 seed\_-1 train.lr=-1e-3 2020-01-01"),
    ],
)
def test_numbers_are_math_in_latex_and_names_are_not(text: str, written: str) -> None:
    assert latex.escaped(text) == written


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("<none>_2", r"\<none>_2"),
        ("a|b `c` *d*", r"a\|b \`c\` \*d\*"),
        ("$x$ 50 % p < 0.05 [+0.10, +0.20]", r"\$x\$ 50 % p < 0.05 [+0.10, +0.20]"),
    ],
)
def test_names_are_text_in_markdown(name: str, written: str) -> None:
    (comparison,) = compare([result(label, 0, [0.8]) for label in ("none", name)])
    text = formats.markdown([comparison])
    assert f"\n| {written} − none |" in text
    assert f"\n- {written} against none, final: **" in text
    assert f"**{written}: 1 run on imdb" in text
