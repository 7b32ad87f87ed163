"""Every claim holds on our code and results, and is refuted once what it rests on is broken."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import PUBLISHED, ROOT, Command, Patch
from made_up import made_group
from torch import Tensor, nn

from attnexp.analysis.endpoints import ENDPOINTS
from attnexp.analysis.families import difference
from attnexp.analysis.kexue import METRICS, Agreement
from attnexp.claims import costs, finding, layer, positions, studies, trials
from attnexp.claims.definitions import DEFINITIONS
from attnexp.claims.table import CLAIMS, check_claim
from attnexp.model import attention as model_attention
from attnexp.model import mixers
from attnexp.model import positions as model_positions
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.positions import sinusoidal_table
from attnexp.model.scores import Causal, DotProduct, Window, attention_weights, grid

BY_ID = {claim.id: claim for claim in CLAIMS}
OF_STUDIES = [claim.id for claim in CLAIMS if claim.study]
TRAINED = {"C25": "not supported", "C29": "supported"}
AT_ONCE = [name for name in BY_ID if name not in (*OF_STUDIES, *TRAINED)]

Breakage = Callable[[Patch], None]
"""Makes a piece wrong until the test ends."""


def test_every_claim_is_here_once_and_in_a_line() -> None:
    assert [claim.id for claim in CLAIMS] == [f"C{number:02}" for number in range(1, 33)]
    assert all(len(claim.text) <= 70 < len(claim.text + claim.refuted_by) for claim in CLAIMS)
    checked = {name for name, _, _ in (*WRONG, *MEASURED)}
    defined = {claim.id for claim in DEFINITIONS}
    assert checked | defined | {"C32"} == {*BY_ID}


@pytest.mark.parametrize("name", AT_ONCE)
def test_it_holds_and_leaves_the_random_state_alone(name: str) -> None:
    state = torch.get_rng_state()
    record = check_claim(BY_ID[name], Path())
    verdict = "by construction" if BY_ID[name] in DEFINITIONS else "holds"
    assert record["verdict"] == ("not supported" if name == "C12" else verdict)
    assert torch.equal(torch.get_rng_state(), state)
    if name != "C18":  # which shows seconds
        assert check_claim(BY_ID[name], Path()) == record


def put(owner: object, name: str, value: object) -> Breakage:
    return lambda patch: patch.setattr(owner, name, value)


def change_table(change: Callable[[Tensor, str], Tensor]) -> Breakage:
    """Change the table of sines and cosines, (table, layout) -> table, wherever it is used."""

    def changed(num_positions: int, d_model: int, *, layout: str = "interleaved") -> Tensor:
        return change(sinusoidal_table(num_positions, d_model, layout=layout), layout)

    def apply(patch: Patch) -> None:
        for module in (positions, model_positions):
            patch.setattr(module, "sinusoidal_table", changed)

    return apply


def change_softmax(weigh: Callable[..., Tensor]) -> Breakage:

    def apply(patch: Patch) -> None:
        for module in (model_attention, costs, layer):
            patch.setattr(module, "attention_weights", weigh)

    return apply


def change_output(owner: type[nn.Module], change: Callable[[Tensor], Tensor]) -> Breakage:
    forward: Callable[..., Tensor] = owner.forward
    return put(owner, "forward", lambda *given, **named: change(forward(*given, **named)))


def force(owner: type[nn.Module], **forced: Any) -> Breakage:
    """Construct a module with these arguments, whatever was asked for."""
    construct: Callable[..., None] = owner.__init__
    return put(owner, "__init__", lambda *given, **named: construct(*given, **{**named, **forced}))


def small_mask(scores: Tensor, allowed: Tensor) -> Tensor:
    """The large negative number is not large."""
    return scores.masked_fill(~allowed, -20.0).softmax(dim=-1)


def causal_anyway(scores: Tensor, *_: Any, **__: Any) -> Tensor:
    return attention_weights(scores, Causal()(*grid(scores.shape[-1])))


def drifting(table: Tensor, layout: str) -> Tensor:
    """The angle grows with the square of the position."""
    squares = torch.arange(len(table)) ** 2
    return sinusoidal_table(int(squares[-1]) + 1, table.shape[-1], layout=layout)[squares]


def mixed_heads(self: MultiHeadSelfAttention, x: Tensor) -> Tensor:
    heads: Tensor = x.unflatten(-1, (-1, self.num_heads))
    return heads.movedim(-1, -3)


def whole_map(q: Tensor, k: Tensor, v: Tensor, *, radius: int) -> Tensor:
    allowed = Window(radius=radius)(*grid(q.shape[-2]))
    return attention_weights(q @ k.mT, allowed) @ v


MASK_AFTER = change_softmax(lambda s, seen=None, **_: attention_weights(s, seen, "mul"))

WRONG: list[tuple[str, str, Breakage]] = [
    ("C03", "masked after softmax", MASK_AFTER),
    ("C03", "a small number", change_softmax(small_mask)),
    ("C04", "order-aware without PE", change_softmax(causal_anyway)),
    ("C04", "PE lost", change_table(lambda table, _: torch.zeros_like(table))),
    ("C07", "another encoding", change_table(lambda t, layout: -t if layout == "split" else t)),
    ("C08", "no rotation", change_table(drifting)),
    ("C09", "slow waves first", change_table(lambda table, _: table.flip(-1))),
    ("C12", "never scaled", force(DotProduct, scale=False)),
    ("C12", "nothing saturates", change_softmax(lambda scores: scores / scores.shape[-1])),
    ("C14", "one ahead", put(Causal, "__call__", lambda _, query, key: key <= query + 1)),
    ("C16", "heads mixed", put(MultiHeadSelfAttention, "split_heads", mixed_heads)),
    ("C18", "heads mixed", put(MultiHeadSelfAttention, "split_heads", mixed_heads)),
    ("C19", "`add` after softmax", MASK_AFTER),
    ("C19", "mean over padding", put(layer, "MaskedMean", mixers.Mean)),
    ("C23", "the window makes the whole map", put(costs, "window_attention", whole_map)),
    ("C27", "a wider convolution", force(mixers.Convolution, kernel=5)),
    ("C27", "an LSTM that sees the end", change_output(mixers.LSTM, lambda x: x + x[:, -1:])),
    ("C27", "attention looks back only", change_softmax(causal_anyway)),
]


@pytest.mark.parametrize(
    ("name", "breakage"), [pytest.param(*wrong[::2], id=" ".join(wrong[:2])) for wrong in WRONG]
)
def test_a_wrong_piece_refutes_it(monkeypatch: Patch, name: str, breakage: Breakage) -> None:
    breakage(monkeypatch)
    assert BY_ID[name].check().verdict == "refuted"


def test_a_difference_of_shapes_or_a_nan_is_never_within_tolerance() -> None:
    zero = torch.zeros(2)
    nan = torch.tensor([np.nan, 0.0])
    assert finding.max_abs_diff((torch.zeros(2, 3), torch.zeros(3))) == np.inf
    assert not finding.max_abs_diff((nan, zero), (zero, zero)) <= 1e9
    assert finding.max_abs_diff((zero, zero), (zero + 2, zero)) == 2


@pytest.mark.parametrize("name", OF_STUDIES)
def test_published_studies_give_the_documented_verdict(name: str) -> None:
    record = check_claim(BY_ID[name], PUBLISHED)
    row = f"| {record['refuted_by']} | {record['measured']} | {record['n']} | {record['verdict']} |"
    assert row in (ROOT / "docs" / "reproduction.md").read_text()


@pytest.mark.parametrize("name", ["C10", "C30", "C32"])
def test_without_runs_the_command_is_named(name: str, tmp_path: Path) -> None:
    record = check_claim(BY_ID[name], tmp_path)
    assert record["verdict"] == "missing runs"
    assert f"attnexp sweep study={BY_ID[name].study}" in record["measured"]


def accuracies(wobble: float = 0.001, **finals: float) -> Breakage:
    """Six seeds a variant on IMDB, at best and final; the first one's differ by ± `wobble`."""
    rows = [
        {"data": "imdb", "protocol": "blog", "variant": name, "seed": str(seed), "epoch": 5}
        | {"metric": "accuracy", "value": value + wobble * (-1) ** seed * (place == 0)}
        for place, (name, value) in enumerate(finals.items())
        for seed in range(6)
    ]
    final = pd.DataFrame(rows)
    epochs = [final.assign(metric="val_accuracy"), final.assign(metric="train_accuracy", value=0.9)]
    group = made_group(
        *finals,
        points=list(ENDPOINTS["blog"]),
        endpoints=pd.concat([final.assign(point=point) for point in ("final", "best")]),
        epochs=pd.concat(epochs),
        published=pd.DataFrame({"variant": [*finals], "epoch": 5, **dict.fromkeys(METRICS, 0.8)}),
        configs=dict.fromkeys(finals, K),
        families=[],
        num_texts={},
    )
    return put(studies, "load_groups", lambda _: [group])


def ks_values_inside(inside: int) -> Breakage:
    ours = [*range(21, 41)]
    agreement = Agreement(n=20, unlike=(), num_inside=inside, num_values=40, ours=ours)
    other = replace(agreement, unlike=("eps",))

    def apply(patch: Patch) -> None:
        patch.setattr(studies, "find_group", lambda *_, **__: None)
        patch.setattr(studies, "agreements_with_k", lambda _: [agreement, other])

    return apply


def intervened(intervention: str, changed: float) -> Breakage:
    """PE has 0.82 and the model without it 0.8; an intervention changes PE's."""
    means = {"pe": 0.82, f"pe, {intervention}": changed, "no_pe": 0.8}
    rows = [
        {"variant": variant, "seed": str(seed), "point": "result", "metric": "accuracy"}
        | {"value": mean + seed ** (1 + (mean == changed)) / 1e5}
        for variant, mean in means.items()
        for seed in range(6)
    ]
    group = made_group(*means, endpoints=pd.DataFrame(rows))
    return put(studies, "probe_studies", lambda *_: [group])


def tagged(*accuracies: float) -> Breakage:
    seen = dict(zip(trials.TAGGERS.values(), accuracies, strict=True))
    return put(trials, "train_tagger", lambda words, seed: [seen[words] + seed / 1e5] * 3)


def learned(running: float, after: float) -> Breakage:
    row = SimpleNamespace(train_accuracy=running, train_accuracy_after=after, val_accuracy=0.93)
    return put(trials, "train_run", lambda _: (None, SimpleNamespace(epochs=[None, row])))


K = {"model": {"score": {"scale": False}}, "train": {"eps": 1e-8}}
PAIRS = {"attention": 0.8, "cnn": 0.79, "lstm": 0.79, "lstm_attention": 0.82}
PE = {"sinusoidal": 0.82, "none": 0.8}

MEASURED: list[tuple[str, str, Breakage]] = [
    ("C10", "supported", accuracies(learned=0.821, **PE)),
    ("C10", "undecided", accuracies(0.01, learned=0.821, **PE)),
    ("C10", "not supported", accuracies(learned=0.84, **PE)),
    ("C11", "supported", accuracies(concat=0.81, sinusoidal=0.82, none=0.8)),
    ("C11", "not supported", accuracies(concat=0.79, sinusoidal=0.79, none=0.8)),
    ("C20", "supported", ks_values_inside(40)),
    ("C20", "not supported", ks_values_inside(20)),
    ("C21", "supported", accuracies(attention=0.83, lstm=0.82)),
    ("C21", "not supported", accuracies(attention=0.81, lstm=0.82)),
    ("C22", "supported", accuracies(pe=0.82, no_pe=0.8)),
    ("C22", "not supported", accuracies(pe=0.79, no_pe=0.8)),
    ("C25", "supported", tagged(0.58, 0.8, 1.0)),
    ("C25", "not supported", tagged(0.7, 0.8, 1.0)),
    ("C25", "undecided", tagged(0.58, 0.8, 0.94)),
    ("C26", "supported", accuracies(cnn_attention=0.82, **PAIRS)),
    ("C26", "undecided", accuracies(cnn_attention=0.80, **PAIRS)),
    ("C29", "supported", learned(0.7, 0.92)),
    ("C29", "not supported", learned(0.7, 0.8)),
    ("C30", "supported", intervened("shuffle", 0.77)),
    ("C30", "not supported", intervened("shuffle", 0.81)),
    ("C31", "supported", intervened("no_head=1", 0.82)),
    ("C31", "not supported", intervened("no_head=1", 0.8)),
]


@pytest.mark.parametrize(("name", "verdict", "results"), MEASURED)
def test_results_decide(monkeypatch: Patch, name: str, verdict: str, results: Breakage) -> None:
    results(monkeypatch)
    assert check_claim(BY_ID[name], Path())["verdict"] == verdict


@pytest.mark.parametrize("name", ["C10", "C11", "C21", "C26"])
def test_a_best_epoch_that_is_the_last_is_judged_as_that(monkeypatch: Patch, name: str) -> None:
    accuracies(cnn_attention=0.82, learned=0.82, concat=0.82, **PAIRS, **PE)(monkeypatch)
    group = studies.find_group(Path(), [difference("sinusoidal", "none")])
    rows = group.endpoints[group.endpoints["point"] == "final"]
    alone = replace(group, points=group.points[:1], endpoints=rows)
    monkeypatch.setattr(studies, "load_groups", lambda _: [alone])
    assert check_claim(BY_ID[name], Path())["verdict"] == "supported"


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_trained_on_the_spot(name: str) -> None:
    assert check_claim(BY_ID[name], Path())["verdict"] == TRAINED[name]


def test_the_command_exits_1_where_a_claim_fails(here: Command, monkeypatch: Patch) -> None:
    shown = here("claims", "c07", "C13")
    assert shown.returncode == 0
    assert "construction" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert shown.stderr == "Checking C07, 1 of 2\nChecking C13, 2 of 2\n"
    wrong = change_table(lambda table, layout: table * len(layout))
    wrong(monkeypatch)
    failed = here("claims", "C07", "C22", "--json", "--out", ".")
    assert failed.returncode == 1
    assert "refuted: C07; missing runs: C22" in failed.stderr
    record, missing = json.loads(failed.stdout)["claims"]
    assert (record["id"], record["source"], record["verdict"]) == ("C07", "K", "refuted")
    assert missing["verdict"] == "missing runs"
