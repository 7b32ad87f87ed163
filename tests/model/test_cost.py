"""Parameters and FLOPs: by formula, and as torch counts them."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attnexp.base import memory
from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.data.encode import load
from attnexp.model.classifier import build_model, take_fast_path
from attnexp.model.cost import of_config, of_model, training_bytes
from attnexp.training.run import train_run

T, D, H, K = 80, 128, 8, 16


def test_ks_layer_by_formula() -> None:
    """Three projections, two score products, the logit: 2 for a multiply and an add."""
    projections, products = 3 * T * D * H * K, 2 * H * T * T * K
    assert of_config(compose([])) == {
        "parameters": 20_000 * D + 3 * D * H * K + H * K + 1,
        "flops_per_example": 2 * (projections + products + H * K),
    }


@pytest.mark.parametrize("words", ["model=cnn", "position=rotary", "mask=window", "model=mean"])
def test_flops_are_torchs(words: str) -> None:
    model = build_model(compose([words])).eval()
    ids = torch.ones(1, T, dtype=torch.int32)
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model(ids)
    assert of_model(model, T)["flops_per_example"] == counter.get_total_flops()


@pytest.mark.parametrize(("kind", "gates"), [("lstm", 4), ("gru", 3)])
def test_recurrent_layers_count_every_gate_of_every_token(kind: str, gates: int) -> None:
    flops = of_config(compose([f"model={kind}"]))["flops_per_example"]
    assert flops == 2 * (T * gates * 2 * D * D + D)


@pytest.mark.parametrize("words", ["", "mask=window", "model.pooling=max", "model=lstm"])
def test_counting_leaves_the_model_as_it_was_and_counts_the_reference(words: str) -> None:
    config = compose(["model.attention_dropout=0.1"] * ("lstm" not in words) + words.split())
    model = build_model(config).train()
    torch.manual_seed(0)
    ids = torch.ones(2, T, dtype=torch.int32)
    before = model(ids)
    plain = of_model(model, T)
    path = take_fast_path(model)
    torch.manual_seed(0)
    assert of_model(model, T) == plain == of_config(config)
    torch.testing.assert_close(model(ids), before)
    assert take_fast_path(model) == "reference"  # it has taken its path already
    assert (path == "reference") == ("max" in words or "lstm" in words)


class NeedsValues(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 5, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = ids[..., None].expand(-1, -1, 3).float()
        y: torch.Tensor = self.rnn(x)[0] * int(ids.max())
        return y


def test_a_model_whose_operations_need_values_is_counted_on_the_cpu() -> None:
    assert of_model(NeedsValues(), 7)["flops_per_example"] == 2 * 7 * 4 * 5 * (3 + 5)


def test_a_baseline_costs_a_weight_a_word_and_a_product_a_token() -> None:
    expected = {"parameters": 20_000 + 1, "flops_per_example": 2 * T}
    assert of_config(compose(["model=tfidf"])) == expected


# Memory

WEIGHTS = 20_000 * 128 + 3 * 128**2 + 128 + 1
"""Number of weights of K's model."""


def kept(*words: str, num_texts: int = 25_000) -> int:
    """Bytes that a batch keeps, besides what K's weights take."""
    return training_bytes(compose(list(words)), num_texts) - 16 * WEIGHTS


def test_training_takes_four_copies_and_what_a_batch_keeps() -> None:
    """At least x, q, k, v, the map and the pooled vectors; at most three times as much."""
    least = 4 * 32 * (T * (D + 3 * H * K) + H * T * T)
    assert least <= kept("train.fast=false") < 3 * least
    assert kept("train.batch_size=100000000000000000", num_texts=64) == pytest.approx(
        2 * kept(), rel=0.01
    )
    assert kept("train.precision=bf16") == kept() // 2
    assert kept("model.freeze=true") == pytest.approx(kept() - 12 * 20_000 * D, rel=0.01)
    assert kept("data.vocab_size=40000") - kept() == 16 * 20_000 * D


def test_only_what_makes_a_map_of_scores_pays_for_it() -> None:
    long = "data.max_len=8000"
    assert kept(long, "train.fast=false", "model.pooling=max") > 4 * 32 * H * 8000**2
    for words in (["model.pooling=max"], ["mask=window"]):
        assert kept(long, *words) < 4 * 32 * H * 8000**2 / 20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.d_model=10000000"], "Training this model would take"),
        (["data.max_len=100000000"], "texts as data.max_len=100000000 ids would take 1,600.0 GB"),
        (["model.layers=1000000000"], "model.layers must be at least 1 and at most 1000"),
        (["train.batch_size=4000", "data.max_len=4000"], "Training this model would take"),
    ],
)
def test_what_cannot_fit_is_refused_with_what_it_would_take(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        train_run(compose(["data=contrast", *words]))


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(UserError, match="more memory than can be addressed"):
        build_model(compose(["model.d_model=9000000000000000000"]))
    with pytest.raises(UserError, match="A model of 200,007,680,000,000,129 parameters or more"):
        build_model(compose(["data.vocab_size=10000000", "model.d_model=20000000000"]))


def test_a_machine_has_memory_and_what_fits_it_is_taken() -> None:
    assert memory.of_machine() > 10**9 / 4
    memory.check(memory.of_machine(), "all of it")
    with pytest.raises(UserError, match="one byte more"):
        memory.check(memory.of_machine() + 1, "one byte more")
    assert len(load(compose(["data=contrast", "train.batch_size=1000000000"]).data).train) == 4000
