"""Parameters and FLOPs: by formula, and as torch counts them."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attnexp.config.compose import compose
from attnexp.model.classifier import build_model
from attnexp.model.cost import count_flops, of_model

T, D, H, K = 80, 128, 8, 16


def test_ks_layer_by_formula() -> None:
    """Three projections, two score products, the logit: 2 for a multiply and an add."""
    projections, products = 3 * T * D * H * K, 2 * H * T * T * K
    assert of_model(compose([])) == {
        "parameters": 20_000 * D + 3 * D * H * K + H * K + 1,
        "flops_per_example": 2 * (projections + products + H * K),
    }


@pytest.mark.parametrize("words", ["model=cnn", "position=rotary", "mask=restricted", "model=mean"])
def test_flops_are_torchs(words: str) -> None:
    model = build_model(compose([words])).eval()
    ids = torch.ones(1, T, dtype=torch.int32)
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model(ids)
    assert count_flops(model, ids) == counter.get_total_flops()


@pytest.mark.parametrize(("kind", "gates"), [("lstm", 4), ("gru", 3)])
def test_recurrent_layers_count_every_gate_of_every_token(kind: str, gates: int) -> None:
    flops = of_model(compose([f"model={kind}"]))["flops_per_example"]
    assert flops == 2 * (T * gates * 2 * D * D + D)


def test_counting_leaves_the_model_as_it_was() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Linear(4, 1)).train()
    count_flops(model, torch.zeros(1, 4))
    assert model.training


def test_a_baseline_costs_a_weight_a_word_and_a_product_a_token() -> None:
    expected = {"parameters": 20_000 + 1, "flops_per_example": 2 * T}
    assert of_model(compose(["model=tfidf"])) == expected
