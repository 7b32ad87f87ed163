"""Ours is what everybody means by attention, to the last digits of float64.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attnexp.model import masks
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.scores import Additive, Cosine, DotProduct, Uniform
from attnexp.model.seams import Score
from attnexp.model.softmax import attention_weights

Float = NDArray[np.float64]

B, T = 3, 7
SCORES: dict[str, type[Score]] = {"cosine": Cosine, "additive": Additive, "uniform": Uniform}
SIZES = [(1, 4), (2, 3), (5, 1)]
"""(H, K)"""


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(
    d_input: int,
    num_heads: int,
    d_head: int,
    *,
    d_output: int | None = None,
    scale: bool = True,
    score: str = "dot",
    mask_mode: str = "add",
) -> MultiHeadSelfAttention:
    """A layer in float64, its weights large enough for attention far from uniform."""
    attention = MultiHeadSelfAttention(
        d_input,
        num_heads=num_heads,
        d_head=d_head,
        d_output=d_output,
        score=partial(DotProduct, scale=scale) if score == "dot" else SCORES[score],
        mask_mode=mask_mode,
    ).double()
    for seed, parameter in enumerate(attention.parameters()):
        nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(seed))
    return attention


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


def slow(
    attention: MultiHeadSelfAttention,
    x: Tensor,
    allowed: Tensor | None,
    *,
    d_head: int,
    scale: bool,
    score: str,
    mode: str,
) -> Float:
    """Attention as one would explain it: review by review, head by head, query by query."""
    num_heads = attention.num_heads
    num_reviews, num_tokens = len(x), x.shape[1]
    looks = np.ones((num_reviews, num_heads, num_tokens, num_tokens), bool)
    if allowed is not None:
        looks = looks & allowed.numpy()
    w_q, w_k, w_v = (
        layer.weight.detach().numpy()
        for layer in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    y = np.zeros((num_reviews, num_tokens, num_heads * d_head))
    for b, h in itertools.product(range(num_reviews), range(num_heads)):
        columns = slice(h * d_head, (h + 1) * d_head)
        tokens = x[b].detach().numpy()
        for query in range(num_tokens):
            q = w_q[columns] @ tokens[query]
            total, seen = 0.0, np.zeros(d_head)
            for key in range(num_tokens):
                match_ = float(q @ (w_k[columns] @ tokens[key]))
                if scale:
                    match_ /= math.sqrt(d_head)
                weight = 1.0 if score == "uniform" else math.exp(match_)
                visible = bool(looks[b, h, query, key])
                if visible or mode == "mul":
                    total += weight
                if visible:
                    seen += weight * (w_v[columns] @ tokens[key])
            y[b, query, columns] = seen / total if total else 0.0
    if isinstance(attention.out_proj, nn.Linear):
        y = y @ attention.out_proj.weight.detach().numpy().T
    return y


@pytest.mark.parametrize("name", ["none", "causal", "window", "padding", "causal padding", "blind"])
@pytest.mark.parametrize("mode", ["add", "mul"])
@pytest.mark.parametrize("score", ["dot", "uniform"])
@pytest.mark.parametrize("scale", [True, False])
def test_ours_is_the_slow_and_obvious_attention(
    name: str, mode: str, score: str, scale: bool
) -> None:
    for (num_heads, d_head), d_output in itertools.product(SIZES, (None, 4)):
        attention = make(
            5, num_heads, d_head, d_output=d_output, scale=scale, score=score, mask_mode=mode
        )
        x, allowed = draw(B, T, 5), pattern(name)
        ours = attention(x, allowed).detach().numpy()
        obvious = slow(attention, x, allowed, d_head=d_head, scale=scale, score=score, mode=mode)
        np.testing.assert_allclose(ours, obvious, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["none", "causal", "window", "padding"])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(("num_heads", "d_head"), SIZES)
def test_ours_is_torchs_scaled_dot_product_attention(
    name: str, scale: bool, num_heads: int, d_head: int
) -> None:
    attention, x, allowed = make(6, num_heads, d_head, scale=scale), draw(B, T, 6), pattern(name)
    q, k, v = (
        layer(x).view(B, T, num_heads, d_head).transpose(1, 2)
        for layer in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    theirs = F.scaled_dot_product_attention(q, k, v, allowed, scale=None if scale else 1.0)
    torch.testing.assert_close(attention(x, allowed), theirs.transpose(1, 2).reshape(B, T, -1))


@pytest.mark.parametrize("name", ["none", "causal", "padding", "causal padding"])
@pytest.mark.parametrize(("num_heads", "d_head"), SIZES)
def test_ours_is_torchs_multihead_attention(name: str, num_heads: int, d_head: int) -> None:
    """In outputs, attention maps and gradients; rows that see nothing, NaN there, left out."""
    width = num_heads * d_head
    attention, x = make(width, num_heads, d_head, d_output=width), draw(B, T, width)
    theirs = nn.MultiheadAttention(width, num_heads, bias=False, batch_first=True).double()
    with torch.no_grad():  # torch keeps the rows of W_Q, W_K, W_V on top of one another
        ours_in = [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]
        theirs.in_proj_weight.copy_(torch.cat(ours_in))
        theirs.out_proj.weight.copy_(attention.get_parameter("out_proj.weight"))
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[1, :2] = "padding" in name
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected, expected_map = theirs(
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


@pytest.mark.parametrize("name", ["none", "causal padding"])
@pytest.mark.parametrize("mode", ["add", "mul"])
def test_all_heads_at_once_are_a_loop_over_heads(name: str, mode: str) -> None:
    """C18: each head alone, a layer of one head with its rows of the weights."""
    num_heads, d_head = 4, 3
    attention, x = make(6, num_heads, d_head, mask_mode=mode), draw(B, T, 6)
    joined = []
    for h in range(num_heads):
        alone, rows = make(6, 1, d_head, mask_mode=mode), slice(h * d_head, (h + 1) * d_head)
        with torch.no_grad():
            for name_ in ("q_proj", "k_proj", "v_proj"):
                alone.get_parameter(f"{name_}.weight").copy_(
                    attention.get_parameter(f"{name_}.weight")[rows]
                )
        joined.append(alone(x, pattern(name)))
    torch.testing.assert_close(attention(x, pattern(name)), torch.cat(joined, dim=-1))


def test_heads_joined_by_w_o_are_a_sum_of_low_rank_maps() -> None:
    """C16: head h adds A_h X (W_up W_down)', a D x D map of rank K at most."""
    num_heads, d_head, d_model = 3, 2, 6
    attention = make(d_model, num_heads, d_head, d_output=d_model)
    x, w_o = draw(B, T, d_model), attention.get_parameter("out_proj.weight")
    maps, total = attention.weights(x), torch.zeros(B, T, d_model, dtype=torch.float64)
    for h in range(num_heads):
        block = slice(h * d_head, (h + 1) * d_head)
        low_rank = w_o[:, block] @ attention.v_proj.weight[block]
        assert low_rank.shape == (d_model, d_model)
        assert torch.linalg.matrix_rank(low_rank) == d_head
        total = total + maps[:, h] @ x @ low_rank.T
    torch.testing.assert_close(attention(x), total)


def test_queries_meet_other_keys_and_values_of_another_width() -> None:
    """C01: Q (2,3,2), K (2,8,2), V (2,8,10) -> (2,3,10); Q, Q, Q -> (2,3,2)."""
    q, k, v = draw(2, 3, 2, seed=0), draw(2, 8, 2, seed=1), draw(2, 8, 10, seed=2)
    assert (attention_weights(q @ k.mT) @ v).shape == (2, 3, 10)
    assert (attention_weights(q @ q.mT) @ q).shape == (2, 3, 2)


@pytest.mark.parametrize(("width", "d_head"), [(100, 20), (50, 10)])
@pytest.mark.parametrize("d_output", [None, 100])
def test_output_keeps_the_length_and_has_the_width_asked_for(
    width: int, d_head: int, d_output: int | None
) -> None:
    """C02: (2,4,100), 5 heads, lengths [3, 2], to 100 or 50 hidden."""
    attention = make(100, 5, d_head, d_output=d_output)
    padding = torch.arange(4) >= torch.tensor([[3], [2]])
    x, allowed = draw(2, 4, 100), masks.real_keys(padding)
    assert attention(x, allowed).shape == (2, 4, d_output or width)
    assert attention.d_output == (d_output or width)
    weights = attention.weights(x, allowed)
    assert weights.shape == (2, 5, 4, 4)
    assert torch.equal((weights > 0).sum(-1)[:, 0], torch.tensor([[3] * 4, [2] * 4]))


def independent_scores(d_head: int, *, scale: bool) -> Tensor:
    """50,000 matches of a query with a key, both of independent N(0, 1) coordinates."""
    attention = make(2 * d_head, 1, d_head, scale=scale)
    with torch.no_grad():  # queries are the first half of x, keys the second
        attention.q_proj.weight.copy_(torch.eye(d_head, 2 * d_head))
        attention.k_proj.weight.copy_(torch.eye(d_head, 2 * d_head).roll(d_head, dims=1))
    q, k = attention.queries_and_keys(draw(50_000, 1, 2 * d_head))
    scores: Tensor = attention.score(q, k)
    return scores.flatten()


@pytest.mark.parametrize("d_head", [4, 16, 64])
def test_scores_have_variance_d_k_and_dividing_restores_one(d_head: int) -> None:
    """C12. Monte Carlo, n = 50,000: 5 % is five standard errors or more."""
    raw, scaled = (independent_scores(d_head, scale=scale) for scale in (False, True))
    assert raw.mean().abs() < 5 * math.sqrt(d_head / len(raw))
    assert raw.var().item() == pytest.approx(d_head, rel=0.05)
    assert scaled.var().item() == pytest.approx(1, rel=0.05)
    torch.testing.assert_close(raw, scaled * math.sqrt(d_head))


@pytest.mark.parametrize("d_head", [16, 64])
def test_unscaled_softmax_saturates_and_its_gradients_shrink(d_head: int) -> None:
    """C12. Sum of w (1 - w): the trace of softmax's Jacobian."""
    peaks, slopes = [], []
    for scale in (True, False):
        weights = attention_weights(independent_scores(d_head, scale=scale).view(-1, 50))
        peaks.append(weights.amax(-1).mean().item())
        slopes.append((weights * (1 - weights)).sum(-1).mean().item())
    assert peaks[0] < 0.3 < 0.5 < peaks[1]
    assert slopes[1] < 0.7 * slopes[0]


@pytest.mark.parametrize("d_input", [4, 128])
@pytest.mark.parametrize(("num_heads", "d_head"), [(1, 4), (8, 16), (3, 5)])
@pytest.mark.parametrize("d_output", [None, 4, 128])
def test_parameters_are_three_projections_and_maybe_a_fourth(
    d_input: int, num_heads: int, d_head: int, d_output: int | None
) -> None:
    """C13: K's layer 3 H D K; with W_O back to width D, the paper's 4 H D K."""
    attention = make(d_input, num_heads, d_head, d_output=d_output)
    count = sum(parameter.numel() for parameter in attention.parameters())
    assert count == 3 * num_heads * d_input * d_head + num_heads * d_head * (d_output or 0)
    if d_output == d_input:
        assert count == num_heads * d_input * (d_head + d_head + 2 * d_head)


def test_no_later_token_changes_an_earlier_output_under_a_causal_mask() -> None:
    """C14, to the bit; and without the mask it does."""
    x = draw(B, T, 6)
    other = x.clone()
    other[:, 4:] = draw(B, 3, 6, seed=1)
    for mode in ("add", "mul"):
        attention = make(6, 2, 3, mask_mode=mode)
        changed = (attention(x, pattern("causal")) != attention(other, pattern("causal"))).any(-1)
        if mode == "add":
            assert changed.tolist() == [[False] * 4 + [True] * 3] * B
        else:  # zeroed after softmax, later keys still stand in its denominator
            assert changed.all()
        assert (attention(x) != attention(other)).any(-1).all()
        above = ~masks.Causal()(*masks.grid(T))
        assert (attention.weights(x, pattern("causal"))[..., above] == 0).all()


@pytest.mark.parametrize("score", ["dot", "uniform"])
def test_without_order_attention_is_permutation_equivariant(score: str) -> None:
    """C04: swap two tokens and y1[0] = y2[1]; padding moves along with its token."""
    attention, x = make(6, 2, 3, score=score), draw(B, T, 6)
    swapped = x[:, [1, 0, *range(2, T)]]
    torch.testing.assert_close(attention(x)[:, 0], attention(swapped)[:, 1])
    order = torch.randperm(T, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(attention(x[:, order]), attention(x)[:, order])
    padding = draw(B, T, seed=1) > 0.5
    torch.testing.assert_close(
        attention(x[:, order], masks.real_keys(padding[:, order])),
        attention(x, masks.real_keys(padding))[:, order],
    )


@pytest.mark.parametrize("name", ["causal", "window"])
def test_a_causal_mask_or_a_window_makes_attention_aware_of_order(name: str) -> None:
    """C04, and why masks and positions are crossed."""
    attention, x = make(6, 2, 3), draw(B, T, 6)
    order = torch.randperm(T, generator=torch.Generator().manual_seed(0))
    one = attention(x, pattern(name)).mean(1)
    assert (attention(x[:, order], pattern(name)).mean(1) - one).abs().max() > 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_scores_give_every_key_exactly_the_same(dtype: torch.dtype) -> None:
    attention, x = make(6, 2, 3, score="uniform").to(dtype), draw(B, T, 6).to(dtype)
    weights = attention.weights(x)
    assert weights.shape == (B, 2, T, T)
    assert torch.equal(weights, torch.full_like(weights, 1 / T))


@pytest.mark.parametrize("name", ["causal", "window", "padding", "blind"])
def test_uniform_scores_under_a_mask_share_among_the_keys_that_are_seen(name: str) -> None:
    """Mode add: 1 / number allowed. Mode mul: still 1 / T each."""
    allowed = pattern(name)
    assert allowed is not None
    seen = allowed.expand(B, 2, T, T).double()
    added = make(6, 2, 3, score="uniform", mask_mode="add").weights(draw(B, T, 6), allowed)
    assert torch.equal(added, seen / seen.sum(-1, keepdim=True).clamp(min=1))
    zeroed = make(6, 2, 3, score="uniform", mask_mode="mul").weights(draw(B, T, 6), allowed)
    assert torch.equal(zeroed, seen / T)
