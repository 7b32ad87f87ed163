"""Masks hide what they say, and a query left with nothing to see gets zeros."""

import pytest
import torch
from torch import Tensor

from attnexp.model.masks import BlockSparse, Causal, Dilated, Window, grid, real_keys
from attnexp.model.seams import Mask
from attnexp.model.softmax import attention_weights

WINDOW_0 = "100000 010000 001000 000100 000010 000001"
WINDOW_2 = "111000 111100 111110 011111 001111 000111"
EVERYTHING = "111111 111111 111111 111111 111111 111111"

# A review of six positions, the first two padding: no query sees columns 0 and 1.
PADDING = torch.tensor([True, True, False, False, False, False])


def drawn(mask: Tensor) -> str:
    """A mask of queries by keys as rows of 0 and 1."""
    return " ".join("".join("01"[int(cell)] for cell in row) for row in mask.tolist())


def seen(*predicates: Mask) -> Tensor:
    """What six queries see of six keys under all the predicates."""
    allowed = torch.ones(6, 6, dtype=torch.bool)
    for predicate in predicates:
        allowed = allowed & predicate(*grid(6))
    return allowed


@pytest.mark.parametrize(
    ("predicates", "truth"),
    [
        ([Causal()], "100000 110000 111000 111100 111110 111111"),
        ([Window(radius=0)], WINDOW_0),
        ([Window(radius=1)], "110000 111000 011100 001110 000111 000011"),
        ([Window(radius=2)], WINDOW_2),
        ([Window(radius=5)], EVERYTHING),
        ([Causal(), Window(radius=1)], "100000 110000 011000 001100 000110 000011"),
        ([Window(radius=2), Causal()], "100000 110000 111000 011100 001110 000111"),
        ([Dilated(radius=1, dilation=2)], "101000 010100 101010 010101 001010 000101"),
        ([Dilated(radius=2, dilation=2)], "101010 010101 101010 010101 101010 010101"),
        ([Dilated(radius=1, dilation=3)], "100100 010010 001001 100100 010010 001001"),
        ([Dilated(radius=2, dilation=1)], WINDOW_2),
        ([Dilated(radius=0, dilation=4)], WINDOW_0),
        ([Causal(), Dilated(radius=1, dilation=2)], "100000 010000 101000 010100 001010 000101"),
        ([BlockSparse(block=2, num_global=0)], "110000 110000 001100 001100 000011 000011"),
        ([BlockSparse(block=2)], "110001 110001 001101 001101 000011 111111"),
        ([BlockSparse(block=4)], "111101 111101 111101 111101 000011 111111"),
        ([BlockSparse(block=3, num_global=2)], "111011 111011 111011 000111 111111 111111"),
        ([BlockSparse(block=1, num_global=2)], "100011 010011 001011 000111 111111 111111"),
        ([BlockSparse(block=6)], EVERYTHING),
        ([BlockSparse(block=1, num_global=6)], EVERYTHING),
    ],
)
def test_predicates_have_their_truth_tables(predicates: list[Mask], truth: str) -> None:
    """C14, C23."""
    assert drawn(seen(*predicates)) == truth


@pytest.mark.parametrize(
    ("predicates", "truth"),
    [
        ([], "001111 001111 001111 001111 001111 001111"),
        ([Causal()], "000000 000000 001000 001100 001110 001111"),
        ([Window(radius=1)], "000000 001000 001100 001110 000111 000011"),
        ([Causal(), Window(radius=1)], "000000 000000 001000 001100 000110 000011"),
    ],
)
def test_padding_joins_with_predicates(predicates: list[Mask], truth: str) -> None:
    """C19. Each review hides its own padding; the other one here has none."""
    padding = torch.stack([PADDING, torch.zeros(6, dtype=torch.bool)])
    allowed = seen(*predicates) & real_keys(padding)
    assert allowed.shape == (2, 1, 6, 6)
    assert drawn(allowed[0, 0]) == truth
    assert drawn(allowed[1, 0]) == drawn(seen(*predicates))


def scores(*shape: int) -> Tensor:
    """Scores far from uniform; half of them large enough to saturate a softmax."""
    generator = torch.Generator().manual_seed(0)
    drawn_scores = torch.randn(*shape, generator=generator, dtype=torch.float64) * 3
    drawn_scores[..., ::2, :] *= 30
    return drawn_scores


@pytest.mark.parametrize("mode", ["add", "mul"])
@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_query_that_sees_nothing_gets_zeros_in_value_and_gradient(
    mode: str, scale: float, dtype: torch.dtype
) -> None:
    allowed = seen(Causal()) & ~PADDING  # queries 0 and 1 see nothing
    given = (scores(2, 2, 6, 6) / 30 * scale).to(dtype).requires_grad_()
    values = torch.randn(
        2, 2, 6, 3, generator=torch.Generator().manual_seed(1), dtype=dtype
    ).requires_grad_()
    output = attention_weights(given, allowed, mode=mode) @ values
    (
        output * torch.randn(output.shape, generator=torch.Generator().manual_seed(2))
    ).sum().backward()
    assert given.grad is not None
    assert values.grad is not None
    assert (output[..., :2, :] == 0).all()
    assert (given.grad[..., :2, :] == 0).all()
    assert (values.grad[..., :2, :] == 0).all()  # and nobody looks at keys 0 and 1
    for tensor in (output, given.grad, values.grad):
        assert tensor.isfinite().all()
    if scale == 1:  # the others are alive
        assert output[..., 2:, :].abs().min() > 0
        assert given.grad[..., 3:, 2:4].abs().min() > 0


@pytest.mark.parametrize("mode", ["add", "mul"])
def test_a_mask_that_hides_nothing_is_no_mask(mode: str) -> None:
    given = scores(2, 3, 6, 6)
    assert torch.equal(attention_weights(given, seen(), mode=mode), attention_weights(given))
