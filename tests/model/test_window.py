"""Restricted attention is masked attention, at a price that grows with the window."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
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


@given(
    num_tokens=st.integers(1, 101),
    radius=st.integers(0, 110) | st.just(1_000),
    share=st.none() | st.floats(0, 1),
    seed=st.integers(0, 1_000),
)
def test_restricted_attention_is_masked_attention(
    num_tokens: int, radius: int, share: float | None, seed: int
) -> None:
    """C19, C23. Padding may well cover the review."""
    generator = torch.Generator().manual_seed(seed)
    real_keys = None if share is None else torch.rand(3, num_tokens, generator=generator) < share
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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"mode": "mul"}, "mode 'add' only"), ({"radius": -1}, "0 or more; got -1")],
)
def test_what_cannot_be_restricted_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        window_attention(*qkv(1, 1, 5, 2, 2), **{"radius": 1, **wrong})


def flops(num_tokens: int, radius: int, attend: Callable[..., Tensor] = window_attention) -> int:
    """Forward and backward, products alone."""
    q, k, v = (tensor.requires_grad_() for tensor in qkv(1, 2, num_tokens, 3, 3))
    with FlopCounterMode(display=False) as counter:
        attend(q, k, v, radius=radius).sum().backward()
    return int(counter.get_total_flops())


@pytest.mark.parametrize("radius", [16, 24, 47, 1_000])
def test_a_wide_window_costs_no_more_than_the_whole_map(radius: int) -> None:
    assert flops(48, radius) <= flops(48, radius, masked_attention)
