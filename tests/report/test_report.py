"""Tables: the right numbers, in every format, within 80 columns."""

import csv
import io
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from rich.console import Console
from samples import Parsed, but, exit_code, only, page, planned, printed, result

from attnexp.analysis.comparison import compare
from attnexp.analysis.metrics import OF_RUNS, choose_metrics
from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import flatten, to_dict
from attnexp.report import formats, tables
from attnexp.runs import manifest, predictions, store
from attnexp.runs.identity import default_label
from attnexp.runs.points import METRICS
from attnexp.runs.result import Run
from attnexp.statistics.verdict import Verdict


def blog(*words: str, seeds: int = 3) -> list[Run]:
    results = []
    for seed in range(seeds):
        base = 0.84 + seed / 1000
        results.append(result("no_pe", seed, [base, 0.83, 0.82, 0.81, 0.79], *words))
        pe = ["position=sinusoidal", *words]
        results.append(result("pe", seed, [base - 0.001, base + 0.002, 0.83, 0.82, 0.8], *pe))
    return results


def test_final_best_and_their_paired_differences_by_hand() -> None:
    comparison = only(blog())
    no_pe, pe = comparison.variants
    assert no_pe.means["best"]["accuracy"].mean == pytest.approx(0.841)
    assert no_pe.means["best"]["accuracy"].sd == pytest.approx(0.001)
    assert no_pe.means["final"]["gap"].mean == pytest.approx(0.9 - 0.79)
    assert (no_pe.best_epoch, pe.best_epoch) == (1, 2)
    assert pe.epochs == [1, 2, 3, 4, 5]
    assert pe.means["final"]["accuracy"].mean == pytest.approx(0.80)
    found = comparison.differences["pe"]
    best = found["best"].metrics["accuracy"]
    assert best.by_seed == pytest.approx({"0": 0.002, "1": 0.002, "2": 0.002})
    assert found["final"].metrics["accuracy"].difference.mean == pytest.approx(0.01)
    assert set(found["final"].metrics) == set(METRICS)


def test_the_best_epoch_is_the_same_for_all_seeds_of_a_variant() -> None:
    """Seed 0 is best in epoch 1, seed 1 in epoch 2; on average epoch 2 is."""
    runs = [result("a", 0, [0.80, 0.79, 0.70]), result("a", 1, [0.70, 0.82, 0.75])]
    runs += [result("b", seed, [0.6, 0.6, 0.5], "model.heads=4") for seed in range(2)]
    comparison = only(runs)
    assert [variant.best_epoch for variant in comparison.variants] == [2, 1]  # the first of equals
    by_seed = comparison.differences["b"]["best"].metrics["accuracy"].by_seed
    assert by_seed == pytest.approx({"0": 0.6 - 0.79, "1": 0.6 - 0.82})
    assert "best: one epoch for all seeds of a variant, the best on average" in printed(runs)
    assert "a 2, b 1." in " ".join(printed(runs).split())


def planned_study(folder: Path, num_finished: int) -> list[Run]:
    """Runs of a study of ten seeds, of which b finished only some and c none."""
    finished = [("a", seed) for seed in range(10)] + [("b", seed) for seed in range(num_finished)]
    runs = [
        replace(
            result(label, seed, [0.8 + 0.02 * (label == "b") + seed / 5000], *words),
            studies=(folder,),
        )
        for label, seed in finished
        for words in [["model.heads=4"] if label == "b" else []]
    ]
    entries = [(label, seed, f"{label}{seed}") for label in "abc" for seed in range(10)]
    manifest.record(folder, planned(*entries))
    return runs


def test_missing_seeds_stand_in_the_table_and_beside_the_verdict(tmp_path: Path) -> None:
    few = only(planned_study(tmp_path / "few", 3))
    assert few.missing == {"b": [*"3456789"], "c": [*"0123456789"]}
    judgement = few.differences["b"]["final"].judgements["accuracy"]
    assert judgement.verdict is Verdict.inconclusive
    assert judgement.line.endswith("3 of 10 seeds finished, too few for a verdict")
    text = printed(planned_study(tmp_path / "few", 3))
    assert re.search(r"^b +3 of 10 ", text, flags=re.MULTILINE)
    assert "c: 0 of 10 planned seeds finished; missing: 0, 1," in text
    most = only(planned_study(tmp_path / "most", 8))
    judgement = most.differences["b"]["final"].judgements["accuracy"]
    assert (judgement.verdict, judgement.size_known) == (Verdict.helps, True)
    assert judgement.line.endswith("; 8 of 10 seeds finished")


def test_a_report_of_a_study_with_missing_runs_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = ROOT / "outputs" / "published"
    study = shutil.copytree(published / "contrast", tmp_path / "contrast")
    found = manifest.load(study)
    assert found
    *some, last = found.runs
    for entry in some:
        source, copy = (store.run_dir(root, entry.run_id) for root in (published, tmp_path))
        shutil.copytree(source, copy)
        shutil.copy(store.shared_file(source), store.shared_file(copy))
    assert exit_code("report", study) == 1
    text = " ".join(capsys.readouterr().err.split())
    assert f"{last.variant}: 5 of 6 planned seeds finished; missing: {last.seed}." in text


@pytest.mark.parametrize(("accuracies", "at_chance"), [((0.5002, 0.5171), True),
                                                       ((0.5002, 0.4831), True),
                                                       ((0.5, 0.54), False)])  # fmt: skip
def test_a_comparison_at_chance_level_says_so(
    accuracies: tuple[float, float], at_chance: bool
) -> None:
    """The sampling error on 1,000 texts is 1.6 points, so 3.1 at 95 %."""
    runs = [
        but(run, data={**run.result.data, "n_val": 1000, "largest_class": 0.5})
        for seed in range(6)
        for i, accuracy in enumerate(accuracies)
        for run in [result("ab"[i], seed, [accuracy], f"model.heads={2**i}")]
    ]
    comparison = only(runs)
    assert comparison.at_chance == ({"final": 0.5, "best": 0.5} if at_chance else {})
    judgement = comparison.differences["b"]["final"].judgements["accuracy"]
    assert judgement.line.endswith("no variant is above chance level, 50.0 %") == at_chance
    assert ("final: no variant is above chance level, 50.0 %" in printed(runs)) == at_chance


def test_mcnemar_is_by_seed_on_the_stored_predictions(tmp_path: Path) -> None:
    """p by hand: of ten reviews only pe has seven right, and only no_pe has one."""
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


def test_tables_fit_80_columns_and_lose_nothing() -> None:
    text = printed([but(r, epochs=[replace(e, train_accuracy=1.0, val_accuracy=1.0)
                                 for e in r.result.epochs]) for r in blog()])  # fmt: skip
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "100.00 ± 0.00" in text


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_terminal_folds_cells_and_loses_no_character(width: int) -> None:
    for table in tables.tables(only(blog())):
        file = io.StringIO()
        formats.print_tables([table], Console(file=file, width=width))
        text = file.getvalue()
        assert max(map(len, text.splitlines())) <= width
        whole = [table.title, *table.columns, *table.notes, *(c for row in table.rows for c in row)]
        assert sorted(re.sub(r"[\s─]", "", text)) == sorted(re.sub(r"\s", "", "".join(whole)))


def test_metrics_that_options_name_are_judged_as_accuracy_is() -> None:
    runs = [
        but(run, epochs=[replace(row, val_loss=row.val_loss + more) for row in
                         run.result.epochs])
        for run in blog(seeds=7)
        for more in [1 + run.result.seed / 100 if run.label == "pe" else 0]
    ]  # fmt: skip
    (plain,), (less,), (more,) = (
        compare(runs, choose_metrics(OF_RUNS, margins=["0.5", "loss=0.01"][:n], higher=higher))
        for n, higher in ((1, []), (2, []), (2, ["loss"]))
    )
    assert ([*plain.judged], [*less.judged]) == (["accuracy"], ["accuracy", "loss"])
    for point, difference in plain.differences["pe"].items():
        same = less.differences["pe"][point]
        assert same.judgements["accuracy"] == difference.judgements["accuracy"]
        assert same.metrics["loss"].difference == difference.metrics["loss"].difference
        assert same.metrics["accuracy"].margin == 0.005
        assert same.judgements["loss"].verdict == "hurts"
        assert more.differences["pe"][point].judgements["loss"].verdict == "helps"
    text = formats.markdown([less])
    assert "pe against no_pe, final loss: **hurts by at least 0.01: +1" in text
    assert "For this metric, less is better." in text
    with pytest.raises(UserError, match="has not measured gap at the endpoint final"):
        compare(
            [but(run, epochs=[replace(row, train_accuracy_after=None) for row in
                              run.result.epochs]) for run in runs],
            choose_metrics(OF_RUNS, lower=["gap"]),
        )  # fmt: skip


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
    assert alone.label == "imdb attention none train.epochs=1"
    (of_files,) = only([result("", 0, [0.8], "data=files", "data.path=my/trec.csv")]).variants
    assert of_files.label == "trec.csv attention none train.epochs=1"


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ("data=contrast", "contrast attention none"),
        ("data=contrast mask=causal", "contrast attention none mask=causal"),
        ("mask=window mask.radius=3", "imdb attention none mask=window mask.radius=3"),
        ("position=sinusoidal model.score.scale=false model.heads=4",
         "imdb attention sinusoidal model.heads=4 model.score.scale=false"),
        ("model.pooling=max train=holdout train.lr=0.1",
         "imdb attention none model.pooling=max train=holdout train.lr=0.1"),
        ("data=contrast train.lr=0.1", "contrast attention none train.lr=0.1"),
        ("model=lstm", "imdb lstm none"),
        ('data=files data.path="(1),.csv"', "(1),.csv attention none"),
        ("model=tfidf", "imdb tfidf"),
    ],
)  # fmt: skip
def test_a_single_run_is_named_by_all_that_is_not_the_default(words: str, label: str) -> None:
    config = to_dict(compose([*words.split(), "seed=3", "train.threads=1"]))
    assert default_label(config) == label
    for key in [key for key in flatten(config) if key.endswith(".kind")]:
        section = config
        *path, last = key.split(".")
        for name in path:
            section = section[name]
        section[last] = "others.pieces:Own"  # of which nothing is known on this machine
        assert default_label(config) != label
        assert "data." not in default_label(config)


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


@pytest.mark.parametrize(
    ("studies", "labels"),
    [
        (("x/few", "x/many"), ["a (few)", "a (many)"]),
        (("x/heads", "y/heads"), ["a model.heads=8", "a model.heads=4"]),
    ],
)
def test_one_label_with_two_meanings_is_named_by_study_or_else_by_settings(
    studies: tuple[str, str], labels: list[str]
) -> None:
    runs = [result("a", 0, [0.8]), result("a", 1, [0.8], "model.heads=4")]
    runs = [replace(r, studies=(Path(s),)) for r, s in zip(runs, studies, strict=True)]
    assert [variant.label for variant in only(runs).variants] == labels


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ({"parameters": 2_630_000}, ""),
        ({"parameters": 2_640_000}, "up to 1.2 % of its parameters and 0.0 % of its FLOPs"),
        ({"flops_per_example": 980_000}, "up to 0.0 % of its parameters and 2.0 % of its FLOPs"),
    ],
)
def test_variants_that_differ_in_size_say_so(size: dict[str, int], said: str) -> None:
    base: dict[str, Any] = {"flops_per_example": 1_000_000}
    found = [
        replace(one, result=replace(one.result, **base | (size if one.label == "pe" else {})))
        for one in blog()
    ]
    table = tables.summary(only(found))
    assert ("parameters" in table.columns) == ("FLOPs" in table.columns) == bool(said)
    assert bool(said) == any("Sizes differ" in note for note in table.notes)
    assert said in " ".join(table.notes)
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert max(map(len, printed(found).splitlines())) <= 80


def added_seeds(folder: Path, *more: str) -> list[Run]:
    """A study of two variants whose seeds were added until it was decided, of which b is open at
    the end by the anytime-valid test, and found by the one for seeds fixed beforehand."""
    runs = [
        replace(
            result(
                label, seed, [0.8 + (label == "b") * (0.004 + 0.004 * (-1) ** seed)], *words, *more
            ),
            studies=(folder,),
        )
        for seed in range(12)
        for label, words in (("a", []), ("b", ["model.heads=4"]))
    ]
    manifest.record(folder, planned(*runs, declaration=manifest.Declaration(metric="final")))
    return runs


@pytest.mark.usefixtures("without_pictures")
def test_the_anytime_valid_verdict_counts_where_seeds_were_added(tmp_path: Path) -> None:
    """On the terminal, on the page's first card, in csv and in the table of differences; once."""
    runs = added_seeds(tmp_path)
    comparison = only(runs)
    found = comparison.differences["b"]["final"]
    assert found.sequential
    assert found.judgements["accuracy"].verdict is Verdict.helps
    assert found.anytime["accuracy"].verdict is None
    line = found.anytime["accuracy"].line
    assert line.startswith("open: +0.40 points [")
    assert "anytime-valid p" in line
    for text in (" ".join(printed(runs).split()), Parsed(page(runs)).text):
        assert text.count(line) == 2  # final and best: there is one epoch
        assert text.count("final, declared") == 1
        assert found.judgements["accuracy"].line not in text
        assert "Seeds of b were added because of results" in text
    (table,) = tables.tables_named("differences", [comparison])
    assert [row[-1] for row in table.rows] == ["open", "open"]
    rows = csv.DictReader(io.StringIO(formats.as_csv([comparison])))
    (row,) = [row for row in rows if row["baseline"] and row["metric"] == "accuracy"][:1]
    assert (row["verdict"], float(row["low"])) == ("open", found.anytime["accuracy"].low)
    fixed = only([replace(run, studies=()) for run in runs])
    assert not fixed.differences["b"]["final"].sequential


def test_a_declared_verdict_is_said_once_at_chance_level_too(tmp_path: Path) -> None:
    runs = [
        but(run, data={**run.result.data, "largest_class": 0.99}) for run in added_seeds(tmp_path)
    ]
    text = " ".join(printed(runs).split())
    assert text.count("b against a, final") == text.count("b against a, final, declared: open") == 1
    assert "no variant is above chance level, 99.0 %" in text


def test_two_declared_studies_of_the_same_names_are_told_apart(tmp_path: Path) -> None:
    one, other = (
        added_seeds(tmp_path / name, *words)
        for name, words in (("one", []), ("other", ["train.lr=0.01"]))
    )
    text = " ".join(printed([*one, *other]).split())
    assert "b (one) against a (one), final, declared: open" in text
    assert "b (other) against a (other), final, declared: open" in text


def test_a_variant_without_seeds_leaves_nothing_unpaired_and_no_study_complete(
    tmp_path: Path,
) -> None:
    runs = [result("a", seed, [0.8 + seed / 100]) for seed in range(3)]
    (fit,) = [result("tfidf", 0, [0.9])]
    runs.append(but(fit, config={**fit.result.config, "seeds": {}}))
    entries = [("a", seed, f"a{seed}") for seed in range(8)]
    manifest.record(tmp_path / "study", planned(*entries, ("tfidf", 0, "tfidf")))
    runs = [replace(run, studies=(tmp_path / "study",)) for run in runs]
    text = " ".join(printed(runs).split())
    assert "3 of 8 seeds finished, too few for a verdict" in text
    assert "without a pair" not in text
