"""The claims about cost and reach: what they find, and that they can find otherwise."""

from dataclasses import replace
from functools import partial
from typing import Literal

import pytest
import torch
from attnexp.model.softmax import attention_weights
from torch import Tensor

from attnexp.claims import costs
from attnexp.claims.claim import Conclusion
from attnexp.model import attention, fast, masks
from attnexp.model.mixers import Convolution, Recurrent


def fixed_ratio(ratio: float, batch: int) -> list[float]:
    return [ratio] * 4


def test_c18_times_are_measured_on_one_thread() -> None:
    threads = torch.get_num_threads()
    assert len(costs.loop_over_tensor(1, num_pairs=2)) == 2
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(("ratio", "said"), [(1.2, ", faster"), (0.9, "NOT faster at 32, 1")])
def test_c18_says_whether_it_is_faster(
    monkeypatch: pytest.MonkeyPatch, ratio: float, said: str
) -> None:
    monkeypatch.setattr(costs, "loop_over_tensor", partial(fixed_ratio, ratio))
    finding = costs.c18()
    assert finding.measured.endswith(said)
    assert "at batch 32" in finding.measured
    assert len(finding.measured) <= 110
    assert finding.conclusion is Conclusion.holds  # the numbers decide


def test_c18_faster_means_three_pairs_of_four() -> None:
    assert costs.is_faster([0.9, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1])
    assert not costs.is_faster([0.9, 0.9, 0.9, 1.1, 1.1, 1.1, 1.1, 1.1])


def test_c18_is_refuted_by_heads_that_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    def mixed(self: attention.MultiHeadSelfAttention, x: Tensor) -> Tensor:
        heads: Tensor = x.unflatten(-1, (-1, self.num_heads))
        return heads.movedim(-1, -3)

    monkeypatch.setattr(attention.MultiHeadSelfAttention, "split_heads", mixed)
    monkeypatch.setattr(costs, "loop_over_tensor", partial(fixed_ratio, 2.0))
    assert costs.c18().conclusion is Conclusion.refuted


@pytest.fixture(scope="module")
def measured() -> costs.Curves:
    return costs.curves(sizes=costs.SIZES[-costs.NUM_FITTED :], repeats=1)


def test_c23_costs_grow_as_claimed(measured: costs.Curves) -> None:
    finding = costs.judge(measured)
    assert finding.conclusion is Conclusion.holds
    assert len(finding.measured) <= 110


def test_c23_the_numbers_are_those_of_the_formulas(measured: costs.Curves) -> None:
    """2 for a multiply and an add; 8 heads of 16 on width 128."""
    n = measured.full.sizes[-1]
    assert measured.full.projections[-1] == 3 * 2 * n * 128 * 128
    assert measured.full.products[-1] == 2 * 2 * n * n * 128
    assert measured.window.products[-1] == 2 * 2 * n * 32 * 128  # 16 queries with 32 keys
    assert measured.full.elements[-1] > 8 * n * n
    assert measured.window.elements[-1] < 8 * n * n / 10


def test_c23_is_refuted_by_other_growth(measured: costs.Curves) -> None:
    for wrong in (
        replace(measured, full=measured.window),
        replace(measured, window=measured.full),
        replace(measured, radii=replace(measured.radii, products=(1, 4, 16, 64))),
        replace(measured, full=replace(measured.full, elements=measured.window.elements)),
        replace(measured, convolution=tuple(2 * flops for flops in measured.convolution)),
    ):
        assert costs.judge(wrong).conclusion is Conclusion.refuted


def whole_map(
    q: Tensor, k: Tensor, v: Tensor, *, radius: int, real_keys: Tensor | None = None
) -> Tensor:
    """What the window gives, at the full price."""
    allowed = masks.Window(radius=radius)(*masks.grid(q.shape[-2]))
    return attention_weights(q @ k.mT, allowed) @ v


def test_c23_notices_a_window_that_makes_the_whole_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "window_attention", whole_map)
    window = costs.curves(sizes=(128, 256, 512), repeats=1).window
    assert window.exponent(window.products) == pytest.approx(2)


def test_c23_an_exponent_is_that_of_the_largest_sizes() -> None:
    curve = costs.Curve(sizes=(1, 2, 4, 8), projections=(), products=(), elements=(), seconds=())
    assert curve.exponent([999, 3 * 2**1.5, 3 * 4**1.5, 3 * 8**1.5]) == pytest.approx(1.5)


def test_c27_reach() -> None:
    finding = costs.c27()
    assert finding.conclusion is Conclusion.holds
    assert finding.measured == (
        "attention 256 of 256 pairs; LSTM 136 (0 ahead, 0 past a cut); "
        "1, 2, 3 CNN layers ±1, ±2, ±3"
    )


def test_c27_is_refuted_by_a_wider_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    def wider(d_input: int, d_output: int, *, kernel: int) -> Convolution:
        return Convolution(d_input, d_output, kernel=kernel + 2)

    monkeypatch.setattr(costs, "Convolution", wider)
    finding = costs.c27()
    assert finding.conclusion is Conclusion.refuted
    assert "±2, ±4, ±6" in finding.measured


def test_c27_is_refuted_by_an_lstm_that_reads_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    def both_ways(d_input: int, d_output: int, *, cell: Literal["lstm", "gru"]) -> Recurrent:
        return Recurrent(d_input, d_output, cell=cell, bidirectional=True)

    monkeypatch.setattr(costs, "Recurrent", both_ways)
    assert costs.c27().conclusion is Conclusion.refuted


def test_c27_is_refuted_by_attention_that_looks_back_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def causal(scores: Tensor, allowed: Tensor | None = None, *, mode: str = "add") -> Tensor:
        return attention_weights(scores, masks.Causal()(*masks.grid(scores.shape[-1])), mode=mode)

    monkeypatch.setattr(attention, "attention_weights", causal)
    finding = costs.c27()
    assert finding.conclusion is Conclusion.refuted
    assert "attention 136 of 256" in finding.measured
