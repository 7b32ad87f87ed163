"""Tables: the right numbers, in every format, within 80 columns."""

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from attnexp.compose import compose
from attnexp.config import to_dict
from attnexp.report import kexue, tables
from attnexp.report.comparison import Comparison, compare
from attnexp.runs import SCHEMA, EpochRow, Evaluation, RunResult


def row(epoch: int, accuracy: float) -> EpochRow:
    return EpochRow(epoch=epoch, train_loss=0.4, train_accuracy=0.8, train_loss_after=0.3,
                    train_accuracy_after=0.9, val_loss=0.35, val_accuracy=accuracy, val_brier=0.1,
                    val_ece=0.05, seconds=1.0,
                    examples_per_second=1.0)  # fmt: skip


def result(label: str, order: int, seed: int, accuracies: list[float], *words: str) -> RunResult:
    config = compose([f"seed={seed}", f"train.epochs={len(accuracies)}", *words])
    rows = [row(epoch, accuracy) for epoch, accuracy in enumerate(accuracies, start=1)]
    return RunResult(
        schema=SCHEMA, run_id=f"{label}{seed}{words}", label=label, order=order, seed=seed,
        config=to_dict(config), parameters=2_609_281, flops_per_example=1, epochs=rows,
        data={"name": str(config.data.name), "fingerprint": "f", "n_val": 9, "n_test": 9},
        best=max(rows, key=lambda row: row.val_accuracy), final=rows[-1],
        test=Evaluation(loss=0.35, accuracy=accuracies[-1], brier=0.1, ece=0.05, n=9),
        wall_seconds=1.0, peak_rss_bytes=1, provenance={},
    )  # fmt: skip


def blog(*words: str) -> list[RunResult]:
    results = []
    for seed in range(3):
        base = 0.84 + seed / 1000
        results.append(result("no_pe", 0, seed, [base, 0.83, 0.82, 0.81, 0.79], *words))
        pe = ["position=sinusoidal", *words]
        results.append(result("pe", 1, seed, [base - 0.001, base + 0.002, 0.83, 0.82, 0.8], *pe))
    return results


def only(comparisons: list[Comparison]) -> Comparison:
    (comparison,) = comparisons
    return comparison


def shown(results: list[RunResult]) -> str:
    console = Console(file=io.StringIO(), width=80)
    tables.show(compare(results), console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_peak_final_and_their_paired_differences_by_hand() -> None:
    comparison = only(compare(blog()))
    no_pe, pe = comparison.variants
    assert no_pe.peak.mean == pytest.approx(0.841)
    assert no_pe.peak.sd == pytest.approx(0.001)
    assert (no_pe.peak_epochs, pe.peak_epochs) == ([1, 1, 1], [2, 2, 2])
    assert pe.final.mean == pytest.approx(0.80)
    difference = comparison.differences["pe"]
    assert difference["peak"].by_seed == pytest.approx({0: 0.002, 1: 0.002, 2: 0.002})
    assert difference["final"].difference.mean == pytest.approx(0.01)


def test_ks_figures_stand_beside_ks_experiment_only() -> None:
    no_pe, pe = only(compare(blog())).variants
    assert [epoch.k for epoch in no_pe.epochs] == kexue.FIGURES[no_pe_kind(no_pe.label)]
    assert (pe.k_peak, pe.k_final) == (0.8447, 0.8178)
    others = (
        *(["model.heads=4"], ["position=learned"], ["position=rotary"], ["data=contrast"]),
        *(["train=holdout"], ["mask=padding"], ["data.limit_train=100"]),
    )
    for words in others:
        for variant in only(compare(blog(*words))).variants:
            assert variant.k_peak is None
            assert all(epoch.k is None for epoch in variant.epochs)


def no_pe_kind(label: str) -> Any:
    return {"no_pe": "none", "pe": "sinusoidal"}[label]


def test_synthetic_data_are_named_and_their_ceiling_shown() -> None:
    text = shown(blog("data=contrast", "data.order_fraction=0.5"))
    assert "contrast (synthetic)" in text
    assert "75.00" in text
    assert " K" not in text


@pytest.mark.parametrize("words", [[], ["data=contrast"], ["train=holdout"]])
def test_tables_fit_80_columns_and_lose_nothing(words: list[str]) -> None:
    text = shown([replace(r, epochs=[replace(e, train_accuracy=1.0, val_accuracy=1.0)
                                     for e in r.epochs]) for r in blog(*words)])  # fmt: skip
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "100.00 ± 0.00" in text


def test_tables_say_how_validation_was_done() -> None:
    assert "validated on test" in shown(blog())
    text = shown(blog("train=holdout"))
    assert "validated on held-out" in text
    assert "validated on test" not in text
    assert "test: once" in text


def test_one_run_shows_no_spread_and_no_difference() -> None:
    text = shown(blog()[:1])
    assert "±" not in text.replace("mean ± standard deviation", "")
    assert "−" not in text


def test_markdown_has_the_same_cells() -> None:
    comparison = only(compare(blog()))
    text = tables.markdown([comparison])
    for table in tables.tables(comparison):
        for cells in table.rows:
            assert "| " + " | ".join(cells) + " |" in text


def test_csv_and_json_hold_full_precision() -> None:
    comparison = only(compare(blog()))
    rows = list(csv.DictReader(io.StringIO(tables.as_csv([comparison]))))
    (found,) = [r for r in rows if (r["variant"], r["metric"]) == ("pe", "peak_val_accuracy")]
    assert float(found["mean"]) == comparison.variants[1].peak.mean
    assert (found["n"], found["k"]) == ("3", "0.8447")
    tree = json.loads(tables.as_json([comparison]))
    assert tree[0]["variants"][0]["peak"]["mean"] == comparison.variants[0].peak.mean


def test_results_that_must_not_be_compared_get_tables_of_their_own() -> None:
    comparisons = compare([*blog(), *blog("train=holdout")])
    assert [comparison.protocol for comparison in comparisons] == ["blog", "holdout"]


def test_one_label_with_two_meanings_is_told_apart() -> None:
    results = [result("a", 0, 0, [0.8]), result("a", 0, 1, [0.8], "model.heads=4")]
    labels = [variant.label for variant in only(compare(results)).variants]
    assert labels == ["a model.heads=8", "a model.heads=4"]


def test_variants_without_a_common_seed_are_not_subtracted() -> None:
    text = shown([result("a", 0, 0, [0.8]), result("b", 1, 1, [0.9], "model.heads=4")])
    assert "share no seed" in text
