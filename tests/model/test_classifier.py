"""The classifier: K's model at the defaults, and what each setting does to it.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

import itertools
import math
from functools import cache
from operator import attrgetter
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from attnexp.config.checks import check
from samples import composed, put, redrawn
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.options import groups
from attnexp.config.schema import RunConfig
from attnexp.model.classifier import PAD, Classifier, build_classifier

ORDER_BLIND = [
    *("mask=none", "mask=padding", "model.pooling=masked_mean", "model.layers=2"),
    *("position=shuffled", "model=mean", "model.pooling=max", "model.pooling=cls"),
    *("model.pooling=attention", "model.score=cosine", "model.score=uniform"),
    "model.score=additive model.d_query=3 model.d_key=5",
    "model.residual=true model.norm=post model.feed_forward=5 model.hidden=3",
]
ORDER_AWARE = [
    *("position=sinusoidal", "position=learned", "position=rotary", "position=relative"),
    *("position=alibi", "mask=causal", "mask=window mask.radius=1", "mask=dilated mask.radius=1"),
    *("mask=restricted mask.radius=1", "mask=block_sparse mask.block=3"),
    *("model=fasttext", "model=cnn", "model=lstm", "model=bilstm", "model=gru"),
    *("model=cnn_attention", "model=lstm_attention"),
]


def rough(*words: str) -> Classifier:
    """A small model in float64 with dropout off. Each word may hold several."""
    return redrawn(build_classifier(composed(" ".join(words)))).eval()


def reviews(*lengths: int, max_len: int = 9) -> Tensor:
    """Reviews of these lengths, padded in front."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.zeros(len(lengths), max_len, dtype=torch.int32)
    for row, length in zip(ids, lengths, strict=True):
        row[max_len - length :] = torch.randint(1, 30, (length,), generator=generator)
    return ids


def entering_the_pool(model: Classifier, ids: Tensor) -> Tensor:
    """What the layers made of the reviews: (B, T, width)."""
    caught = list[Tensor]()
    assert isinstance(model.pool, nn.Module)
    handle = model.pool.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
    model(ids)
    handle.remove()
    return caught[0]


@pytest.mark.parametrize("words", ORDER_BLIND)
def test_without_position_and_mask_order_cannot_matter(words: str) -> None:
    """C04: any order of a review's words, padding left in front, gives the same logit."""
    model, ids = rough(words), reviews(9, 6, 3)
    generator = torch.Generator().manual_seed(1)
    for _ in range(5):
        shuffled = ids.clone()
        for row, length in zip(shuffled, (9, 6, 3), strict=True):
            row[9 - length :] = row[9 - length :][torch.randperm(length, generator=generator)]
        assert not torch.equal(shuffled, ids)
        torch.testing.assert_close(model(shuffled), model(ids), rtol=0, atol=1e-5)


@pytest.mark.parametrize("words", ORDER_AWARE)
def test_any_piece_that_knows_order_makes_order_matter(words: str) -> None:
    """C04; and a mask alone is such a piece."""
    model, ids = rough(words, "model.pooling=masked_mean"), reviews(9, 9)
    order = torch.tensor([0, 2, 1, 4, 6, 3, 8, 5, 7])
    assert ((model(ids[:, order]) - model(ids)).abs() > 1e-4).all()
    assert_reads_each_alone(model)


@pytest.mark.parametrize("words", ["", "mask=padding mask.query=true"])
def test_a_review_in_a_batch_is_a_review_alone(words: str) -> None:
    assert_reads_each_alone(rough(words))


def assert_reads_each_alone(model: Classifier) -> None:
    ids = reviews(9, 4, 1, 0, 7)
    alone = torch.cat([model(row[None]) for row in ids])
    torch.testing.assert_close(model(ids), alone, rtol=0, atol=1e-6)
    assert alone.std() > 1e-3


@pytest.mark.parametrize("pattern", ["none", "causal", "window mask.radius=2"])
def test_hidden_padding_and_a_masked_mean_make_padding_invisible(pattern: str) -> None:
    """C19: more padding on the left changes nothing."""
    words = f"mask={pattern} mask.padding=true model.pooling=masked_mean"
    short = reviews(5, 3, max_len=5)
    longer = torch.cat([torch.zeros(2, 4, dtype=torch.int32), short], dim=1)
    model = rough(words)
    torch.testing.assert_close(model(longer), model(short), rtol=0, atol=1e-10)


def test_a_summary_token_is_seen_where_padding_is_hidden() -> None:
    """The summary token is all that a review of padding alone has."""
    model, empty = rough("model.pooling=cls mask=padding"), reviews(0)
    before = model(empty)
    assert model.cls is not None
    nn.init.ones_(model.cls)
    assert (model(empty) - before).abs() > 1e-3


def test_the_query_mask_zeroes_outputs_at_padding_and_nowhere_else() -> None:
    ids = reviews(9, 4, 0)
    masked = entering_the_pool(rough("mask.query=true"), ids)
    plain = entering_the_pool(rough("mask.query=false"), ids)
    padding = ids == PAD
    assert (masked[padding] == 0).all()
    assert (plain[padding] != 0).all()
    assert torch.equal(masked[~padding], plain[~padding])


@pytest.mark.parametrize("mode", ["add", "mul"])
@pytest.mark.parametrize("pattern", ["none", "causal", "window mask.radius=1"])
@pytest.mark.parametrize(
    ("query", "pooling"), [("", "mean"), ("mask.query=true", "mean"), ("", "masked_mean")]
)
def test_a_review_of_padding_alone_gives_finite_logits_and_gradients(
    mode: str, pattern: str, query: str, pooling: str
) -> None:
    if pattern == "causal":
        query = ""  # padding stands in front, where nothing is seen: refused as doing nothing
    model = rough(
        f"mask={pattern} mask.padding=true mask.mode={mode} {query}",
        f"model.pooling={pooling} model.layers=2",
    )
    logits = model(reviews(0, 5))
    assert logits[0] == model.get_parameter(
        "output.bias"
    )  # it saw nothing: nothing but the bias is left
    logits.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("word", ["model.output_projection=true", "model.score=additive"])
def test_weights_start_as_keras_starts_them(word: str) -> None:
    """Embedding uniform within 0.05, matrices Glorot uniform, those of a head each by itself, bias
    0; the spread fills both."""
    model = build_classifier(compose([word, "model.d_model=64", "data.vocab_size=2000"]))
    for name, parameter in model.named_parameters():
        values = parameter.detach().double().numpy().ravel()
        if name == "output.bias":
            assert (values == 0).all()
            continue
        bound = 0.05 if name == "embedding.weight" else math.sqrt(6 / sum(parameter.shape[-2:]))
        bound *= 1 + 1e-6  # float32
        assert np.abs(values).max() <= bound, name
        assert np.abs(values).max() > 0.9 * bound, name
        if len(values) > 1000:  # uniform: variance bound^2 / 3
            assert values.var() == pytest.approx(bound**2 / 3, rel=0.05), name
            assert abs(values.mean()) < 0.05 * bound, name


def assert_learns(config: RunConfig) -> None:
    """Forward and backward are finite, and the gradient reaches the words."""
    model = build_classifier(config).eval()
    ids = torch.tensor([[0, 0, 1, 4, 5, 6], [1, 7, 8, 9, 10, 11], [0] * 6])
    logits = model(ids)
    assert logits.shape == (3,)
    assert logits.isfinite().all()
    logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name
    words = next(model.embedding.parameters()).grad
    assert words is not None
    assert words.abs().max() > 0


SWITCH = [False, True]
IN_LAYERS: dict[str, list[Any]] = {
    "model.layers": [1, 2],
    "model.norm": ["none", "pre", "post"],
    "model.output_projection": SWITCH,
    "model.residual": SWITCH,
    "model.score": groups()["model.score"],
}
"""What models without attention lack."""
PLACES = ["model", "position", "mask", "model.pooling", "model.score", "model.before"]
AXES = IN_LAYERS | {place: groups()[place] for place in PLACES}
AXES |= {"model.scale_embedding": SWITCH, "mask.padding": SWITCH}
AXES["model"] = [model for model in AXES["model"] if model != "tfidf"]
PAIRS = [
    ((one, option), (other, its))
    for one, other in itertools.combinations(sorted(AXES), 2)
    for option, its in itertools.product(AXES[one], AXES[other])
    if one != "model" or other not in IN_LAYERS or "attention" in option
]


@cache
def piece(place: str, option: str) -> Any:
    return attrgetter(place)(composed(f"{place}={option}"))


def chosen_config(chosen: dict[str, Any]) -> RunConfig:
    """The small config of these choices and settings. Raises `UserError` where they clash."""
    config = composed("")
    for key, option in sorted(chosen.items()):  # a section before what is in it
        value = piece(key, option) if key in PLACES else option
        config = put(config, key.split("."), value)
    check(config)
    return config


def test_every_pair_of_options_builds_and_learns() -> None:
    """With all else chosen by chance or, where that is refused, with ever less chosen.

    Pairs that the checks refuse are left out, but no option may be refused with every other.
    """
    random = Random(0)
    built = set[tuple[tuple[str, Any], ...]]()
    for pair in PAIRS:
        for num_others in () if pair in built else (len(AXES), 6, 3, 0):
            axes = random.sample([*AXES], num_others)
            chosen = {axis: random.choice(AXES[axis]) for axis in axes} | dict(pair)
            if "attention" not in chosen.get("model", "attention"):
                chosen = {axis: option for axis, option in chosen.items() if axis not in IN_LAYERS}
            try:
                config = chosen_config(chosen)
            except UserError:
                continue
            try:
                assert_learns(config)
            except Exception as error:
                error.add_note(f"with {chosen}")
                raise
            built.update(itertools.combinations(sorted(chosen.items()), 2))
            break
    for both in itertools.combinations(sorted(AXES), 2):
        wanted, found = (
            {choice for pair in pairs if (pair[0][0], pair[1][0]) == both for choice in pair}
            for pairs in (PAIRS, built)
        )
        assert found == wanted


@pytest.mark.parametrize(
    "words",
    [
        "mask.padding=false model.pooling=masked_mean",
        "mask.padding=true model.pooling=mean",
        "mask.padding=true model.pooling=masked_mean mask.mode=mul",
        "mask.padding=true model.pooling=masked_mean position=sinusoidal",
    ],
)
def test_with_any_of_these_otherwise_padding_shows(words: str) -> None:
    """C19: zeroing after softmax does not undo what padding took."""
    short = reviews(5, 3, max_len=5)
    longer = torch.cat([torch.zeros(2, 4, dtype=torch.int32), short], dim=1)
    model = rough(words)
    assert ((model(longer) - model(short)).abs() > 1e-3).all()


def test_dropout_acts_in_training_alone() -> None:
    model, ids = rough("model.dropout=0.5"), reviews(9)
    assert torch.equal(model(ids), model(ids))
    model.train()
    assert len({model(ids).item() for _ in range(10)}) > 1
