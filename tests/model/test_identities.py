"""What is known of attention besides its formulas: torch's layers, order, padding, dropout."""

from typing import Any

import pytest
import torch
from test_oracle import SMALL, redrawn, texts
from torch import Tensor, nn

from attnexp.config.compose import compose, overlay
from attnexp.config.options import groups, name_of, read
from attnexp.config.schema import flatten, to_dict
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.positions import RotaryPosition
from attnexp.model.scores import Causal, grid, real_keys
from attnexp.model.seams import Baseline
from attnexp.network.build import build_model
from attnexp.network.fast import take_fast_path
from attnexp.report import advice


@pytest.mark.parametrize("mask", [~Causal()(*grid(5)), torch.zeros(5, 5, dtype=torch.bool)])
def test_ours_is_torchs_multihead_attention(mask: Tensor) -> None:
    """mask: True where a query may not look."""
    ours = redrawn(MultiHeadSelfAttention(8, num_heads=2, d_head=4, d_output=8))
    theirs = nn.MultiheadAttention(8, 2, bias=False, batch_first=True).double()
    with torch.no_grad():  # torch keeps the rows of W_Q, W_K, W_V on top of one another
        projections = ours.q_proj, ours.k_proj, ours.v_proj
        theirs.in_proj_weight.copy_(torch.cat([each.weight for each in projections]))
        theirs.out_proj.weight.copy_(ours.out_proj.weight)
    x, padding = torch.eye(5, 8).double().expand(2, -1, -1), torch.arange(10).view(2, 5) > 7
    allowed = real_keys(padding) & ~mask
    y, weights = theirs(x, x, x, padding, attn_mask=mask, average_attn_weights=False)
    torch.testing.assert_close(ours(x, allowed), y)
    torch.testing.assert_close(ours.weights(x, allowed), weights)


def test_rotary_knows_sixteen_thousand_positions() -> None:
    turned = RotaryPosition(2)(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([2**14 - 1]))
    angle = torch.tensor(2.0**14 - 1, dtype=torch.float64)
    torch.testing.assert_close(turned.flatten().double(), torch.stack([angle.cos(), angle.sin()]))


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


def test_advice_knows_the_pieces_that_see_no_order_of_words() -> None:
    texts = torch.arange(4, 22).view(2, 9)
    permuted = texts[:, [3, 1, 6, 0, 5, 2, 4, 8, 7]]
    blind: set[str] = set()
    for group in ("model", "model.before", "model.pooling", "model.score", "position", "mask"):
        section, _, piece = group.partition(".")
        for option in {*groups()[group]} - {"shuffled"}:  # whose class else sees it
            settings = read(group, option)
            settings.pop("defaults", None)  # which are other pieces
            tree: Any = {"data": {"max_len": 9, "vocab_size": 22}}
            tree["model"] = {"kind": "attnexp.model.attention:Attention"}
            tree[section] = {**tree["model"], piece: settings} if piece else settings
            config = overlay(tree, [])
            model = redrawn(build_model(config)).eval()
            if isinstance(model, Baseline):
                model.fit(texts, torch.tensor([0, 1]))
            if torch.allclose(model(texts), model(permuted), rtol=0.0, atol=1e-9):
                kinds = [
                    kind for key, kind in flatten(to_dict(config)).items() if key.endswith(".kind")
                ]
                blind |= {*map(name_of, kinds)}
    assert blind == advice.BLIND


DROPOUT = [
    *("mask.padding=true", "model.attention_dropout=0.3", "model.d_value=1 model.heads=3"),
    "model.pooling=max model.layers=2 model.layer_dropout=0.3 position=learned",
]


@pytest.mark.parametrize("words", DROPOUT)
def test_dropout_acts_in_training_alone_and_draws_alike_on_the_fast_path(words: str) -> None:
    config = compose([*SMALL[:-1], "model.dropout=0.5", *words.split()])
    logits = []
    for is_fast in (False, True):
        model = redrawn(build_model(config)).train()
        assert not is_fast or take_fast_path(model)
        torch.manual_seed(0)
        logits.append(model(texts()))
        assert not torch.equal(model(texts()), logits[-1])
        assert torch.equal(model.eval()(texts()), model(texts()))
    torch.testing.assert_close(*logits)
