"""Tables: the right numbers, in every format, within 80 columns."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import but, only, printed, result

from attnexp.analysis import published
from attnexp.analysis.comparison import compare
from attnexp.report import tables
from attnexp.runs import predictions, store
from attnexp.runs.points import FIGURES
from attnexp.runs.result import Evaluation, Run
from attnexp.statistics.verdict import Verdict


def blog(*words: str) -> list[Run]:
    results = []
    for seed in range(3):
        base = 0.84 + seed / 1000
        results.append(result("no_pe", seed, [base, 0.83, 0.82, 0.81, 0.79], *words))
        pe = ["position=sinusoidal", *words]
        results.append(result("pe", seed, [base - 0.001, base + 0.002, 0.83, 0.82, 0.8], *pe))
    return results


def test_peak_final_and_their_paired_differences_by_hand() -> None:
    comparison = only(blog())
    no_pe, pe = comparison.variants
    assert no_pe.means["peak"]["accuracy"].mean == pytest.approx(0.841)
    assert no_pe.means["peak"]["accuracy"].sd == pytest.approx(0.001)
    assert no_pe.means["final"]["gap"].mean == pytest.approx(0.9 - 0.79)
    assert (no_pe.best_epochs, pe.best_epochs) == ([1, 1, 1], [2, 2, 2])
    assert pe.epochs == [1, 2, 3, 4, 5]
    assert pe.means["final"]["accuracy"].mean == pytest.approx(0.80)
    found = comparison.differences["pe"]
    peak = found["peak"].metrics["accuracy"]
    assert peak.by_seed == pytest.approx({"0": 0.002, "1": 0.002, "2": 0.002})
    assert found["final"].metrics["accuracy"].difference.mean == pytest.approx(0.01)
    assert set(found["final"].metrics) == set(FIGURES)


def test_points_are_declared_by_protocol() -> None:
    """blog: peak and final on test. holdout: test once at the chosen epoch, then held-out."""
    assert list(only(blog()).points) == ["peak", "final"]
    held_out = only([
        but(r, test=Evaluation(
            loss=0.3, accuracy=0.5 + r.result.seed / 10, brier=0.1, ece=0.1, n=9))
        for r in blog("train=holdout")
    ])  # fmt: skip
    assert list(held_out.points) == ["chosen", "final"]
    assert held_out.variants[0].means["chosen"]["accuracy"].mean == pytest.approx(0.6)
    assert held_out.variants[0].means["final"]["accuracy"].mean == pytest.approx(0.79)


def test_the_verdict_is_helps_where_every_seed_says_so_and_too_few_seeds_are_told() -> None:
    def results(num_seeds: int) -> list[Run]:
        found = []
        for seed in range(num_seeds):
            found.append(result("none", seed, [0.5]))
            found.append(result("pe", seed, [1.0], "position=sinusoidal"))
        return found

    enough = only(results(6)).differences["pe"]["final"]
    assert enough.judgements["accuracy"].verdict is Verdict.helps
    assert enough.metrics["accuracy"].p == 2 / 2**6
    few = only(results(3)).differences["pe"]["final"]
    assert few.judgements["accuracy"].verdict is Verdict.inconclusive
    assert "6 seeds" in few.judgements["accuracy"].line
    assert "helps" in printed(results(6))


def test_one_variant_under_two_names_is_no_difference() -> None:
    names = [result(name, seed, [0.8]) for seed in range(6) for name in "ab"]
    comparison = only(names)
    assert [variant.label for variant in comparison.variants] == ["a", "b"]
    assert comparison.differences["b"]["final"].judgements["accuracy"].verdict is Verdict.equivalent


def test_mcnemar_is_by_seed_on_the_stored_predictions(tmp_path: Path) -> None:
    """Of ten reviews pe alone has seven right and none alone one: p by hand."""
    labels = np.ones(10, np.uint8)
    right = {"no_pe": [1, 0, 0, 0, 0, 0, 0, 0, 1, 0], "pe": [0, 1, 1, 1, 1, 1, 1, 1, 1, 0]}
    results = blog()
    for i, run in enumerate(results[:2]):  # seed 0; the others have lost their predictions
        folder = tmp_path / run.label
        folder.mkdir()
        logits = np.array(right[run.label], np.float32) - 0.5
        stored = {predictions.BEST: logits, predictions.FINAL: logits}
        predictions.save(folder, {**stored, predictions.VAL_LABELS: labels})
        results[i] = replace(but(run, files=store.digests(folder)), path=folder)
    found = only(results).differences["pe"]["final"].mcnemar
    assert list(found) == ["0"]
    assert (found["0"].only_variant, found["0"].only_baseline) == (7, 1)
    assert found["0"].p == pytest.approx(2 * (1 + 8) / 2**8)


def test_seeds_apart_make_replicates_of_one_variant() -> None:
    results = [result("a", 0, [0.8], *words) for words in ([], ["seeds.init=1"], ["seeds.init=2"])]
    (variant,) = only(results).variants
    assert variant.seeds == ["0", "0-init1", "0-init2"]


def test_ks_figures_stand_beside_ks_experiment_only() -> None:
    no_pe, pe = only(blog()).variants
    assert [no_pe.published[epoch] for epoch in no_pe.epochs] == published.EPOCHS["none"]
    assert (pe.published["peak"], pe.published["final"]) == (
        {"accuracy": 0.8447},
        {"accuracy": 0.8178},
    )
    for variant in only(blog("model.heads=4")).variants:
        assert variant.published == {}


@pytest.mark.parametrize("words", [[], ["data=contrast"], ["train=holdout"]])
def test_tables_fit_80_columns_and_lose_nothing(words: list[str]) -> None:
    text = printed([but(r, epochs=[replace(e, train_accuracy=1.0, val_accuracy=1.0)
                                 for e in r.result.epochs]) for r in blog(*words)])  # fmt: skip
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "100.00 ± 0.00" in text


def test_one_run_shows_no_spread_and_no_difference() -> None:
    text = printed(blog()[:1])
    assert "±" not in text.replace("mean ± standard deviation", "")
    assert "−" not in text


def test_results_that_must_not_be_compared_get_tables_of_their_own() -> None:
    comparisons = compare([*blog(), *blog("train=holdout")])
    assert [comparison.protocol for comparison in comparisons] == ["blog", "holdout"]


def test_runs_of_no_study_are_named_by_the_settings_that_differ_the_default_first() -> None:
    runs = [
        replace(result("", seed, [0.8], *words), path=Path(f"{seed}"))
        for seed in range(2)
        for words in (["position=sinusoidal", "model.heads=4"], ["model.heads=4"], [])
    ]
    assert [(variant.label, variant.seeds) for variant in only(runs).variants] == [
        ("model.heads=8 position=none", ["0", "1"]),
        ("model.heads=4 position=none", ["0", "1"]),
        ("model.heads=4 position=sinusoidal", ["0", "1"]),
    ]
    (alone,) = only(runs[2::3]).variants
    assert alone.label == "imdb attention none"
    (of_files,) = only([result("", 0, [0.8], "data=files", "data.path=my/trec.csv")]).variants
    assert of_files.label == "trec.csv attention none"


def test_runs_of_one_variant_from_different_code_are_kept_apart_and_it_is_said() -> None:
    old, new = ({"attnexp.model.positions": digest} for digest in ("1", "2"))
    runs = [
        but(run, code=code, run_id=f"{i}-{code['attnexp.model.positions']}")
        for code, pair in ((old, slice(0, 2)), (new, slice(2, 6)))
        for i, run in enumerate(blog()[pair])
    ]
    comparison = only(runs)
    assert [(variant.label, variant.seeds) for variant in comparison.variants] == [
        ("no_pe code 1", ["0"]),
        ("pe code 1", ["0"]),
        ("no_pe code 2", ["1", "2"]),
        ("pe code 2", ["1", "2"]),
    ]
    assert comparison.differences["pe code 2"] == {}  # never held against the other code
    assert "model/positions.py changed between these runs" in printed(runs)
    assert not only(blog()).mixed


def test_runs_that_round_differently_are_compared_and_it_is_said() -> None:
    first, *rest = blog()
    provenance = first.result.provenance | {"numpy": "1.0"}
    runs = [but(first, provenance=provenance)]
    runs += [but(run, provenance=run.result.provenance | {"numpy": "2.0"}) for run in rest]
    (message,) = only(runs).mixed
    assert "numpy's version (1.0, 2.0)" in message


def test_one_label_with_two_meanings_is_told_apart() -> None:
    results = [result("a", 0, [0.8]), result("a", 1, [0.8], "model.heads=4")]
    labels = [variant.label for variant in only(results).variants]
    assert labels == ["a model.heads=8", "a model.heads=4"]


def test_variants_without_a_common_seed_are_not_subtracted() -> None:
    text = printed([result("a", 0, [0.8]), result("b", 1, [0.9], "model.heads=4")])
    assert "share no seed" in text


@pytest.mark.parametrize(
    ("size", "told"),
    [
        ({"parameters": 2_630_000}, ""),
        ({"parameters": 2_640_000}, "up to 1.2 % of its parameters and 0.0 % of its FLOPs"),
        ({"flops_per_example": 980_000}, "up to 0.0 % of its parameters and 2.0 % of its FLOPs"),
    ],
)
def test_variants_that_differ_in_size_say_so(size: dict[str, int], told: str) -> None:
    base: dict[str, Any] = {"flops_per_example": 1_000_000}
    found = [
        replace(one, result=replace(one.result, **base | (size if one.label == "pe" else {})))
        for one in blog()
    ]
    table = tables.summary(only(found))
    assert ("parameters" in table.columns) == ("FLOPs" in table.columns) == bool(told)
    assert bool(told) == any("Sizes differ" in note for note in table.notes)
    assert told in " ".join(table.notes)
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert max(map(len, printed(found).splitlines())) <= 80
