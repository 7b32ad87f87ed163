"""Restricted attention is masked attention, at a price that grows with the window."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attnexp.claims.measure import normal
from attnexp.model import masks
from attnexp.model.softmax import attention_weights
from attnexp.model.window import window_attention


def qkv(batch: int, heads: int, num_tokens: int, d_head: int, d_value: int) -> list[Tensor]:
    return [
        normal(batch, heads, num_tokens, d_head, seed=1),
        normal(batch, heads, num_tokens, d_head, seed=2),
        normal(batch, heads, num_tokens, d_value, seed=3),
    ]


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, *, radius: int, real_keys: Tensor | None = None
) -> Tensor:
    """The whole (T, T) map, of which the window leaves a band."""
    allowed = masks.Window(radius=radius)(*masks.grid(q.shape[-2]))
    if real_keys is not None:
        allowed = allowed & masks.real_keys(~real_keys)
    return attention_weights(q @ k.mT, allowed) @ v


def with_gradients(attend: Callable[..., Tensor], tensors: list[Tensor]) -> list[Tensor]:
    """The output, then the gradients of q, k and v under a loss that weighs every number."""
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    y = attend(*leaves)
    (y * normal(*y.shape, seed=4)).sum().backward()
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    assert len(gradients) == 3
    return [y.detach(), *gradients]


def assert_equal(tensors: list[Tensor], *, radius: int, real_keys: Tensor | None) -> None:
    """In value and in gradient."""
    expected = with_gradients(
        lambda q, k, v: masked_attention(q, k, v, radius=radius, real_keys=real_keys), tensors
    )
    got = with_gradients(
        lambda q, k, v: window_attention(q, k, v, radius=radius, real_keys=real_keys), tensors
    )
    for one, other in zip(got, expected, strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("num_tokens", [1, 16, 17, 80, 101])
@pytest.mark.parametrize("radius", [0, 1, 16, 23, 80, 1_000])
def test_restricted_attention_is_masked_attention(num_tokens: int, radius: int) -> None:
    """C23."""
    assert_equal(qkv(2, 2, num_tokens, 3, 4), radius=radius, real_keys=None)


@settings(deadline=None)
@given(
    num_tokens=st.integers(1, 70),
    radius=st.integers(0, 75),
    share=st.floats(0, 1),
    seed=st.integers(0, 1_000),
)
def test_any_key_may_be_hidden(num_tokens: int, radius: int, share: float, seed: int) -> None:
    """C19, C23. Padding may well cover the review."""
    generator = torch.Generator().manual_seed(seed)
    real_keys = torch.rand(3, num_tokens, generator=generator) < share
    assert_equal(qkv(3, 2, num_tokens, 3, 2), radius=radius, real_keys=real_keys)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("num_tokens", [10, 64])
def test_a_query_with_no_key_in_its_window_gets_zeros(
    num_tokens: int, dtype: torch.dtype, scale: float
) -> None:
    real_keys = torch.ones(2, num_tokens, dtype=torch.bool)
    real_keys[0, :7] = False  # and with radius 2, queries 0 to 4 see nothing
    real_keys[1] = False
    q, k, v = (tensor.to(dtype) * scale for tensor in qkv(2, 2, num_tokens, 3, 2))
    y, *gradients = with_gradients(
        lambda q, k, v: window_attention(q, k, v, radius=2, real_keys=real_keys), [q, k, v]
    )
    assert y.dtype is dtype
    for tensor in (y, *gradients):
        assert tensor.isfinite().all()
        assert (tensor[1] == 0).all()
        assert (tensor[0, :, :5] == 0).all()
    assert (y[0, :, 5:] != 0).all()


def test_heads_may_be_views_of_one_projection() -> None:
    q, k, v = (
        tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in qkv(2, 3, 70, 4, 4)
    )
    assert not q.is_contiguous()
    assert_equal([q, k, v], radius=9, real_keys=None)


@pytest.mark.parametrize("mode", ["mul", "x"])
def test_a_softmax_over_all_keys_cannot_be_restricted(mode: str) -> None:
    with pytest.raises(ValueError, match=f"mode 'add' only; got mode '{mode}'"):
        window_attention(*qkv(1, 1, 5, 2, 2), radius=1, mode=mode)


def test_a_radius_is_not_negative() -> None:
    with pytest.raises(ValueError, match="radius must be 0 or more; got -1"):
        window_attention(*qkv(1, 1, 5, 2, 2), radius=-1)


def flops(num_tokens: int, radius: int, attend: Callable[..., Tensor] = window_attention) -> int:
    """Forward and backward, products alone."""
    q, k, v = (tensor.requires_grad_() for tensor in qkv(1, 2, num_tokens, 3, 3))
    with FlopCounterMode(display=False) as counter:
        attend(q, k, v, radius=radius).sum().backward()
    return int(counter.get_total_flops())


@pytest.mark.parametrize("radius", [16, 24, 47, 1_000])
def test_a_wide_window_costs_no_more_than_the_whole_map(radius: int) -> None:
    assert flops(48, radius) <= flops(48, radius, masked_attention)
