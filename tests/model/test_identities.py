"""What is known of models besides their formulas: paths, places, dropout, starts, costs."""

import json
import math
from pathlib import Path

import pytest
import torch
from samples import redrawn
from test_oracle import SMALL, gradients, texts

from attnexp.config.compose import compose
from attnexp.config.schema import Precision
from attnexp.model.positions import RotaryPosition
from attnexp.network.build import build_model
from attnexp.network.cost import cost_of
from attnexp.network.fast import take_fast_path


@pytest.mark.parametrize("words", ["", "position=learned mask=padding_causal", "position=rotary"])
def test_only_the_cpu_in_fp32_goes_by_hand(words: str) -> None:
    config = compose([*SMALL, *words.split()])
    expected = "pooled" if "rotary" in words else "words"
    assert take_fast_path(build_model(config)) == expected
    assert take_fast_path(build_model(config), Precision.bf16) == "pooled"
    assert take_fast_path(build_model(config).to("meta")) == "pooled"


@pytest.mark.parametrize("words", ["", "mask=causal", "mask=padding position=learned"])
def test_scores_whose_exponentials_no_float64_holds_go_by_hand_too(words: str) -> None:
    """Scores of some thousands."""
    config = compose([*SMALL, *words.split()])
    reference, by_hand = (redrawn(build_model(config), std=6) for _ in range(2))
    assert take_fast_path(by_hand) == "words"
    logits = reference(texts())
    torch.testing.assert_close(by_hand(texts()), logits)
    torch.testing.assert_close(gradients(by_hand(texts()), by_hand), gradients(logits, reference))


def test_rotary_knows_sixteen_thousand_positions() -> None:
    turned = RotaryPosition(2)(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([2**14 - 1]))
    angle = torch.tensor(2.0**14 - 1, dtype=torch.float64)
    torch.testing.assert_close(turned.flatten().double(), torch.stack([angle.cos(), angle.sin()]))


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


SMALLER = "data=contrast data.max_len=9 data.vocab_size=30 model.d_model=8 seed=5".split()
GOLDEN = json.loads((Path(__file__).parent / "start_weights.json").read_text())
"""As the code of January 2026 drew them: a fingerprint of each parameter by name and shape, and the
first number that the global generator gives after a model is built from seed 0."""


@pytest.mark.parametrize("words", GOLDEN["next draw"])
def test_a_model_starts_from_the_weights_that_it_always_had(words: str) -> None:
    narrow = [] if words.startswith("model=") else ["model.heads=2", "model.d_head=4"]
    torch.manual_seed(0)
    model = build_model(compose([*SMALLER, *narrow, *words.split()]))
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
