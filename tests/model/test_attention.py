"""Ours is what everybody means by attention, to the last digits of float64.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

import math
from typing import Any

import pytest
import torch
from samples import redrawn
from torch import Tensor, nn

from attnexp.claims.measure import normal
from attnexp.model import masks
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.biases import AlibiBias, RelativeBias
from attnexp.model.rotary import RotaryPosition
from attnexp.model.scores import Additive, Cosine, DotProduct, Uniform

B, T, D, H, K = 2, 5, 8, 2, 4
SIZES = [(1, 4), (2, 3), (5, 1)]
"""(H, K)"""

PIECES: dict[str, dict[str, Any]] = {
    "none": {},
    "output": {"d_output": 5},
    "one head": {"num_heads": 1},
    "rotary": {"rotary": RotaryPosition(K)},
    "relative": {"bias": RelativeBias(H, max_distance=2)},
    "alibi": {"bias": AlibiBias(H)},
    "wide": {"d_query": 7, "d_key": 7},
    "cosine": {"score": Cosine},
    "additive": {"score": Additive, "d_query": 3, "d_key": 5, "d_value": 2},
    "uniform": {"score": Uniform},
    "additive alibi": {"score": Additive, "bias": AlibiBias(H)},
}


def make(d_input: int, **pieces: Any) -> MultiHeadSelfAttention:
    return redrawn(MultiHeadSelfAttention(d_input, **pieces))


def pattern(name: str) -> Tensor | None:
    """A mask by name. `blind`: the first review hides all its keys, the second its first two."""
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[1, :2] = True
    match name:
        case "none":
            return None
        case "causal":
            return masks.Causal()(*masks.grid(T))
        case "window":
            return masks.Window(radius=1)(*masks.grid(T))
        case "padding":
            return masks.real_keys(padding)
        case "causal padding":
            return masks.Causal()(*masks.grid(T)) & masks.real_keys(padding)
        case _:
            padding[0] = True
            return masks.real_keys(padding)


def score(attention: MultiHeadSelfAttention, h: int, q: Tensor, k: Tensor, i: int, j: int) -> float:
    """Score of query i with key j in head h. q, k: (K,)."""
    if attention.rotary is not None:
        q, k = (
            attention.rotary(one.view(1, 1, 1, -1), torch.tensor([at])).view(-1)
            for one, at in ((q, i), (k, j))
        )
    if isinstance(attention.score, DotProduct):
        found = float(q @ k) / math.sqrt(len(k))
    elif isinstance(attention.score, Cosine):
        found = float(attention.score.log_temperature[h].exp() * (q @ k) / (q.norm() * k.norm()))
    elif isinstance(attention.score, Additive):
        hidden = (q @ attention.score.query[h] + k @ attention.score.key[h]).tanh()
        found = float(hidden @ attention.score.value[h])
    else:
        found = 0.0
    if attention.bias is not None:
        found += float(attention.bias(torch.arange(T))[h, i, j])
    return found


def slow(attention: MultiHeadSelfAttention, x: Tensor, allowed: Tensor | None, mode: str) -> Tensor:
    """Attention as one would explain it: review by review, head by head, query by query."""
    q, k, v = (
        layer(x).unflatten(-1, (attention.num_heads, -1))
        for layer in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    looks = torch.ones(B, attention.num_heads, T, T, dtype=torch.bool)
    if allowed is not None:
        looks = looks & allowed
    y = torch.zeros_like(v)
    for b in range(B):
        for h in range(attention.num_heads):
            for i in range(T):
                weights = [
                    math.exp(score(attention, h, q[b, i, h], k[b, j, h], i, j)) for j in range(T)
                ]
                seen = [j for j in range(T) if looks[b, h, i, j]]
                total = sum(weights[j] for j in (seen if mode == "add" else range(T)))
                for j in seen:
                    y[b, i, h] += weights[j] / total * v[b, j, h]
    joined: Tensor = attention.out_proj(y.flatten(-2))
    return joined


@pytest.mark.parametrize("pieces", PIECES)
@pytest.mark.parametrize("name", ["none", "causal", "window", "padding", "causal padding", "blind"])
@pytest.mark.parametrize("mode", ["add", "mul"])
def test_ours_is_the_slow_and_obvious_attention(pieces: str, name: str, mode: str) -> None:
    widths = {"num_heads": H, "d_head": K, "mask_mode": mode}
    attention, x = make(D, **widths | PIECES[pieces]), normal(B, T, D)
    with torch.no_grad():
        obvious = slow(attention, x, pattern(name), mode)
        torch.testing.assert_close(attention(x, pattern(name)), obvious, rtol=1e-10, atol=1e-12)


def torchs(attention: MultiHeadSelfAttention, dropout: float = 0.0) -> nn.MultiheadAttention:
    """torch's layer with the weights of ours, which has a square output projection."""
    width, num_heads = attention.q_proj.weight.shape[1], attention.num_heads
    layer = nn.MultiheadAttention(width, num_heads, dropout, bias=False, batch_first=True).double()
    with torch.no_grad():  # torch keeps the rows of W_Q, W_K, W_V on top of one another
        projections = attention.q_proj, attention.k_proj, attention.v_proj
        layer.in_proj_weight.copy_(torch.cat([each.weight for each in projections]))
        layer.out_proj.weight.copy_(attention.get_parameter("out_proj.weight"))
    return layer


@pytest.mark.parametrize("name", ["none", "causal", "padding", "causal padding"])
@pytest.mark.parametrize(("num_heads", "d_head"), SIZES)
def test_ours_is_torchs_multihead_attention(name: str, num_heads: int, d_head: int) -> None:
    """In outputs, attention maps and gradients; rows that see nothing, NaN there, left out."""
    width = num_heads * d_head
    attention = make(width, num_heads=num_heads, d_head=d_head, d_output=width)
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[1, :2] = "padding" in name
    x = normal(B, T, width)
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected, expected_map = torchs(attention)(
        *(other, other, other),
        key_padding_mask=padding if "padding" in name else None,
        attn_mask=~masks.Causal()(*masks.grid(T)) if "causal" in name else None,
        average_attn_weights=False,
    )
    output, allowed = attention(one, pattern(name)), pattern(name)
    seeing = torch.ones(B, T, dtype=torch.bool)
    if name == "causal padding":
        seeing[1, :2] = False
        assert (output[~seeing] == 0).all()
        expected_map = expected_map.nan_to_num()
    torch.testing.assert_close(output[seeing], expected[seeing])
    torch.testing.assert_close(attention.weights(x, allowed), expected_map)
    if name != "causal padding":
        output.square().sum().backward()
        expected.square().sum().backward()
        torch.testing.assert_close(one.grad, other.grad)


def test_dropout_on_attention_weights_is_torchs() -> None:
    """Equal without; in mean and variance over 20,000 draws with, each within 5 standard errors."""
    ours = make(D, num_heads=H, d_head=K, d_output=D, dropout=0.3)
    theirs, x = torchs(ours, 0.3), normal(1, T, D)
    expected = theirs.eval()(x, x, x)[0]
    torch.testing.assert_close(ours.eval()(x), expected)
    torch.manual_seed(0)
    x, num = x.expand(20_000, -1, -1), 20_000
    with torch.no_grad():
        one, other = ours.train()(x), theirs.train()(x, x, x)[0]
    assert one.std(0).min() > 0.01
    error = (one.var(0) / num + other.var(0) / num).sqrt()
    assert ((one.mean(0) - other.mean(0)).abs() < 5 * error).all()
    torch.testing.assert_close(one.var(0), other.var(0), rtol=0.1, atol=0)
    torch.testing.assert_close(one.mean(0), expected[0], rtol=0, atol=float(5 * error.max()))
