"""Claims hold on our code and results, and are refuted once what they rest on is broken."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from conftest import PUBLISHED, ROOT, Command, Patch
from torch import Tensor

from attnexp.claims import exact, finding, studies
from attnexp.claims.table import CLAIMS, DEFINED, check_claim
from attnexp.model import attention, positions
from attnexp.model.mixers import Convolution
from attnexp.model.scores import DotProduct
from attnexp.statistics.intervals import Interval

BY_ID = {claim.id: claim for claim in CLAIMS}
OF_STUDIES = [claim.id for claim in CLAIMS if claim.study]
EXACT = {
    "C04": ("holds", "off by"),
    "C06": ("holds in part", "24.5, with √d 2.2 refuted; own PE at 80 of 80 steps holds"),
    "C12": ("holds in part", "×6.1 holds; gradient's norm ×1.2, ×1.1, ×0.92 refuted"),
    "C23": ("holds", "QKV ×2.00, products ×4.00"),
    "C25": ("not tested", "labels no tokens"),
    "C27": ("holds", "off by 0e+00 (≤ 1e-12); tokens in reach [256, 136"),
}


def test_every_claim_is_here_once_and_has_a_check_or_a_test() -> None:
    assert [*BY_ID] == [f"C{number:02}" for number in range(1, 35)]
    defined = [claim.id for claim in DEFINED]
    assert sorted([*EXACT, "C18", "C29", *OF_STUDIES, *defined]) == [*BY_ID]
    tests = (ROOT / "tests/claims/test_definitions.py").read_text()
    tests += (ROOT / "tests/model/test_oracle.py").read_text()
    for name in defined:
        assert name in tests


@pytest.mark.parametrize("name", EXACT)
def test_an_exact_claim_has_one_answer_and_leaves_the_random_state_alone(name: str) -> None:
    state = torch.get_rng_state()
    record = check_claim(BY_ID[name], Path())
    verdict, measured = EXACT[name]
    assert record["verdict"] == verdict
    assert measured in record["measured"]
    assert torch.equal(torch.get_rng_state(), state)
    assert check_claim(BY_ID[name], Path()) == record


def no_positions(num_positions: int, d_model: int, **_: Any) -> Tensor:
    return torch.zeros(num_positions, d_model)


WRONG: list[Any] = [
    ("C04", attention, "attention_weights", lambda scores, *_, **__: scores.tril().softmax(-1)),
    ("C04", positions, "sinusoidal_table", no_positions),
    ("C06", exact, "sinusoidal_table", no_positions),
    ("C12", exact, "DotProduct", lambda *widths, scale: DotProduct(*widths, scale=False)),
    ("C23", exact, "window_attention", lambda q, k, v, **_: (q @ k.mT).softmax(dim=-1) @ v),
    ("C27", exact, "Convolution", lambda *widths, kernel: Convolution(*widths, kernel=5)),
]


@pytest.mark.parametrize(("name", "module", "piece", "wrong"), WRONG)
def test_a_wrong_piece_refutes_it(
    monkeypatch: Patch, name: str, module: Any, piece: str, wrong: Any
) -> None:
    monkeypatch.setattr(module, piece, wrong)
    assert BY_ID[name].check().verdict == "refuted"


def test_a_difference_of_shapes_or_a_nan_is_never_within_tolerance() -> None:
    zero = torch.zeros(2)
    assert finding.max_abs_diff((zero, zero[:1])) == math.inf
    assert not finding.max_abs_diff((zero / 0, zero), (zero, zero)) <= 1e9
    assert finding.max_abs_diff((zero, zero + 2), (zero, zero)) == 2


@pytest.mark.parametrize("name", OF_STUDIES)
def test_published_studies_give_the_documented_verdict(name: str) -> None:
    record = check_claim(BY_ID[name], PUBLISHED)
    row = [str(record[key]) for key in ("refuted_by", "measured", "n", "verdict")]
    assert " | ".join(row) in (ROOT / "docs" / "reproduction.md").read_text()


def test_a_study_that_lacks_what_a_claim_judges_counts_as_missing_runs() -> None:
    for name in ("C30", "C31"):
        claim = BY_ID[name]._replace(study="position")
        assert check_claim(claim, PUBLISHED)["verdict"] == "missing runs"
    check = BY_ID["C22"].check
    without_study = claim._replace(check=lambda: check(PUBLISHED / "blog_holdout"), study="")
    with pytest.raises(ValueError, match="lacks 6 seeds of pe, no_pe on IMDB, protocol blog"):
        check_claim(without_study, PUBLISHED)


def test_equal_seeds_are_not_certain(monkeypatch: Patch) -> None:
    runs = {"pe": 0.9, "no_pe": 0.85, "pe, shuffle": 0.8, "pe, no_head=1": 0.9}
    monkeypatch.setattr(studies, "accuracies_under", lambda *_: pd.DataFrame(runs, range(6)))
    assert BY_ID["C30"].check(Path()).measured.endswith("+5.00 [+2.38, +7.62]")
    assert BY_ID["C31"].check(Path()).verdict == "undecided"


def evidence(low: float, high: float, **more: Any) -> finding.Evidence:
    interval = Interval(n=6, mean=low, sd=0.01, low=low, high=high)
    return finding.Evidence("final", interval, **more)


UP = evidence(0.001, 0.02)
OPEN = evidence(-0.01, 0.02)
DOWN = evidence(-0.02, -0.001)


@pytest.mark.parametrize(
    ("parts", "verdict", "by_part"),
    [
        ([UP, UP, evidence(-0.02, -0.001, decides=False)], "supported", "supported"),
        ([UP, OPEN], "undecided", "supported in part"),
        ([UP, OPEN, DOWN], "not supported", "supported in part"),
        ([OPEN, DOWN], "not supported", "not supported"),
        ([evidence(-0.001, 0.002, within=0.0025)], "supported", "supported"),
        ([evidence(0.003, 0.004, within=0.0025)], "not supported", "not supported"),
        ([evidence(-0.001, 0.01, within=0.0025)], "undecided", "undecided"),
    ],
)
def test_intervals_decide(parts: list[finding.Evidence], verdict: str, by_part: str) -> None:
    assert finding.judge_evidence(parts).verdict == verdict
    assert finding.judge_evidence(parts, by_part=True).verdict == by_part


def test_the_command_exits_1_where_a_claim_fails(here: Command, monkeypatch: Patch) -> None:
    shown = here("claims", "c04", "C13")
    assert shown.returncode == 0
    assert "construction" in shown.stdout
    assert "Checking C13, 2 of 2" in shown.stderr
    monkeypatch.setattr(positions, "sinusoidal_table", no_positions)
    failed = here("claims", "C04", "C10", "C30", "C32", "--json", "--out", ".")  # each way to read
    assert failed.returncode == 1
    assert "C04 refuted; C10 missing runs" in failed.stderr
    records = json.loads(failed.stdout)["claims"]
    assert [record["verdict"] for record in records] == ["refuted", *["missing runs"] * 3]
    assert failed.stdout.count("To make its runs: attnexp sweep study=") == 3
