"""The small experiments: their rules, their task, and what they find with one seed."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from samples import row

from attnexp.claims import trials
from attnexp.claims.claim import Conclusion


@pytest.fixture
def _two_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "SEEDS", (0, 1))


def test_c25_the_tag_is_the_parity_of_the_token_before() -> None:
    ids, tags = trials.sequences(200, torch.Generator().manual_seed(0))
    assert ids.shape == (200, 24)
    assert tags.shape == (200, 23)
    assert all(
        tag == before % 2
        for row, its_tags in zip(ids.tolist(), tags.tolist(), strict=True)
        for before, tag in zip(row, its_tags, strict=False)
    )
    assert abs(tags.mean().item() - 0.5) < 0.03


def test_c25_the_ceiling_counts_every_bag() -> None:
    right = [max(sum(bag), 5 - sum(bag)) / 5 for bag in product((0, 1), repeat=5)]
    assert trials.position_blind_ceiling(6) == pytest.approx(sum(right) / len(right))
    assert trials.position_blind_ceiling(2) == 1  # the one other token stands before


def test_c25_only_position_or_neighbours_distinguish_orders() -> None:
    ids, _ = trials.sequences(4, torch.Generator().manual_seed(0))
    order = torch.randperm(24, generator=torch.Generator().manual_seed(1))
    for name, build in trials.TAGGERS.items():
        tagger = build()
        follows = torch.allclose(tagger(ids)[:, order], tagger(ids[:, order]), atol=1e-5)
        assert follows == (name == "none")


def test_c25_one_tagger_learns_the_same_again_and_leaves_random_numbers_alone() -> None:
    state = torch.get_rng_state()
    early, late = trials.tagging("CNN", 0, budgets=(5, 50))
    assert early < 0.9 < late
    accuracy = trials.tagging("none", 0, budgets=(20,))
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    assert trials.tagging("none", 0, budgets=(10, 20))[1:] == accuracy
    assert trials.tagging("none", 1, budgets=(20,)) != accuracy


SEEN = {
    "none": [0.58, 0.581, 0.579],
    "PE": [0.8, 0.81, 0.82],
    "CNN": [1.0, 0.99, 0.99],
    "LSTM": [1.0, 1.0, 1.0],
}


@pytest.mark.parametrize(
    ("seen", "conclusion"),
    [
        ({}, Conclusion.supported),
        ({"none": [0.58, 0.7, 0.6]}, Conclusion.inconclusive),
        ({"none": [0.7, 0.71, 0.7]}, Conclusion.not_supported),
        ({"PE": [0.59, 0.9, 0.7]}, Conclusion.inconclusive),
        ({"PE": [0.59, 0.58, 0.58]}, Conclusion.not_supported),
        ({"PE": [0.8, 0.99, 0.9]}, Conclusion.inconclusive),
        ({"PE": [1.0, 0.99, 0.99]}, Conclusion.not_supported),
        ({"CNN": [1.0, 0.94, 1.0]}, Conclusion.inconclusive),
        ({"LSTM": [0.5, 0.5, 0.5]}, Conclusion.supported),
    ],
)
def test_c25_the_rule(seen: dict[str, list[float]], conclusion: Conclusion) -> None:
    """At one budget; a second at which the claim is as clear as it can be changes nothing."""
    finding = trials.judge_tagging({150: SEEN | seen, 200: SEEN})
    assert finding.conclusion is conclusion
    assert finding.n == 3
    assert "58.4 at best" in finding.measured
    assert f"{conclusion}; 200 batches" in finding.measured


@pytest.mark.slow
@pytest.mark.usefixtures("_two_seeds")
def test_c25_position_does_more_than_ease_it() -> None:
    """Not as claimed at every budget: in the end attention with PE tags like the convolution."""
    finding = trials.c25()
    assert finding.conclusion is Conclusion.not_supported
    assert "300 batches: none 5" in finding.measured
    assert finding.n == 2


@pytest.mark.slow
@pytest.mark.usefixtures("_two_seeds")
def test_c29_the_running_mean_lags() -> None:
    finding = trials.c29()
    assert (finding.conclusion, finding.n) == (Conclusion.supported, 2)
    assert len(finding.measured) <= 110


def test_c29_without_learning_nothing_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    state = torch.get_rng_state()
    found = trials.learning(0, num_train=64, num_epochs=1)
    assert found[0] < trials.JUMP
    assert trials.judge_learning([found]).conclusion is Conclusion.inconclusive
    assert not list(tmp_path.iterdir())  # no run folders
    assert torch.equal(torch.get_rng_state(), state)


LEARNT = replace(row(2, 0.93), train_accuracy=0.7, train_accuracy_after=0.92)


@pytest.mark.parametrize(
    ("rise", "second", "conclusion"),
    [
        (0.4, {}, Conclusion.supported),
        (0.4, {"train_accuracy": 0.95}, Conclusion.inconclusive),
        (0.4, {"train_accuracy_after": 0.9}, Conclusion.inconclusive),
        (0.05, {}, Conclusion.inconclusive),
    ],
)
def test_c29_the_rule(rise: float, second: dict[str, float], conclusion: Conclusion) -> None:
    other = replace(LEARNT, **second)  # type: ignore[arg-type]
    found = [(0.4, LEARNT), (rise, other), (0.4, LEARNT)]
    assert trials.judge_learning(found).conclusion is conclusion


@pytest.mark.parametrize("wrong", [{"train_accuracy_after": 0.8}, {"train_accuracy": 0.95}])
def test_c29_a_part_that_fails_in_every_seed_is_not_supported(wrong: dict[str, float]) -> None:
    found = (0.4, replace(LEARNT, **wrong))  # type: ignore[arg-type]
    assert trials.judge_learning([found, found]).conclusion is Conclusion.not_supported


def test_c29_is_about_the_steepest_epoch() -> None:
    rise, steepest = trials.steepest([row(1, 0.55), row(2, 0.9), row(3, 1.0)])
    assert rise == pytest.approx(0.35)
    assert steepest.epoch == 2
