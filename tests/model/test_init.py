"""Weights at the start do not change from one version of the code to the next."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from attnexp.config.compose import compose
from attnexp.model.classifier import build_model
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
    config = compose([*SMALL, *narrow, *words.split()])
    torch.manual_seed(0)
    model = build_model(config)
    assert torch.rand(()).item() == pytest.approx(GOLDEN["next draw"][words], abs=1e-6)
    for name, parameter in model.named_parameters():
        expected = GOLDEN["weights"][f"{name} {'x'.join(map(str, parameter.shape))}"]
        assert fingerprint(parameter) == pytest.approx(expected, rel=1e-4, abs=1e-6), name


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
