"""Claims about many runs: the interval decides, and missing runs name their command."""

import itertools
from pathlib import Path

import pytest
from samples import SD, K, blog_like_k, planned, result, save_study

from attnexp.analysis import published
from attnexp.claims import sweeps
from attnexp.claims.claim import REGISTRY, Claim, Conclusion, Finding
from attnexp.claims.run import CLAIMS
from attnexp.runs import manifest

K_NONE = [row["val_accuracy"] for row in published.EPOCHS["none"]]
K_PE = [row["val_accuracy"] for row in published.EPOCHS["sinusoidal"]]


def checked(id: str, folder: Path) -> Finding:
    return REGISTRY[id].run(folder)


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
    finding = checked("C20", tmp_path)
    assert (finding.conclusion, finding.n) == (conclusion, 19)
    assert "our own runs, each held against the others: " in finding.measured
    lowest = "K's rank, from the fewest: 1 of 20" in finding.measured
    assert lowest is (conclusion is Conclusion.not_supported)


@pytest.mark.parametrize(
    "words",
    [
        *(("model.score.scale=false",), ("train.eps=1e-8",)),
        *((*K, "model.heads=4"), (*K, "data.max_len=90"), (*K, "train=holdout")),
    ],
)
def test_c20_and_c22_are_about_ks_run_alone(tmp_path: Path, words: tuple[str, ...]) -> None:
    write(tmp_path, "blog", "no_pe", near(K_NONE, 0), *words)
    write(tmp_path, "blog", "pe", near(K_PE, 0), "position=sinusoidal", *words)
    for id in ("C20", "C22"):
        assert checked(id, tmp_path).conclusion is Conclusion.not_run


def test_c20_needs_nineteen_seeds(tmp_path: Path) -> None:
    save_study(tmp_path, blog_like_k(18, *K))
    finding = checked("C20", tmp_path)
    assert finding.conclusion is Conclusion.not_run
    assert "18 of 19 seeds" in finding.measured
    assert "'seed=range(19)'" in finding.measured


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
    assert checked("C22", tmp_path).conclusion is conclusion


WORDS = {
    "concat": ["position=sinusoidal", "position.combine=concat"],
    **{name: [f"position={name}"] for name in ("none", "sinusoidal", "learned")},
    **{name: [f"model={name}"] for name in ("attention", "cnn", "lstm")},
    **{name: [f"model={name}"] for name in ("cnn_attention", "lstm_attention")},
}
LEARNED = (0.001, 0.002, 0.0035)
MODELS = {"attention": 0.0, "cnn": -0.01, "lstm": -0.02, "cnn_attention": 0.01,
          "lstm_attention": 0.02}  # fmt: skip


@pytest.mark.parametrize(
    ("id", "shifts", "conclusion"),
    [
        ("C10", {"none": (-0.02,), "sinusoidal": (0,), "learned": LEARNED}, "supported"),
        ("C10", {"none": (-0.001,), "sinusoidal": (0,), "learned": LEARNED}, "inconclusive"),
        ("C11", {"none": (-0.02,), "sinusoidal": (0,), "concat": (0.001, 0.0015)}, "supported"),
        ("C11", {"none": (-0.02,), "sinusoidal": (0,), "concat": (0.02, 0.0205)}, "not supported"),
        ("C11", {"none": (0.02,), "sinusoidal": (0,), "concat": (0.001, 0.0015)}, "not supported"),
        *((id, {label: (shift, shift + 0.001, shift + 0.002) for label, shift in MODELS.items()},
           "supported") for id in ("C21", "C26")),
    ],
)  # fmt: skip
def test_intervals_decide(
    tmp_path: Path, id: str, shifts: dict[str, tuple[float, ...]], conclusion: str
) -> None:
    """shifts: of K's accuracies with PE, seed by seed in turn. C10 counts as close what is little
    of what positions give; C11 needs both to be close and to work."""
    study = "position" if "none" in shifts else "baselines"
    for label, by_seed in shifts.items():
        write(tmp_path, study, label, near(K_PE, *by_seed), *WORDS[label])
    assert checked(id, tmp_path).conclusion == conclusion


def test_runs_of_other_settings_are_not_pooled(tmp_path: Path) -> None:
    write(tmp_path, "position", "sinusoidal", near(K_PE, 0), "position=sinusoidal")
    write(tmp_path, "position", "none", near(K_NONE, 0), "position=none")
    runs = [
        result("learned", seed, K_PE, "position=learned", *["train.lr=0.1"] * (seed > 5))
        for seed in range(8)
    ]
    save_study(tmp_path, runs, "position")
    finding = checked("C10", tmp_path)
    assert finding.conclusion is Conclusion.not_run
    assert "learned in" in finding.measured
    assert "train.lr=0.1" in finding.measured


def test_a_study_that_has_only_begun_stops_no_other_claim(tmp_path: Path) -> None:
    manifest.record(tmp_path / "blog", planned(("pe", 0, "a-b")))
    finding = checked("C20", tmp_path)
    assert finding.conclusion is Conclusion.not_run
    assert "no finished run" in finding.measured
    assert "make them: attnexp sweep study=blog" in finding.measured
