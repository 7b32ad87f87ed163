"""Weights at the start: those that they always were, by Keras's rules, and what a model costs."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from attnexp.config.compose import compose
from attnexp.model.classifier import build_model, cost_of, set_word_vectors
from attnexp.model.init import Stream, init_weights

SMALL = "data=contrast data.max_len=9 data.vocab_size=30 model.d_model=8 seed=5".split()
GOLDEN = json.loads((Path(__file__).parent / "start_weights.json").read_text())
"""As the code of January 2026 drew them: a fingerprint of each parameter by name and shape, and the
first number that the global generator gives after a model is built from seed 0."""


def fingerprint(parameter: torch.Tensor) -> float:
    """One number that changes with every value and with their order."""
    values = parameter.detach().double().flatten()
    return float(values @ torch.arange(1.0, len(values) + 1, dtype=torch.float64).cos())


@pytest.mark.parametrize("words", GOLDEN["next draw"])
def test_a_model_starts_from_the_weights_that_it_always_had(words: str) -> None:
    narrow = [] if words.startswith("model=") else ["model.heads=2", "model.d_head=4"]
    torch.manual_seed(0)
    model = build_model(compose([*SMALL, *narrow, *words.split()]))
    assert torch.rand(()).item() == pytest.approx(GOLDEN["next draw"][words], abs=1e-6)
    for name, parameter in model.named_parameters():
        expected = GOLDEN["weights"][f"{name} {'x'.join(map(str, parameter.shape))}"]
        assert fingerprint(parameter) == pytest.approx(expected, rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize("word", ["model.output_projection=true", "model.score=additive"])
def test_weights_start_as_keras_starts_them(word: str) -> None:
    """Embedding uniform within 0.05, matrices Glorot uniform, those of a head each by itself, bias
    0; the spread fills both."""
    model = build_model(compose([word, "model.d_model=64", "data.vocab_size=2000"]))
    for name, parameter in model.named_parameters():
        values = parameter.detach().double().flatten()
        if name == "output.bias":
            assert (values == 0).all()
            continue
        bound = 0.05 if name == "embedding.weight" else math.sqrt(6 / sum(parameter.shape[-2:]))
        assert 0.9 * bound < values.abs().max() <= bound * (1 + 1e-6), name  # float32
        if len(values) > 1000:  # uniform: variance bound^2 / 3
            assert float(values.var()) == pytest.approx(bound**2 / 3, rel=0.05), name
            assert abs(values.mean()) < 0.05 * bound, name


def test_a_module_that_says_how_is_initialised_by_its_full_name_and_others_are_left() -> None:
    class Says(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = nn.Parameter(torch.zeros(3))

        def init_parameters(self, stream: Stream) -> None:
            nn.init.uniform_(self.x, generator=stream("x"))

    model = nn.ModuleDict({"one": Says(), "other": Says(), "plain": nn.Linear(2, 2)})
    before = [parameter.clone() for parameter in model["plain"].parameters()]
    init_weights(model, 0)
    assert all(map(torch.equal, model["plain"].parameters(), before))
    one, other = (model[name].get_parameter("x") for name in ("one", "other"))
    assert not torch.equal(one, other)
    init_weights(nn.ModuleDict({"other": model["one"]}), 0)
    assert torch.equal(one, other)


def test_pretrained_vectors_fill_the_rows_of_the_words_that_have_one() -> None:
    model = build_model(compose([*SMALL, "model=fasttext"]))
    before = model.get_parameter("embedding.word.weight").clone()
    found = torch.tensor([True, False, True])
    set_word_vectors(model, torch.arange(24.0).view(3, 8), found)  # type: ignore[arg-type]
    after = model.get_parameter("embedding.word.weight")
    assert torch.equal(after[[4, 6]], torch.arange(24.0).view(3, 8)[[0, 2]])
    rest = [row for row in range(30) if row not in (4, 6)]
    assert torch.equal(after[rest], before[rest])


T, D, H, K = 80, 128, 8, 16


@pytest.mark.parametrize(
    ("words", "parameters", "flops"),
    [  # three projections, two score products, the logit: 2 for a multiply and an add
        ("", 3 * D * H * K + H * K + 1, 2 * (3 * T * D * H * K + 2 * H * T * T * K + H * K)),
        ("mask=window", 3 * D * H * K + H * K + 1, cost_of(compose([]))["flops_per_example"]),
        ("model=lstm", 4 * (2 * D * D + D) + D + 1, 2 * (T * 4 * 2 * D * D + D)),
        ("model=mean model.freeze=true", D + 1 - 20_000 * D, 2 * D),
        ("model=tfidf", 20_000 + 1 - 20_000 * D, 2 * T),
    ],
)
def test_cost_by_formula(words: str, parameters: int, flops: int) -> None:
    torch.manual_seed(0)
    cost = cost_of(compose(words.split()))
    assert cost == {"parameters": 20_000 * D + parameters, "flops_per_example": flops}
    assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(0))
