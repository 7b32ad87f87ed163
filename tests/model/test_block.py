"""Residual, LayerNorm and feed-forward around attention, against the formulas of the paper."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.block import Block

B, T, D = 2, 5, 8
X = torch.randn(B, T, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
NO_PADDING = torch.zeros(B, T, dtype=torch.bool)


def block(**pieces: object) -> Block:
    torch.manual_seed(0)
    attention = MultiHeadSelfAttention(D, num_heads=2, d_head=4)
    return Block(attention, d_input=D, **pieces).double().eval()  # type: ignore[arg-type]


def norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, (D,), eps=1e-6)


def test_bare_it_is_the_attention() -> None:
    bare = block()
    assert torch.equal(bare(X, NO_PADDING), bare.attention(X))


def test_pre_norm_stands_before_each_layer() -> None:
    layer = block(residual=True, norm="pre", d_feed_forward=6)
    assert layer.feed_forward is not None
    x = X + layer.attention(norm(X))
    torch.testing.assert_close(layer(X, NO_PADDING), x + layer.feed_forward(norm(x)))


def test_post_norm_is_torchs_encoder_layer() -> None:
    """Same weights, no biases in attention: `nn.TransformerEncoderLayer`."""
    attention = MultiHeadSelfAttention(D, num_heads=2, d_head=4, d_output=D)
    ours = Block(attention, d_input=D, residual=True, norm="post", d_feed_forward=6).double().eval()
    theirs = nn.TransformerEncoderLayer(
        D, 2, dim_feedforward=6, dropout=0.0, batch_first=True, layer_norm_eps=1e-6
    ).double()  # in training mode, where it takes no shortcut
    packed = [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]
    theirs.self_attn.in_proj_weight.data = torch.cat(packed)
    theirs.self_attn.out_proj.weight.data = attention.out_proj.weight.data  # type: ignore[assignment]
    assert ours.feed_forward is not None
    theirs.linear1.load_state_dict(ours.feed_forward.up.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.down.state_dict())
    nn.init.zeros_(theirs.self_attn.in_proj_bias)
    nn.init.zeros_(theirs.self_attn.out_proj.bias)
    torch.testing.assert_close(ours(X, NO_PADDING), theirs(X))
