"""What cannot fit is told with the memory that it would take, before anything is tried."""

import pytest
from test_settings import MODELS, composed

from attnexp.base import memory
from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.data.encode import load
from attnexp.model import size
from attnexp.model.classifier import build_model
from attnexp.training.run import train_run

GB = 10**9


@pytest.mark.parametrize("words", MODELS)
def test_the_estimate_of_parameters_is_a_lower_bound(words: str) -> None:
    config = composed(words)
    model = build_model(config)
    tensors = [*model.parameters(), *model.buffers()]
    assert size.num_parameters(config) <= sum(tensor.numel() for tensor in tensors)


LARGE = [
    ["data.vocab_size=100000"],
    ["model.d_model=4096", "data.vocab_size=9", "model.heads=64"],
    ["model.layers=40", "model.heads=64", "data.vocab_size=9"],
    ["model.layers=9", "model.output_projection=true", "model.d_head=256", "data.vocab_size=9"],
    ["model.feed_forward=40000", "model.layers=3", "data.vocab_size=9"],
    ["position=relative", "position.max_distance=400000", "data.vocab_size=9"],
    ["position=learned", "data.max_len=40000", "data.vocab_size=9"],
    ["model=fasttext", "model.buckets=100000", "data.vocab_size=9"],
    ["model=cnn", "model.kernel=501", "data.vocab_size=9"],
]


@pytest.mark.parametrize("words", LARGE, ids=" ".join)
def test_where_numbers_are_large_the_estimate_is_near(words: list[str]) -> None:
    model = build_model(compose(words))
    actual = sum(tensor.numel() for tensor in [*model.parameters(), *model.buffers()])
    assert 0.5 * actual < size.num_parameters(compose(words)) <= actual


def test_training_takes_four_copies_and_what_a_batch_keeps() -> None:
    def added(words: list[str], reviews: int = 25_000) -> float:
        config = compose(words)
        return size.training_bytes(config, reviews) - 16 * size.num_parameters(config)

    heads, tokens = 8, 80
    kept = 4 * tokens * (128 + heads * (3 * 16 + tokens))
    assert added([]) == 32 * kept
    assert added(["train.batch_size=100000000000000000"], 50) == 50 * kept
    assert added(["train.precision=bf16"]) == 16 * kept
    assert added(["model.freeze=true"]) == 32 * kept - 12 * 20_000 * 128
    assert added(["data.max_len=8000"]) > 10**4 / 3 * added([])
    assert added(["data.max_len=8000", "mask=restricted"]) < 100 * added([])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["model.d_model=10000000"], "Training this model would take"),
        (["data.max_len=100000000"], "reviews as data.max_len=100000000 ids would take 1,600.0 GB"),
        (["model.layers=1000000000"], "Training this model would take"),
        (["train.batch_size=4000", "data.max_len=4000"], "Training this model would take"),
    ],
)
def test_what_cannot_fit_is_refused_with_what_it_would_take(words: list[str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        train_run(compose(["data=contrast", *words]))


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(UserError, match="A model of 200,007,680,000,000,000 parameters or more"):
        build_model(compose(["data.vocab_size=10000000", "model.d_model=20000000000"]))


def test_a_machine_has_memory_and_what_fits_it_is_taken() -> None:
    assert memory.of_machine() > GB / 4
    memory.check(memory.of_machine(), "all of it")
    with pytest.raises(UserError, match="one byte more"):
        memory.check(memory.of_machine() + 1, "one byte more")
    assert len(load(compose(["data=contrast", "train.batch_size=1000000000"]).data).train) == 4000
