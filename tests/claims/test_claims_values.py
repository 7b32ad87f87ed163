"""The exact claims: each holds, and each is refuted once the piece it rests on is broken.

Shapes: B batch, T tokens, D model width.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from attnexp.model.block import Block, FeedForward
from attnexp.model.softmax import attention_weights
from torch import Tensor, nn

from attnexp.claims import encodings, masking, run, values
from attnexp.claims.claim import Conclusion
from attnexp.claims.measure import max_abs_diff, max_or_nan
from attnexp.model import attention, masks, pooling, positions
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.classifier import Classifier
from attnexp.model.mixers import Convolution
from attnexp.model.positions import SinusoidalPosition, sinusoidal_table
from attnexp.model.scores import Additive, DotProduct

EXACT = {module.__name__ for module in (values, masking, encodings)}
CLAIMS = {claim.id: claim for claim in run.CLAIMS if claim.check.__module__ in EXACT}

Patch = pytest.MonkeyPatch

Breakage = Callable[[Patch], None]
"""Makes a piece wrong until the test ends."""


def test_every_claim_of_the_sources_is_here_once_and_in_a_line() -> None:
    assert [claim.id for claim in run.CLAIMS] == [f"C{number:02}" for number in range(1, 33)]
    assert all(len(claim.text) <= 70 for claim in run.CLAIMS)


@pytest.mark.parametrize("name", CLAIMS)
def test_it_holds_at_once_every_time_and_leaves_the_random_state_alone(name: str) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        before, started = torch.get_rng_state(), time.process_time()
        finding = CLAIMS[name].check()
        assert time.process_time() - started < 2
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(2)
        assert CLAIMS[name].check() == finding
    # of C12 all is so but that the gradient's norm is smaller at every width
    expected = Conclusion.not_supported if name == "C12" else Conclusion.holds
    assert (finding.conclusion, finding.n) == (expected, None)
    assert len(finding.measured) <= 110
    assert "\n" not in finding.measured


def change_table(change: Callable[[Tensor, str], Tensor]) -> Breakage:
    """Change the table of sines and cosines, (table, layout) -> table, wherever it is used."""

    def table(num_positions: int, d_model: int, *, layout: str = "interleaved") -> Tensor:
        return change(sinusoidal_table(num_positions, d_model, layout=layout), layout)

    def apply(patch: Patch) -> None:
        patch.setattr(encodings, "sinusoidal_table", table)
        patch.setattr(positions, "sinusoidal_table", table)

    return apply


def change_softmax(weigh: Callable[..., Tensor]) -> Breakage:
    """Put this in the place of `attention_weights`."""

    def apply(patch: Patch) -> None:
        for module in (attention, masking, values):
            patch.setattr(module, "attention_weights", weigh)

    return apply


def change_output(owner: type[nn.Module], change: Callable[[Tensor], Tensor]) -> Breakage:
    """Change what a module's `forward` gives."""
    forward: Callable[..., Tensor] = owner.forward

    def changed(*given: Any, **named: Any) -> Tensor:
        return change(forward(*given, **named))

    return lambda patch: patch.setattr(owner, "forward", changed)


def force(owner: type[nn.Module], **forced: Any) -> Breakage:
    """Construct a module with these arguments, whatever was asked for."""
    construct: Callable[..., None] = owner.__init__

    def constructed(*given: Any, **named: Any) -> None:
        construct(*given, **{**named, **forced})

    return lambda patch: patch.setattr(owner, "__init__", constructed)


def put(owner: object, name: str, value: object) -> Breakage:
    return lambda patch: patch.setattr(owner, name, value)


def later_by_one(x: Tensor) -> Tensor:
    return x.roll(1, dims=-2)


def no_mask(scores: Tensor, allowed: Tensor | None = None, *, mode: str = "add") -> Tensor:
    return scores.softmax(dim=-1)


def mask_after(scores: Tensor, allowed: Tensor | None = None, *, mode: str = "add") -> Tensor:
    return attention_weights(scores, allowed, mode="mul")


def mask_before(scores: Tensor, allowed: Tensor | None = None, *, mode: str = "add") -> Tensor:
    return attention_weights(scores, allowed)


def small_mask(scores: Tensor, allowed: Tensor | None = None, *, mode: str = "add") -> Tensor:
    """The large negative number is not large."""
    return (scores if allowed is None else scores.masked_fill(~allowed, -20.0)).softmax(dim=-1)


def over_queries(scores: Tensor, allowed: Tensor | None = None, *, mode: str = "add") -> Tensor:
    return scores.softmax(dim=-2)


def linear(scores: Tensor, allowed: Tensor | None = None, *, mode: str = "add") -> Tensor:
    """No softmax: nothing that could saturate."""
    return scores / scores.shape[-1]


def causal_anyway(scores: Tensor, allowed: Tensor | None = None, *, mode: str = "add") -> Tensor:
    return attention_weights(scores, masks.Causal()(*masks.grid(scores.shape[-1])))


def sees_one_ahead(self: masks.Causal, query: Tensor, key: Tensor) -> Tensor:
    return key <= query + 1


def drifting(table: Tensor, layout: str) -> Tensor:
    """The angle grows with the square of the position."""
    squares = torch.arange(len(table)) ** 2
    return sinusoidal_table(int(squares[-1]) + 1, table.shape[-1], layout=layout)[squares]


def flipped_if_split(table: Tensor, layout: str) -> Tensor:
    return -table if layout == "split" else table


def sines_only(table: Tensor, layout: str) -> Tensor:
    return table[:, 0::2].repeat_interleave(2, dim=-1)


def first_row(table: Tensor, x: Tensor, positions: Tensor | None) -> Tensor:
    return table[: x.shape[-2]]


def odd_widths_too(num_positions: int, d_model: int, *, layout: str = "interleaved") -> Tensor:
    return sinusoidal_table(num_positions, d_model + d_model % 2, layout=layout)[:, :d_model]


def without_residual(self: Block, part: int, x: Tensor, y: Tensor) -> Tensor:
    return y


def mixed_heads(self: MultiHeadSelfAttention, x: Tensor) -> Tensor:
    """Head h has columns h, h + H, h + 2H..."""
    heads: Tensor = x.unflatten(-1, (-1, self.num_heads))
    return heads.movedim(-1, -3)


def columns_in_turn(self: MultiHeadSelfAttention, x: Tensor) -> Tensor:
    """Columns meet before any linear map could undo their order."""
    y: Tensor = self.v_proj(x.cumsum(dim=-1))
    return y


def without_tanh(self: Additive, q: Tensor, k: Tensor) -> Tensor:
    hidden = (q @ self.query)[..., :, None, :] + (k @ self.key)[..., None, :, :]
    return (hidden @ self.value[:, None, :, None]).squeeze(-1)


def over_width(self: DotProduct, q: Tensor, k: Tensor) -> Tensor:
    return (q * self.scale**2) @ k.mT


WRONG: list[tuple[str, str, Breakage]] = [
    ("C01", "softmax over queries", change_softmax(over_queries)),
    ("C01", "unscaled", force(DotProduct, scale=False)),
    ("C02", "no W_O", force(MultiHeadSelfAttention, d_output=None, d_head=7)),
    ("C02", "a token lost", change_output(MultiHeadSelfAttention, lambda x: x[:, 1:])),
    ("C02", "no mask", change_softmax(no_mask)),
    ("C03", "no mask", change_softmax(no_mask)),
    ("C03", "masked after softmax", change_softmax(mask_after)),
    ("C03", "a small number", change_softmax(small_mask)),
    ("C04", "order-aware without PE", change_softmax(causal_anyway)),
    ("C04", "PE lost", change_table(lambda table, _: torch.zeros_like(table))),
    ("C04", "PE the same everywhere", change_table(lambda table, _: table[:1].expand_as(table))),
    ("C05", "one position late", change_table(lambda table, _: later_by_one(table))),
    ("C05", "split", change_table(lambda t, _: sinusoidal_table(*t.shape, layout="split"))),
    ("C05", "odd widths accepted", put(encodings, "sinusoidal_table", odd_widths_too)),
    ("C06", "not scaled", force(Classifier, scale_embedding=False)),
    ("C06", "step ignored", put(positions, "rows", first_row)),
    ("C06", "PE scaled too", change_table(lambda table, _: 4 * table)),
    ("C07", "another encoding", change_table(flipped_if_split)),
    ("C07", "one layout only", force(SinusoidalPosition, layout="split")),
    ("C07", "not linear", put(MultiHeadSelfAttention, "forward", columns_in_turn)),
    ("C08", "no rotation", change_table(drifting)),
    ("C08", "a wave without its partner", change_table(sines_only)),
    ("C09", "slow waves first", change_table(lambda table, _: table.flip(-1))),
    ("C09", "a wave without its partner", change_table(sines_only)),
    ("C12", "never scaled", force(DotProduct, scale=False)),
    ("C12", "always scaled", force(DotProduct, scale=True)),
    ("C12", "divided by d_k", put(DotProduct, "forward", over_width)),
    ("C12", "nothing saturates", change_softmax(linear)),
    ("C13", "no W_O", force(MultiHeadSelfAttention, d_output=None)),
    ("C13", "W_O always", force(MultiHeadSelfAttention, d_output=6)),
    ("C14", "one ahead", put(masks.Causal, "__call__", sees_one_ahead)),
    ("C14", "no mask", change_softmax(no_mask)),
    ("C14", "masked after softmax", change_softmax(mask_after)),
    ("C14", "nothing attended", change_softmax(lambda s, *_, **__: torch.zeros_like(s))),
    ("C15", "dot product accepted", force(MultiHeadSelfAttention, score=Additive)),
    ("C15", "no hidden layer", put(Additive, "forward", without_tanh)),
    ("C16", "heads mixed", put(MultiHeadSelfAttention, "split_heads", mixed_heads)),
    ("C16", "outputs doubled", change_output(MultiHeadSelfAttention, lambda x: 2 * x)),
    ("C17", "no residual", put(Block, "joined", without_residual)),
    ("C17", "normalised", force(Block, norm="post")),
    ("C19", "no mask", change_softmax(no_mask)),
    ("C19", "`add` after softmax", change_softmax(mask_after)),
    ("C19", "`mul` before softmax", change_softmax(mask_before)),
    ("C19", "mean over padding", put(pooling, "MaskedMean", pooling.Mean)),
    ("C24", "neighbours mixed", change_output(FeedForward, later_by_one)),
    ("C24", "neighbours mixed in ours", change_output(Convolution, later_by_one)),
    ("C28", "a token lost a layer", change_output(Block, lambda x: x[:, :79])),
]


@pytest.mark.parametrize(
    ("name", "breakage"),
    [pytest.param(name, breakage, id=f"{name} {wrong}") for name, wrong, breakage in WRONG],
)
def test_it_is_refuted_when_a_piece_is_wrong(
    monkeypatch: Patch, name: str, breakage: Breakage
) -> None:
    breakage(monkeypatch)
    assert CLAIMS[name].check().conclusion is Conclusion.refuted


def test_every_claim_can_be_refuted() -> None:
    assert {name for name, _, _ in WRONG} == set(CLAIMS)


def test_a_difference_of_shapes_or_a_nan_is_never_within_tolerance() -> None:
    assert max_abs_diff(torch.zeros(2, 3), torch.zeros(3)) == math.inf
    nan = max_abs_diff(torch.tensor([math.nan, 0.0]), torch.zeros(2))
    for gap in (max_or_nan(0.0, nan), max_or_nan(nan, 0.0)):
        assert not gap <= 1e9
    assert max_or_nan(0.5, 2.0, 1.0) == 2.0
