"""Claims about many runs: the interval decides, and missing runs name their command."""

import itertools
from pathlib import Path

import pytest
from samples import SD, K, blog_like_k, result, save_study

from attnexp.analysis import published
from attnexp.claims import sweeps
from attnexp.claims.claim import Claim, Conclusion
from attnexp.claims.run import CLAIMS
from attnexp.runs import manifest

K_NONE = [row["val_accuracy"] for row in published.EPOCHS["none"]]
K_PE = [row["val_accuracy"] for row in published.EPOCHS["sinusoidal"]]


def write(root: Path, study: str, label: str, accuracies: list[list[float]], *words: str) -> None:
    """One run a seed, on what passes for the whole of IMDB."""
    runs = [result(label, seed, epochs, *words) for seed, epochs in enumerate(accuracies)]
    save_study(root, runs, study)


def near(epochs: list[float], *shifts: float) -> list[list[float]]:
    """Six seeds, shifted by these in turn."""
    chosen = itertools.islice(itertools.cycle(shifts), 6)
    return [[value + shift for value in epochs] for shift in chosen]


@pytest.mark.parametrize(
    "claim", [claim for claim in CLAIMS if claim.reads_sweeps], ids=lambda claim: claim.id
)
def test_without_runs_the_command_is_named(claim: Claim, tmp_path: Path) -> None:
    finding = claim.run(tmp_path)
    assert finding.conclusion is Conclusion.not_run
    assert "attnexp sweep study=" in finding.measured


@pytest.mark.parametrize(
    ("moved", "conclusion"), [(0.0, Conclusion.supported), (10 * SD, Conclusion.not_supported)]
)
def test_c20_ranks_ks_values_among_our_seeds(
    tmp_path: Path, moved: float, conclusion: Conclusion
) -> None:
    save_study(tmp_path, blog_like_k(sweeps.MIN_SEEDS_OF_RANK, *K, moved=moved))
    finding = sweeps.c20(tmp_path)
    assert (finding.conclusion, finding.n) == (conclusion, 19)
    assert "our own runs, each held against the others: " in finding.measured
    lowest = "K's rank, from the fewest: 1 of 20" in finding.measured
    assert lowest is (conclusion is Conclusion.not_supported)


def test_c20_and_c22_are_about_ks_run_alone(tmp_path: Path) -> None:
    """Scaled scores, another epsilon, another model and too few seeds do not count."""
    words = (("model.score.scale=false",), ("train.eps=1e-8",), (*K, "model.heads=4"))
    for i, others in enumerate(words):
        folder = tmp_path / str(i)
        runs = [
            result(label, seed, [0.8] * 5, f"position={kind}", *others)
            for seed in range(5)
            for label, kind in (("no_pe", "none"), ("pe", "sinusoidal"))
        ]
        save_study(folder, runs)
        for claim in (sweeps.c20, sweeps.c22):
            assert claim(folder).conclusion is Conclusion.not_run
    save_study(tmp_path / "few", blog_like_k(18, *K))
    assert sweeps.c20(tmp_path / "few").conclusion is Conclusion.not_run
    assert "18 of 19 seeds" in sweeps.c20(tmp_path / "few").measured
    assert "'seed=range(19)'" in sweeps.c20(tmp_path / "few").measured


@pytest.mark.parametrize(
    ("shifts", "conclusion"),
    [
        ((0.001, 0.0011, 0.0012), Conclusion.supported),
        ((-0.02, -0.03, 0.03), Conclusion.inconclusive),
        ((-0.05, -0.0501, -0.0502), Conclusion.not_supported),
    ],
)
def test_c22_follows_the_interval(
    tmp_path: Path, shifts: tuple[float, ...], conclusion: Conclusion
) -> None:
    """K's own figures as seeds, PE's final epoch moved: by little, by nothing sure, far down."""
    write(tmp_path, "blog", "no_pe", near(K_NONE, 0), *K)
    moved = [[*K_PE[:-1], K_PE[-1] + shift] for shift in shifts * 2]
    write(tmp_path, "blog", "pe", moved, "position=sinusoidal", *K)
    assert sweeps.c22(tmp_path).conclusion is conclusion


@pytest.mark.parametrize(
    ("none", "conclusion"),
    [(-0.02, Conclusion.supported), (-0.001, Conclusion.inconclusive)],
)
def test_c10_counts_as_close_what_is_little_of_what_positions_give(
    tmp_path: Path, none: float, conclusion: Conclusion
) -> None:
    write(tmp_path, "position", "none", near(K_PE, none), "position=none")
    write(tmp_path, "position", "sinusoidal", near(K_PE, 0), "position=sinusoidal")
    write(tmp_path, "position", "learned", near(K_PE, 0.001, 0.002, 0.0035), "position=learned")
    assert sweeps.c10(tmp_path).conclusion is conclusion


@pytest.mark.parametrize(
    ("none", "concat", "conclusion"),
    [
        (-0.02, 0.001, Conclusion.supported),
        (-0.02, 0.02, Conclusion.not_supported),  # not close
        (0.02, 0.001, Conclusion.not_supported),  # close, and neither works
    ],
)
def test_c11_needs_both_to_be_close_and_to_work(
    tmp_path: Path, none: float, concat: float, conclusion: Conclusion
) -> None:
    for label, shift in (("none", none), ("sinusoidal", 0.0), ("concat", concat)):
        position = "none" if label == "none" else "sinusoidal"
        words = [f"position={position}"] + ["position.combine=concat"] * (label == "concat")
        write(tmp_path, "position", label, near(K_PE, shift, shift + 0.0005), *words)
    assert sweeps.c11(tmp_path).conclusion is conclusion


def test_runs_of_other_settings_are_not_pooled(tmp_path: Path) -> None:
    write(tmp_path, "position", "sinusoidal", near(K_PE, 0), "position=sinusoidal")
    write(tmp_path, "position", "none", near(K_NONE, 0), "position=none")
    runs = [
        result("learned", seed, K_PE, "position=learned", *["train.lr=0.1"] * (seed > 5))
        for seed in range(8)
    ]
    save_study(tmp_path, runs, "position")
    finding = sweeps.c10(tmp_path)
    assert finding.conclusion is Conclusion.not_run
    assert "learned in" in finding.measured
    assert "train.lr=0.1" in finding.measured


def test_a_study_that_has_only_begun_stops_no_other_claim(tmp_path: Path) -> None:
    begun = manifest.Entry(variant="pe", seed="0", run_id="a-b")
    made = manifest.Manifest(variants={"pe": {}}, commands=["attnexp sweep"], runs=[begun])
    manifest.record(tmp_path / "blog", made)
    finding = sweeps.c20(tmp_path)
    assert finding.conclusion is Conclusion.not_run
    assert "no finished run" in finding.measured
    assert "make them: attnexp sweep study=blog" in finding.measured


def test_c21_and_c26_read_the_baselines(tmp_path: Path) -> None:
    models = {"attention": 0.0, "cnn": -0.01, "lstm": -0.02, "cnn_attention": 0.01,
              "lstm_attention": 0.02}  # fmt: skip
    for label, shift in models.items():
        accuracies = near(K_PE, shift, shift + 0.001, shift + 0.002)
        write(tmp_path, "baselines", label, accuracies, f"model={label}")
    assert sweeps.c21(tmp_path).conclusion is Conclusion.supported
    assert sweeps.c26(tmp_path).conclusion is Conclusion.supported


def test_other_data_and_protocols_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, "blog", "no_pe", near(K_NONE, 0), *K, "data.max_len=90")
    write(tmp_path, "blog", "pe", near(K_PE, 0), "position=sinusoidal", *K, "data.max_len=90")
    assert sweeps.c22(tmp_path).conclusion is Conclusion.not_run
