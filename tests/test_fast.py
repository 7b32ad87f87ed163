"""The fast path is the reference up to rounding, wherever it is taken."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from attnexp.config.compose import compose
from attnexp.data.encode import load
from attnexp.model.classifier import build_model
from attnexp.model.fast import take_fast_path
from attnexp.training.evaluate import evaluate_run, examples_of
from attnexp.training.loop import start
from attnexp.training.run import fit, train_run

BLOCK = "model.layers=2 model.residual=true model.norm=pre model.feed_forward=8"
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
    ],
    "fused": [
        "model.pooling=max mask=padding",
        "model.pooling=attention position=rotary mask=causal",
        f"{BLOCK} position=sinusoidal",
        f"{BLOCK} mask=padding mask.query=true model.layer_dropout=0.2",
    ],
    "reference": [
        "mask=restricted mask.radius=2",
        "model.pooling=max model.score=cosine",
        "model.pooling=max position=alibi",
        f"{BLOCK} mask=causal mask.mode=mul",
        "model=mean",
        "model=tfidf",
    ],
}
ALL = [(path, words) for path, given in PATHS.items() for words in given]
SMALL = "data=contrast data.max_len=9 train.device=cpu".split()


def built(words: str) -> tuple[nn.Module, nn.Module, str]:
    """The reference, the same model on its fast path, and which that is."""
    config = compose([*SMALL, *words.split()])
    reference, fast = build_model(config), build_model(config)
    return reference, fast, take_fast_path(fast)


def reviews() -> Tensor:
    """Padded ones among them, the first of padding alone: (5, 9)."""
    ids = torch.randint(1, 30, (5, 9), generator=torch.Generator().manual_seed(0))
    ids[0], ids[1, :4] = 0, 0
    return ids


@pytest.mark.parametrize(("path", "words"), ALL)
def test_logits_and_gradients_are_those_of_the_reference(path: str, words: str) -> None:
    if words == "model=tfidf":
        assert built(words)[2] == path
        return
    reference, fast, taken = built(words)
    assert taken == path
    assert fast.state_dict().keys() == reference.state_dict().keys()
    for model in (reference, fast):
        torch.manual_seed(0)  # dropout draws alike
        model.double()(reviews()).square().sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(fast.eval()(reviews()), reference.eval()(reviews()))
    for (name, ours), theirs in zip(fast.named_parameters(), reference.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None), name
        if ours.grad is not None and theirs.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "words", ["position=sinusoidal", "position=none model.score.scale=false train.eps=1e-8"]
)
def test_fifty_steps_of_training_lose_the_same(words: str) -> None:
    # Of the size of K's run. 50 epochs of one batch each: every loss is seen.
    config = compose(
        f"data=contrast data.limit_train=32 data.limit_test=2 train.epochs=50 train.device=cpu "
        f"train.batch_size=32 {words}".split()
    )
    data = load(config.data)
    device = torch.device("cpu")
    train, test = examples_of(data.train, device), examples_of(data.test, device)
    losses = []
    for fast in (False, True):
        torch.manual_seed(0)
        model = build_model(config)
        if fast:
            assert take_fast_path(model) == "pooled"
        state = start(model, train, config.train, torch.Generator().manual_seed(0))
        rows = fit(state, train, test, config.train)
        losses.append([row.train_loss for row, _ in rows])
    assert len(losses[0]) == 50
    assert losses[1] == pytest.approx(losses[0], rel=1e-5, abs=0)


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
