"""What is known of attention besides its formulas: torch's layers, order, padding, dropout."""

import pytest
import torch
from test_oracle import SMALL, redrawn, texts
from torch import Tensor, nn

from attnexp.config.compose import compose
from attnexp.model.attention import Block, MultiHeadSelfAttention
from attnexp.model.classifier import build_model, take_fast_path
from attnexp.model.positions import shuffled_positions
from attnexp.model.scores import Causal, Window, attention_weights, grid, real_keys
from attnexp.model.window import window_attention

B, T, D = 2, 5, 8


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("is_causal", [False, True])
def test_ours_is_torchs_multihead_attention_and_encoder_layer(is_causal: bool) -> None:
    attention = MultiHeadSelfAttention(D, num_heads=2, d_head=4, d_output=D)
    ours = Block(attention, d_input=D, residual=True, norm="post", d_feed_forward=6)
    redrawn(ours)
    theirs = nn.TransformerEncoderLayer(
        D, 2, dim_feedforward=6, dropout=0.0, batch_first=True, layer_norm_eps=1e-6
    ).double()  # in training mode, where it takes no shortcut
    ours_by_theirs = {
        "self_attn.in_proj_weight": torch.cat(
            [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]
        ),
        "self_attn.in_proj_bias": torch.zeros(3 * D),
        "self_attn.out_proj.weight": attention.get_parameter("out_proj.weight"),
        "self_attn.out_proj.bias": torch.zeros(D),
    }
    for one, other in (("linear1", "feed_forward.up"), ("linear2", "feed_forward.down"),
                       ("norm1", "norms.0"), ("norm2", "norms.1")):  # fmt: skip
        for name in ("weight", "bias"):
            ours_by_theirs[f"{one}.{name}"] = ours.get_parameter(f"{other}.{name}")
    theirs.load_state_dict(ours_by_theirs)
    x, padding = normal(B, T, D), torch.zeros(B, T, dtype=torch.bool)
    padding[1, 3:] = True
    causal = Causal()(*grid(T))
    allowed = real_keys(padding) & causal if is_causal else real_keys(padding)
    mask = ~causal if is_causal else None
    expected = theirs(x, src_mask=mask, src_key_padding_mask=padding)
    torch.testing.assert_close(ours(x, padding, allowed), expected)
    _, weights = theirs.self_attn(
        x, x, x, key_padding_mask=padding, attn_mask=mask, average_attn_weights=False
    )
    torch.testing.assert_close(attention.weights(x, allowed), weights)


BLIND = ["", "model.layers=2 mask.padding=true", "position=shuffled", "model=mean"]
AWARE = ["position=sinusoidal", "position=rotary", "position=alibi", "mask=causal", "model=cnn"]


@pytest.mark.parametrize("words", BLIND + AWARE)
def test_order_matters_where_a_piece_knows_it_and_nowhere_else(words: str) -> None:
    """C04. Padding stays in front."""
    model = redrawn(build_model(compose([*SMALL, "model.pooling=masked_mean", *words.split()])))
    ids = texts()
    shuffled = torch.stack([ids[0, [3, 1, 6, 0, 5, 2, 4]], ids[1, [0, 1, 2, 5, 6, 4, 3]], ids[2]])
    moved = (model(shuffled) - model(ids)).abs()
    assert (moved < 1e-9).all() if words in BLIND else (moved[:2] > 1e-4).all()


def test_no_two_words_share_a_place_when_shuffled() -> None:
    """A tie would be broken by order. The hash is one-to-one, and knows nothing of frequency."""
    ids = torch.arange(300_000)
    positions = shuffled_positions(torch.stack([ids, ids.flip(0)]))
    assert torch.equal(positions[0], positions[1].flip(0))
    assert abs(torch.corrcoef(torch.stack([ids, positions[0]]))[0, 1]) < 0.01


@pytest.mark.parametrize("num_tokens", [1, 15, 16, 17, 33, 64])
@pytest.mark.parametrize("radius", [0, 1, 5, 16, 40])
def test_window_attention_is_masked_attention(num_tokens: int, radius: int) -> None:
    """In value and in gradient; a query with no key in its window gets zeros."""
    q, k, v = (normal(2, 2, num_tokens, 3, seed=seed).requires_grad_() for seed in range(3))
    real = torch.rand(2, num_tokens, generator=torch.Generator().manual_seed(0)) < 0.3
    allowed = Window(radius=radius)(*grid(num_tokens)) & real[:, None, None]
    expected = attention_weights(q @ k.mT, allowed) @ v
    y = window_attention(q, k, v, radius=radius, real_keys=real)
    assert (y[~allowed.any(-1).expand(2, 2, -1)] == 0).all()
    for one, other in zip(
        (y, *torch.autograd.grad(y.square().sum(), (q, k, v))),
        (expected, *torch.autograd.grad(expected.square().sum(), (q, k, v))),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "words",
    [
        *("", "mask.padding=true mask.query=true", "model.layers=2", "model.pooling=last"),
        *("model.attention_dropout=0.3", "model.d_value=1 model.heads=3 model.d_head=2"),
        "model.pooling=max model.layers=2 model.layer_dropout=0.3 position=learned",
        "position=sinusoidal position.dropout=0.2 model.residual=true model.output_projection=true",
    ],
)
def test_dropout_acts_in_training_alone_and_draws_alike_on_the_fast_path(words: str) -> None:
    config = compose([*SMALL[:-1], "model.dropout=0.5", *words.split()])
    logits = []
    for is_fast in (False, True):
        model = redrawn(build_model(config)).train()
        assert not is_fast or take_fast_path(model) in ("pooled", "fused", "reference")
        torch.manual_seed(0)
        logits.append(model(texts()))
        assert not torch.equal(model(texts()), logits[-1])
        assert torch.equal(model.eval()(texts()), model(texts()))
    torch.testing.assert_close(*logits)
