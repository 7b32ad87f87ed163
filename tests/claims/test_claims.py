"""Every claim holds on our code and results, and is refuted once what it rests on is broken."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

from attnexp.analysis.frames import Group
from attnexp.claims import costs, exact, studies, table, trials
from attnexp.cli.app import app
from attnexp.model import attention, masks, pooling, positions
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.block import Block, FeedForward
from attnexp.model.classifier import Classifier
from attnexp.model.mixers import LSTM, Convolution
from attnexp.model.positions import sinusoidal_table
from attnexp.model.scores import Additive, DotProduct
from attnexp.model.softmax import attention_weights

CLAIMS = {claim.id: claim for claim in table.CLAIMS}
AT_ONCE = [
    claim.id for claim in table.CLAIMS if claim.check.__module__ in (exact.__name__, costs.__name__)
]
PUBLISHED = Path(__file__).parents[2] / "outputs" / "published"

Patch = pytest.MonkeyPatch
Breakage = Callable[[Patch], None]
"""Makes a piece wrong until the test ends."""


def test_every_claim_is_here_once_and_in_a_line() -> None:
    assert [*CLAIMS] == [f"C{number:02}" for number in range(1, 33)]
    assert all(len(claim.text) <= 70 for claim in table.CLAIMS)
    assert CLAIMS.keys() > table.BY_CONSTRUCTION


@pytest.mark.parametrize("name", AT_ONCE)
def test_it_holds_and_leaves_the_random_state_alone(name: str) -> None:
    state = torch.get_rng_state()
    found = table.check(CLAIMS[name], Path())
    # of C12 all is so but that the gradient's norm is not smaller at every width
    assert found["verdict"].startswith("not supported" if name == "C12" else "holds")
    assert torch.equal(torch.get_rng_state(), state)
    if name != "C18":  # which shows seconds
        assert table.check(CLAIMS[name], Path()) == found


def put(owner: object, name: str, value: object) -> Breakage:
    return lambda patch: patch.setattr(owner, name, value)


def change_table(change: Callable[[Tensor, str], Tensor]) -> Breakage:
    """Change the table of sines and cosines, (table, layout) -> table, wherever it is used."""

    def changed(num_positions: int, d_model: int, *, layout: str = "interleaved") -> Tensor:
        return change(sinusoidal_table(num_positions, d_model, layout=layout), layout)

    def apply(patch: Patch) -> None:
        for module in (exact, positions):
            patch.setattr(module, "sinusoidal_table", changed)

    return apply


def change_softmax(weigh: Callable[..., Tensor]) -> Breakage:
    """Put this in the place of `attention_weights`."""

    def apply(patch: Patch) -> None:
        for module in (attention, exact, costs):
            patch.setattr(module, "attention_weights", weigh)

    return apply


def change_output(owner: type[nn.Module], change: Callable[[Tensor], Tensor]) -> Breakage:
    """Change what a module's `forward` gives."""
    forward: Callable[..., Tensor] = owner.forward
    return put(owner, "forward", lambda *given, **named: change(forward(*given, **named)))


def force(owner: type[nn.Module], **forced: Any) -> Breakage:
    """Construct a module with these arguments, whatever was asked for."""
    construct: Callable[..., None] = owner.__init__
    return put(owner, "__init__", lambda *given, **named: construct(*given, **{**named, **forced}))


def no_mask(scores: Tensor, allowed: Tensor | None = None, mode: str = "add") -> Tensor:
    return scores.softmax(dim=-1)


def mask_after(scores: Tensor, allowed: Tensor | None = None, mode: str = "add") -> Tensor:
    return attention_weights(scores, allowed, mode="mul")


def mask_before(scores: Tensor, allowed: Tensor | None = None, mode: str = "add") -> Tensor:
    return attention_weights(scores, allowed)


def small_mask(scores: Tensor, allowed: Tensor | None = None, mode: str = "add") -> Tensor:
    """The large negative number is not large."""
    return (scores if allowed is None else scores.masked_fill(~allowed, -20.0)).softmax(dim=-1)


def causal_anyway(scores: Tensor, allowed: Tensor | None = None, mode: str = "add") -> Tensor:
    return attention_weights(scores, masks.Causal()(*masks.grid(scores.shape[-1])))


def drifting(table: Tensor, layout: str) -> Tensor:
    """The angle grows with the square of the position."""
    squares = torch.arange(len(table)) ** 2
    return sinusoidal_table(int(squares[-1]) + 1, table.shape[-1], layout=layout)[squares]


def sines_only(table: Tensor, layout: str) -> Tensor:
    return table[:, 0::2].repeat_interleave(2, dim=-1)


def odd_widths_too(num_positions: int, d_model: int, *, layout: str = "interleaved") -> Tensor:
    return sinusoidal_table(num_positions, d_model + d_model % 2, layout=layout)[:, :d_model]


def mixed_heads(self: MultiHeadSelfAttention, x: Tensor) -> Tensor:
    """Head h has columns h, h + H, h + 2H..."""
    heads: Tensor = x.unflatten(-1, (-1, self.num_heads))
    return heads.movedim(-1, -3)


def without_tanh(self: Additive, q: Tensor, k: Tensor) -> Tensor:
    hidden = (q @ self.query)[..., :, None, :] + (k @ self.key)[..., None, :, :]
    return (hidden @ self.value[:, None, :, None]).squeeze(-1)


def whole_map(q: Tensor, k: Tensor, v: Tensor, *, radius: int) -> Tensor:
    """What the window gives, at the full price."""
    allowed = masks.Window(radius=radius)(*masks.grid(q.shape[-2]))
    return attention_weights(q @ k.mT, allowed) @ v


WRONG: list[tuple[str, str, Breakage]] = [
    ("C01", "softmax over queries", change_softmax(lambda scores: scores.softmax(dim=-2))),
    ("C01", "unscaled", force(DotProduct, scale=False)),
    ("C02", "no W_O", force(MultiHeadSelfAttention, d_output=None, d_head=7)),
    ("C02", "a token lost", change_output(MultiHeadSelfAttention, lambda x: x[:, 1:])),
    ("C03", "no mask", change_softmax(no_mask)),
    ("C03", "masked after softmax", change_softmax(mask_after)),
    ("C03", "a small number", change_softmax(small_mask)),
    ("C04", "order-aware without PE", change_softmax(causal_anyway)),
    ("C04", "PE lost", change_table(lambda table, _: torch.zeros_like(table))),
    ("C04", "PE the same everywhere", change_table(lambda table, _: table[:1].expand_as(table))),
    ("C05", "one position late", change_table(lambda table, _: table.roll(1, dims=0))),
    ("C05", "split", change_table(lambda t, _: sinusoidal_table(*t.shape, layout="split"))),
    ("C05", "odd widths accepted", put(exact, "sinusoidal_table", odd_widths_too)),
    ("C06", "not scaled", force(Classifier, scale_embedding=False)),
    ("C06", "step ignored", put(positions, "rows", lambda table, x, _: table[: x.shape[-2]])),
    ("C06", "PE scaled too", change_table(lambda table, _: 4 * table)),
    ("C07", "another encoding", change_table(lambda t, layout: -t if layout == "split" else t)),
    ("C08", "no rotation", change_table(drifting)),
    ("C08", "a wave without its partner", change_table(sines_only)),
    ("C09", "slow waves first", change_table(lambda table, _: table.flip(-1))),
    ("C09", "a wave without its partner", change_table(sines_only)),
    ("C12", "never scaled", force(DotProduct, scale=False)),
    ("C12", "always scaled", force(DotProduct, scale=True)),
    ("C12", "nothing saturates", change_softmax(lambda scores: scores / scores.shape[-1])),
    ("C13", "no W_O", force(MultiHeadSelfAttention, d_output=None)),
    ("C13", "W_O always", force(MultiHeadSelfAttention, d_output=6)),
    ("C14", "one ahead", put(masks.Causal, "__call__", lambda _, query, key: key <= query + 1)),
    ("C14", "no mask", change_softmax(no_mask)),
    ("C14", "masked after softmax", change_softmax(mask_after)),
    ("C14", "nothing attended", change_softmax(lambda s, *_, **__: torch.zeros_like(s))),
    ("C15", "dot product accepted", force(MultiHeadSelfAttention, score=Additive)),
    ("C15", "no hidden layer", put(Additive, "forward", without_tanh)),
    ("C16", "heads mixed", put(MultiHeadSelfAttention, "split_heads", mixed_heads)),
    ("C16", "outputs doubled", change_output(MultiHeadSelfAttention, lambda x: 2 * x)),
    ("C17", "no residual", force(Block, residual=False)),
    ("C17", "normalised", force(Block, norm="post")),
    ("C18", "heads mixed", put(MultiHeadSelfAttention, "split_heads", mixed_heads)),
    ("C19", "no mask", change_softmax(no_mask)),
    ("C19", "`add` after softmax", change_softmax(mask_after)),
    ("C19", "`mul` before softmax", change_softmax(mask_before)),
    ("C19", "mean over padding", put(exact, "MaskedMean", pooling.Mean)),
    ("C23", "the window makes the whole map", put(costs, "window_attention", whole_map)),
    ("C23", "a wider convolution", force(Convolution, kernel=5)),
    ("C23", "no products", change_softmax(lambda scores: scores[..., :1, :])),
    ("C24", "neighbours mixed", change_output(FeedForward, lambda x: x.roll(1, dims=-2))),
    ("C27", "a wider convolution", force(Convolution, kernel=5)),
    ("C27", "an LSTM that sees the end", change_output(LSTM, lambda x: x + x[:, -1:])),
    ("C27", "attention looks back only", change_softmax(causal_anyway)),
    ("C28", "a token lost", change_output(MultiHeadSelfAttention, lambda x: x[:, :79])),
]


@pytest.mark.parametrize(
    ("name", "breakage"), [pytest.param(*wrong[::2], id=" ".join(wrong[:2])) for wrong in WRONG]
)
def test_it_is_refuted_when_a_piece_is_wrong(
    monkeypatch: Patch, name: str, breakage: Breakage
) -> None:
    breakage(monkeypatch)
    assert CLAIMS[name].check().verdict == "refuted"


def test_every_exact_claim_can_be_refuted() -> None:
    assert {name for name, _, _ in WRONG} == {*AT_ONCE}


def test_a_difference_of_shapes_or_a_nan_is_never_within_tolerance() -> None:
    assert exact.max_abs_diff(torch.zeros(2, 3), torch.zeros(3)) == np.inf
    nan, zero = torch.tensor([np.nan, 0.0]), torch.zeros(2)
    assert not exact.max_abs_diff(nan, zero, zero, zero) <= 1e9
    assert exact.max_abs_diff(zero, zero, zero + 2, zero) == 2


VERDICTS = {
    **{"C10": "not supported", "C11": "undecided", "C20": "supported", "C21": "not supported"},
    **{"C22": "supported", "C26": "undecided", "C30": "undecided", "C31": "undecided"},
    "C32": "supported",
}


@pytest.mark.parametrize("name", VERDICTS)
def test_published_studies_give_the_documented_verdict(name: str) -> None:
    assert table.check(CLAIMS[name], PUBLISHED)["verdict"] == VERDICTS[name]


@pytest.mark.parametrize("name", VERDICTS)
def test_without_runs_the_command_is_named(name: str, tmp_path: Path) -> None:
    found = table.check(CLAIMS[name], tmp_path)
    assert found["verdict"] == "missing runs"
    assert f"attnexp sweep study={CLAIMS[name].study}" in found["measured"]


def group(finals: dict[str, float], wobble: float = 0.0, last: int = 5) -> Group:
    """Six seeds a variant on IMDB, all with these accuracies, at best and final; those of the first
    variant differ by `wobble` between seeds. Accuracy on train is 0.9."""
    at = {"data": "imdb", "protocol": "blog"}
    rows = [
        {**at, "variant": name, "seed": str(seed), "epoch": last, "metric": "accuracy"}
        | {"value": value + wobble * (-1) ** seed * (name == next(iter(finals)))}
        for name, value in finals.items()
        for seed in range(6)
    ]
    table = pd.DataFrame(rows)
    epochs = [table.assign(metric="val_accuracy"), table.assign(metric="train_accuracy", value=0.9)]
    return Group(
        **at,
        variants=[*finals],
        points=["final", "best"],
        endpoints=pd.concat([table.assign(point=point) for point in ("final", "best")]),
        epochs=pd.concat(epochs),
        published=pd.DataFrame({"variant": [*finals]}),
    )


def positions_of(**learned: float) -> dict[str, float]:
    return learned | {"sinusoidal": 0.82, "none": 0.8}


def pairs(cnn_attention: float) -> dict[str, float]:
    return {"cnn_attention": cnn_attention, "attention": 0.8, "cnn": 0.79, "lstm": 0.79,
            "lstm_attention": 0.82}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "finals", "wobble", "verdict"),
    [
        ("C10", positions_of(learned=0.821), 0.001, "supported"),
        ("C10", positions_of(learned=0.821), 0.01, "undecided"),
        ("C10", positions_of(learned=0.84), 0.001, "not supported"),
        ("C11", positions_of(concat=0.821), 0.001, "supported"),
        ("C11", positions_of(concat=0.79), 0.001, "not supported"),
        ("C11", {"concat": 0.79, "sinusoidal": 0.79, "none": 0.8}, 0.0, "not supported"),
        ("C21", {"attention": 0.83, "lstm": 0.82}, 0.001, "supported"),
        ("C21", {"attention": 0.83, "lstm": 0.82}, 0.1, "undecided"),
        ("C21", {"attention": 0.81, "lstm": 0.82}, 0.001, "not supported"),
        ("C22", {"pe": 0.82, "no_pe": 0.8}, 0.001, "supported"),
        ("C22", {"pe": 0.79, "no_pe": 0.8}, 0.001, "not supported"),
        ("C26", pairs(0.82), 0.001, "supported"),
        ("C26", pairs(0.80), 0.001, "undecided"),
        ("C26", pairs(0.78), 0.001, "not supported"),
    ],
)
def test_intervals_decide(
    monkeypatch: Patch, name: str, finals: dict[str, float], wobble: float, verdict: str
) -> None:
    monkeypatch.setattr(studies, "load", lambda _: [group(finals, wobble)])
    found = CLAIMS[name].check(Path("study"))
    assert (found.verdict, found.n) == (verdict, 6)


def test_an_interval_supports_a_claim_on_one_side_of_its_bound_alone() -> None:
    sides = [exact.beyond(low, low + 2, 1.5) for low in (1.6, 0.0, -1.0)]
    assert sides == ["supported", "undecided", "not supported"]
    assert [exact.joint(sides[:n]) for n in (1, 2, 3)] == sides


@pytest.mark.parametrize(("inside", "verdict"), [(40, "supported"), (20, "not supported")])
def test_c20_ranks_ks_count_among_our_own(monkeypatch: Patch, inside: int, verdict: str) -> None:
    count = {"unlike": (), "inside": inside, "values": 40, "n": 20, "own": [*range(21, 41)]}
    monkeypatch.setattr(studies, "group_of", lambda *_, **__: None)
    monkeypatch.setattr(studies, "k_counts", lambda _: [count, count | {"unlike": ("eps",)}])
    assert studies.c20(Path("blog"))[::2] == (verdict, 20)


@pytest.mark.parametrize(
    ("name", "changed", "verdict"),
    [
        ("C30", 0.77, "supported"),
        ("C30", 0.81, "not supported"),
        ("C31", 0.82, "supported"),
        ("C31", 0.8, "not supported"),
    ],
)
def test_what_probe_found_decides(
    monkeypatch: Patch, name: str, changed: float, verdict: str
) -> None:
    """PE has 0.82 and the model without 0.8; an intervention changes PE's."""
    rows = [
        {"variant": variant, "seed": str(seed), "intervention": intervention}
        | {"accuracy": before + seed / 1e4, "changed_accuracy": after + seed**2 / 1e5}
        for variant, before, after in (("pe", 0.82, changed), ("no_pe", 0.8, 0.8))
        for intervention in ("shuffle", "shuffle_half", "no_head=1", "no_head=2")
        for seed in range(6)
    ]
    asked = pd.DataFrame(rows).query("intervention.str.startswith(@kind)")
    monkeypatch.setattr(studies, "probe", lambda *_: (asked, []))
    assert CLAIMS[name].check(Path("blog"))[::2] == (verdict, 6)


TAGGED = {"position=none model.heads=4": 0.58, "position=sinusoidal model.heads=4": 0.8,
          "model=cnn": 1.0}  # fmt: skip


@pytest.mark.parametrize(
    ("moved", "verdict"),
    [
        ({}, "supported"),
        ({"position=none model.heads=4": 0.7}, "not supported"),
        ({"position=sinusoidal model.heads=4": 0.59}, "not supported"),
        ({"position=sinusoidal model.heads=4": 0.99}, "not supported"),
        ({"model=cnn": 0.94}, "undecided"),
    ],
)
def test_c25_the_rule(monkeypatch: Patch, moved: dict[str, float], verdict: str) -> None:
    seen = TAGGED | moved
    monkeypatch.setattr(trials, "tagging", lambda words, seed: [seen[words] + seed / 1e5] * 3)
    assert trials.c25().verdict == verdict


@pytest.mark.parametrize(
    ("running", "after", "verdict"),
    [(0.7, 0.92, "supported"), (0.95, 0.92, "not supported"), (0.7, 0.8, "not supported")],
)
def test_c29_the_rule(monkeypatch: Patch, running: float, after: float, verdict: str) -> None:
    row = SimpleNamespace(train_accuracy=running, train_accuracy_after=after, val_accuracy=0.93)
    monkeypatch.setattr(trials, "train_run", lambda _: (None, SimpleNamespace(epochs=[None, row])))
    assert trials.c29().verdict == verdict


@pytest.mark.slow
@pytest.mark.parametrize(("name", "verdict"), [("C25", "not supported"), ("C29", "supported")])
def test_trained_on_the_spot(name: str, verdict: str) -> None:
    assert table.check(CLAIMS[name], Path())["verdict"] == verdict


def test_the_command_prints_a_table_and_exits_1_where_a_claim_is_refuted(
    monkeypatch: Patch,
) -> None:
    shown = CliRunner().invoke(app, ["claims", "c07", "C13"], env={"COLUMNS": "80"})
    assert shown.exit_code == 0
    assert "holds by" in shown.output
    assert max(map(len, shown.output.splitlines())) <= 80
    put(exact, "sinusoidal_table", lambda *_, layout: torch.full((9, 16), len(layout)))(monkeypatch)
    found = CliRunner().invoke(app, ["claims", "C07", "--json"])
    assert found.exit_code == 1
    record = json.loads(found.stdout)["claims"][0]
    assert (record["id"], record["source"], record["verdict"]) == ("C07", "K", "refuted")
