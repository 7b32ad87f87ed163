"""The fast path is the reference up to rounding, wherever it is taken."""

from functools import cache
from pathlib import Path

import pytest
import torch
from samples import BLOCK, padded_reviews, redrawn
from torch import Tensor, nn

from attnexp.config.compose import compose
from attnexp.config.schema import RunConfig
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.block import Attention, Block
from attnexp.model.classifier import Classifier, build_classifier, build_model, take_fast_path
from attnexp.model.masks import Window
from attnexp.model.pooling import Last, Mean
from attnexp.model.scores import DotProduct
from attnexp.training.evaluate import evaluate_run
from attnexp.training.run import train_run

PATHS = {
    "pooled": [
        "position=none",
        "position=sinusoidal",
        "position=rotary",
        "position=relative mask=padding",
        "position=sinusoidal mask=causal mask.mode=mul",
        "mask=window mask.radius=2 mask.padding=true mask.query=true",
        "mask=padding model.pooling=masked_mean model.output_projection=true",
        "model.pooling=last mask=causal",
        "model.pooling=cls position=learned",
        "model.score=additive model.d_query=3 model.d_value=5",
        "model.layers=2 mask=padding",
        "experiment=blog_pe data=contrast",
        "model.attention_dropout=0.3 position=sinusoidal position.dropout=0.2",
        "mask=window mask.radius=2 model.score=cosine data.max_len=30",
        "mask=window mask.radius=2 mask.mode=mul data.max_len=30",
        "mask=window mask.radius=2 position=alibi data.max_len=30",
        "mask=window mask.radius=2 model.attention_dropout=0.3 data.max_len=30",
    ],
    "window": [
        "mask=window mask.radius=2 data.max_len=30",
        "mask=restricted mask.radius=2 data.max_len=30 model.pooling=max",
        "mask=window mask.radius=2 data.max_len=30 mask.padding=true mask.query=true",
        "mask=window_padding mask.radius=4 data.max_len=30 position=rotary model.pooling=cls",
        f"{BLOCK} mask=window_padding mask.radius=1 data.max_len=30 model.layer_dropout=0.2",
        "mask=window mask.radius=2 data.max_len=30 position=shuffled model.d_value=1",
    ],
    "fused": [
        "model.pooling=max mask=padding",
        "model.pooling=attention position=rotary mask=causal",
        f"{BLOCK} position=sinusoidal",
        f"{BLOCK} mask=padding mask.query=true model.layer_dropout=0.2",
        "model.layer_dropout=0.2",
    ],
    "reference": [
        "model.pooling=max model.attention_dropout=0.3",
        "model.layer_dropout=0.2 mask=causal mask.mode=mul",
        "model.pooling=max model.score=cosine",
        "model.pooling=max position=alibi",
        f"{BLOCK} mask=causal mask.mode=mul",
        "model=mean",
        "model=tfidf",
    ],
}
ALL = [(path, words) for path, given in PATHS.items() for words in given]
SMALL = "data=contrast data.max_len=9 train.device=cpu".split()


@cache
def config_of(words: str) -> RunConfig:
    return compose([*SMALL, *words.split()])


def built(words: str) -> tuple[nn.Module, nn.Module, str]:
    """The reference, the same model on its fast path, and which that is."""
    config = config_of(words)
    reference, fast = build_model(config), build_model(config)
    return reference, fast, take_fast_path(fast)


@pytest.mark.parametrize(("path", "words"), ALL)
def test_logits_and_gradients_are_those_of_the_reference(path: str, words: str) -> None:
    if words == "model=tfidf":
        assert built(words)[2] == path
        return
    reference, fast, taken = built(words)
    assert taken == path
    assert fast.state_dict().keys() == reference.state_dict().keys()
    ids = padded_reviews(30 if "data.max_len=30" in words else 9)
    for model in (reference, fast):
        torch.manual_seed(0)  # dropout draws alike
        model.double()(ids).square().sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(fast.eval()(ids), reference.eval()(ids))
    for (name, ours), theirs in zip(fast.named_parameters(), reference.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None), name
        if ours.grad is not None and theirs.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-12)


HEADS = ["model.heads=3 model.d_head=1", "model.heads=1 model.d_head=2"]


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize(
    "words",
    [
        *("", "mask=padding mask.query=true", "model.layers=2", "model.attention_dropout=0.3"),
        *("model.pooling=masked_mean", "model.pooling=last", "model.pooling=cls"),
        *("model.pooling=max model.layers=2 model.layer_dropout=0.3", "model.d_value=1"),
        "mask=window mask.radius=1 data.max_len=30 model.layers=2 model.layer_dropout=0.3",
    ],
)
def test_dropout_draws_alike_for_heads_of_any_width(words: str, heads: str) -> None:
    reference, fast, taken = built(f"{heads} {words} model.dropout=0.5 model.d_model=4")
    assert taken != "reference"
    ids = padded_reviews(30 if "data.max_len=30" in words else 9)
    logits = []
    for model in (reference, fast):
        torch.manual_seed(0)
        logits.append(model.double()(ids))
    torch.testing.assert_close(*logits)


class OwnWindow(Window):
    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        return super().__call__(query, key) & (key <= query)


def doubled(base: type[nn.Module]) -> type[nn.Module]:
    """A subclass whose forward gives twice as much."""

    def forward(self: nn.Module, *given: Tensor | None) -> Tensor:
        result: Tensor = base.forward(self, *given)
        return 2 * result

    return type(f"Own{base.__name__}", (base,), {"forward": forward})


class OwnLayers(Attention):
    def __iter__(self):  # type: ignore[no-untyped-def]
        return reversed(list(super().__iter__()))


BASES = (Classifier, Block, MultiHeadSelfAttention, DotProduct, Mean, Last, nn.Dropout, nn.Linear,
         nn.Identity)  # fmt: skip
OWN = (OwnLayers, *map(doubled, BASES))


@pytest.mark.parametrize("own", OWN, ids=lambda own: own.__name__)
@pytest.mark.parametrize(
    "words",
    [
        *("model.layers=2", "model.layers=2 model.pooling=max"),
        "model.layers=2 model.pooling=last model.output_projection=true mask.padding=true",
        "model.layers=2 mask=window_padding mask.radius=1 data.max_len=30",
    ],
)
def test_what_has_another_forward_is_not_replaced(own: type[nn.Module], words: str) -> None:
    """Each subclass in turn stands wherever its base stood."""
    config = config_of(f"model.heads=2 model.d_head=4 model.d_model=8 {words}")
    models = [redrawn(build_classifier(config)).eval() for _ in range(2)]
    for model in models:
        for module in list(model.modules()):
            if type(module) is own.__base__:
                module.__class__ = own
    take_fast_path(models[1])
    ids = padded_reviews(30 if "data.max_len=30" in words else 9)
    torch.testing.assert_close(models[1](ids), models[0](ids))


def test_another_window_is_no_window() -> None:
    words = "data=contrast data.max_len=30 mask=window mask.radius=2".split()
    models = [build_classifier(compose(words)).double().eval() for _ in range(2)]
    for model in models:
        model.pattern = OwnWindow(radius=2)
    assert take_fast_path(models[1]) == "pooled"
    torch.testing.assert_close(models[1](padded_reviews(30)), models[0](padded_reviews(30)))


def test_a_run_says_which_path_it_took_and_is_one_run_on_either(tmp_path: Path) -> None:
    words = [*SMALL, f"out={tmp_path}", "data.limit_train=64", "data.limit_test=64",
             "train.epochs=1"]  # fmt: skip
    path, fast = train_run(compose(words))
    assert fast.provenance["path"] == "pooled"
    stored, measured = evaluate_run(path)
    assert measured == stored
    again, plain = train_run(compose([*words, "train.fast=false"]), again=True)
    assert again == path
    assert plain.provenance["path"] == "reference"
    assert plain.provenance["products"] != "oneDNN"
    assert plain.flops_per_example == fast.flops_per_example
    assert plain.final.train_loss == pytest.approx(fast.final.train_loss, rel=1e-5)
