"""Weights at the start do not change from one version of the code to the next."""

import pytest
import torch
from torch import nn

from attnexp.config.compose import compose
from attnexp.model.classifier import build_model
from attnexp.model.init import Stream, init_weights

SMALL = "data=contrast data.max_len=9 data.vocab_size=30 model.d_model=8 seed=5".split()
WORDS = [
    "position=learned model.pooling=cls",
    "model.layers=2 model.norm=pre model.feed_forward=3 model.hidden=4",
    "model.score=additive model.d_query=3 model.d_value=2",
    "model.score=cosine position=relative model.before=lstm",
    "model.output_projection=true model.before=cnn",
    "model=fasttext model.buckets=16",
    "model=cnn",
    "model=lstm",
    "model=bilstm model.pooling=attention",
    "model=gru",
]


def fingerprint(parameter: torch.Tensor) -> float:
    """One number that changes with every value and with their order."""
    values = parameter.detach().double().flatten()
    return float(values @ torch.arange(1.0, len(values) + 1, dtype=torch.float64).cos())


FINGERPRINTS = {
    "cls 8": -0.0628,
    "embedding.weight 30x8": 0.0217869,
    "position.weight 10x8": 0.363462,
    "layers.0.attention.q_proj.weight 8x8": -2.03913,
    "layers.0.attention.k_proj.weight 8x8": 0.40915,
    "layers.0.attention.v_proj.weight 8x8": -0.624426,
    "output.weight 1x8": 0.515846,
    "output.bias 1": 0.0,
    "layers.0.feed_forward.up.weight 3x8": -1.29994,
    "layers.0.feed_forward.up.bias 3": 0.0,
    "layers.0.feed_forward.down.weight 8x3": -0.21531,
    "layers.0.feed_forward.down.bias 8": 0.0,
    "layers.0.norms.0.weight 8": 0.332754,
    "layers.0.norms.0.bias 8": 0.0,
    "layers.0.norms.1.weight 8": 0.332754,
    "layers.0.norms.1.bias 8": 0.0,
    "layers.1.attention.q_proj.weight 8x8": -3.78653,
    "layers.1.attention.k_proj.weight 8x8": -0.31273,
    "layers.1.attention.v_proj.weight 8x8": 0.89801,
    "layers.1.feed_forward.up.weight 3x8": 3.29595,
    "layers.1.feed_forward.up.bias 3": 0.0,
    "layers.1.feed_forward.down.weight 8x3": 1.63091,
    "layers.1.feed_forward.down.bias 8": 0.0,
    "layers.1.norms.0.weight 8": 0.332754,
    "layers.1.norms.0.bias 8": 0.0,
    "layers.1.norms.1.weight 8": 0.332754,
    "layers.1.norms.1.bias 8": 0.0,
    "output.0.weight 4x8": -2.10011,
    "output.0.bias 4": 0.0,
    "output.3.weight 1x4": 0.315838,
    "output.3.bias 1": 0.0,
    "layers.0.attention.q_proj.weight 6x8": -2.20816,
    "layers.0.attention.v_proj.weight 4x8": 2.54623,
    "layers.0.attention.score.query 2x3x4": 1.36804,
    "layers.0.attention.score.key 2x4x4": -0.655204,
    "layers.0.attention.score.value 2x4": 0.10803,
    "output.weight 1x4": 0.670117,
    "mixers.0.rnn.weight_ih_l0 32x8": -0.622755,
    "mixers.0.rnn.weight_hh_l0 32x8": -2.40369,
    "mixers.0.rnn.bias_ih_l0 32": -1.57509,
    "mixers.0.rnn.bias_hh_l0 32": 0.0,
    "layers.0.attention.score.log_temperature 2": 0.0,
    "layers.0.attention.bias.weight 2x33": 0.0,
    "mixers.0.conv.weight 8x8x3": 1.02014,
    "mixers.0.conv.bias 8": 0.0,
    "layers.0.attention.out_proj.weight 8x8": 1.84195,
    "embedding.word.weight 30x8": 0.0217869,
    "embedding.ngram.weight 16x8": 0.120197,
    "mixers.0.rnn.weight_ih_l0 16x8": -1.71938,
    "mixers.0.rnn.weight_hh_l0 16x4": -0.392339,
    "mixers.0.rnn.bias_ih_l0 16": 1.85223,
    "mixers.0.rnn.bias_hh_l0 16": 0.0,
    "mixers.0.rnn.weight_ih_l0_reverse 16x8": 2.89652,
    "mixers.0.rnn.weight_hh_l0_reverse 16x4": 1.37843,
    "mixers.0.rnn.bias_ih_l0_reverse 16": 1.85223,
    "mixers.0.rnn.bias_hh_l0_reverse 16": 0.0,
    "pool.query 8": 0.0,
    "mixers.0.rnn.weight_ih_l0 24x8": -1.63599,
    "mixers.0.rnn.weight_hh_l0 24x8": -1.79196,
    "mixers.0.rnn.bias_ih_l0 24": 0.0,
    "mixers.0.rnn.bias_hh_l0 24": 0.0,
}
"""By name and shape, as the code of January 2026 drew them."""

NEXT_DRAW = {
    "position=learned model.pooling=cls": 0.01417,
    "model.layers=2 model.norm=pre model.feed_forward=3 model.hidden=4": 0.528845,
    "model.score=additive model.d_query=3 model.d_value=2": 0.752606,
    "model.score=cosine position=relative model.before=lstm": 0.463527,
    "model.output_projection=true model.before=cnn": 0.445933,
    "model=fasttext model.buckets=16": 0.90938,
    "model=cnn": 0.04914,
    "model=lstm": 0.415264,
    "model=bilstm model.pooling=attention": 0.129274,
    "model=gru": 0.167094,
}
"""The first number that the global generator gives after the model is built, from seed 0."""


@pytest.mark.parametrize("words", WORDS)
def test_a_model_starts_from_the_weights_that_it_always_had(words: str) -> None:
    narrow = [] if words.startswith("model=") else ["model.heads=2", "model.d_head=4"]
    config = compose([*SMALL, *narrow, *words.split()])
    torch.manual_seed(0)
    model = build_model(config)
    assert torch.rand(()).item() == pytest.approx(NEXT_DRAW[words], abs=1e-6)
    for name, parameter in model.named_parameters():
        expected = FINGERPRINTS[f"{name} {'x'.join(map(str, parameter.shape))}"]
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
