"""Claims about many runs: the verdict follows the interval, and missing runs name their command."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_report import result

from attnexp.claims import sweeps
from attnexp.claims.claim import Claim, Verdict
from attnexp.report import kexue
from attnexp.runs import store

K_NONE = [row["val_accuracy"] for row in kexue.FIGURES["none"]]
K_PE = [row["val_accuracy"] for row in kexue.FIGURES["sinusoidal"]]


def write(root: Path, study: str, label: str, accuracies: list[list[float]], *words: str) -> None:
    """One run a seed, on what passes for the whole of IMDB."""
    for seed, epochs in enumerate(accuracies):
        run = result(label, 0, seed, epochs, *words)
        data = {**run.data, "name": "imdb", "n_train": 25_000, "n_test": 25_000}
        folder = root / study / f"{label}-{seed}"
        folder.mkdir(parents=True)
        store.save(folder, replace(run, data=data, run_id=f"{label}{seed}"))


def near(epochs: list[float], *shifts: float) -> list[list[float]]:
    return [[value + shift for value in epochs] for shift in shifts]


@pytest.mark.parametrize("claim", sweeps.CLAIMS, ids=lambda claim: claim.id)
def test_without_runs_the_command_is_named(claim: Claim, tmp_path: Path) -> None:
    finding = claim.check(tmp_path)
    assert finding.verdict is Verdict.not_run
    assert "attnexp sweep study=" in finding.measured


@pytest.mark.parametrize(
    ("shift", "verdict"), [(0.0, Verdict.supported), (0.02, Verdict.not_supported)]
)
def test_c20_holds_means_against_ks_table(tmp_path: Path, shift: float, verdict: Verdict) -> None:
    write(tmp_path, "blog", "no_pe", near(K_NONE, shift - 0.001, shift + 0.001))
    write(tmp_path, "blog", "pe", near(K_PE, -0.001, 0.001), "position=sinusoidal")
    finding = sweeps.c20(tmp_path)
    assert (finding.verdict, finding.n) == (verdict, 2)


@pytest.mark.parametrize(
    ("shifts", "verdict"),
    [
        ((0.001, 0.0011, 0.0012), Verdict.supported),
        ((-0.02, -0.03, 0.03), Verdict.inconclusive),
        ((-0.05, -0.0501, -0.0502), Verdict.not_supported),
    ],
)
def test_c22_follows_the_interval(
    tmp_path: Path, shifts: tuple[float, ...], verdict: Verdict
) -> None:
    """K's own figures as seeds, PE's final epoch moved: by little, by nothing sure, far down."""
    write(tmp_path, "blog", "no_pe", near(K_NONE, 0, 0, 0))
    moved = [[*K_PE[:-1], K_PE[-1] + shift] for shift in shifts]
    write(tmp_path, "blog", "pe", moved, "position=sinusoidal")
    assert sweeps.c22(tmp_path).verdict is verdict


def test_c10_needs_both_ends_of_the_interval_close(tmp_path: Path) -> None:
    write(tmp_path, "position", "sinusoidal", near(K_PE, 0, 0, 0), "position=sinusoidal")
    write(tmp_path, "position", "learned", near(K_PE, 0.001, 0.002, 0.003), "position=learned")
    assert sweeps.c10(tmp_path).verdict is Verdict.supported
    write(tmp_path, "position", "concat", near(K_PE, 0.02, 0.021, 0.022), "position=learned")
    assert sweeps.c11(tmp_path).verdict is Verdict.not_supported


def test_c21_and_c26_read_the_baselines(tmp_path: Path) -> None:
    models = {"attention": 0.0, "cnn": -0.01, "lstm": -0.02, "cnn_attention": 0.01,
              "lstm_attention": 0.02}  # fmt: skip
    for label, shift in models.items():
        accuracies = near(K_PE, shift, shift + 0.001, shift + 0.002)
        write(tmp_path, "baselines", label, accuracies, f"model={label}")
    assert sweeps.c21(tmp_path).verdict is Verdict.supported
    assert sweeps.c26(tmp_path).verdict is Verdict.supported


def test_other_data_and_protocols_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, "blog", "no_pe", near(K_NONE, 0, 0), "train.batch_size=32", "data.max_len=90")
    write(tmp_path, "blog", "pe", near(K_PE, 0, 0), "position=sinusoidal", "data.max_len=90")
    assert sweeps.c22(tmp_path).verdict is Verdict.not_run
