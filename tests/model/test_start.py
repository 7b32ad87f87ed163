"""Weights at the start: those that they always were, by Keras's rules; and what a model costs."""

import json
import math
from pathlib import Path

import pytest
import torch

from attnexp.config.compose import compose
from attnexp.network.build import build_model
from attnexp.network.cost import cost_of

SMALL = "data=contrast data.max_len=9 data.vocab_size=30 model.d_model=8 seed=5".split()
GOLDEN = json.loads((Path(__file__).parent / "start_weights.json").read_text())
"""As the code of January 2026 drew them: a fingerprint of each parameter by name and shape, and the
first number that the global generator gives after a model is built from seed 0."""


@pytest.mark.parametrize("words", GOLDEN["next draw"])
def test_a_model_starts_from_the_weights_that_it_always_had(words: str) -> None:
    narrow = [] if words.startswith("model=") else ["model.heads=2", "model.d_head=4"]
    torch.manual_seed(0)
    model = build_model(compose([*SMALL, *narrow, *words.split()]))
    assert torch.rand(()).item() == pytest.approx(GOLDEN["next draw"][words], abs=1e-6)
    for name, parameter in model.named_parameters():
        expected = GOLDEN["weights"][f"{name} {'x'.join(map(str, parameter.shape))}"]
        values = parameter.detach().double().flatten()
        fingerprint = values @ torch.arange(1.0, len(values) + 1, dtype=torch.float64).cos()
        assert float(fingerprint) == pytest.approx(expected, rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize("word", ["model.output_projection=true", "model.score=additive"])
def test_weights_start_as_keras_starts_them(word: str) -> None:
    """Embedding uniform within 0.05, matrices Glorot uniform, a head's each by itself, bias 0."""
    model = build_model(compose([word, "model.d_model=64", "data.vocab_size=2000"]))
    assert (model.get_parameter("output.bias") == 0).all()
    for name, parameter in model.named_parameters():
        values = parameter.detach().double().flatten()
        bound = 0.05 if name == "embedding.weight" else math.sqrt(6 / sum(parameter.shape[-2:]))
        if len(values) > 1000:  # uniform: variance bound^2 / 3
            assert 0.95 * bound < values.abs().max() <= bound * (1 + 1e-6), name  # float32
            assert float(values.var()) == pytest.approx(bound**2 / 3, rel=0.05), name
            assert abs(values.mean()) < 0.05 * bound, name


T, D, H, K = 80, 128, 8, 16


@pytest.mark.parametrize(
    ("words", "parameters", "flops"),
    [  # three projections, two score products, the logit: 2 for a multiply and an add
        ("", 3 * D * H * K + H * K + 1, 2 * (3 * T * D * H * K + 2 * H * T * T * K + H * K)),
        ("model=lstm", 4 * (2 * D * D + D) + D + 1, 2 * (T * 4 * 2 * D * D + D)),
        ("model=mean model.freeze=true", D + 1 - 20_000 * D, 2 * D),
        ("model=tfidf", 20_000 + 1 - 20_000 * D, 2 * T),
    ],
)
def test_cost_by_formula(words: str, parameters: int, flops: int) -> None:
    config = compose(words.split())
    model = build_model(config)
    torch.manual_seed(0)
    cost = cost_of(model, config.data.max_len)
    assert cost == {"parameters": 20_000 * D + parameters, "flops_per_example": flops}
    assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(0))
