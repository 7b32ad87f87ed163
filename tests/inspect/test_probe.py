"""Interventions do to a trained model what they say, and nothing else; results are kept."""

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ROOT, Refused
from samples import composed, exit_code, padded_reviews
from torch import Tensor, nn

from attnexp.config.compose import compose
from attnexp.inspect import relevance
from attnexp.inspect.doctor import examine
from attnexp.inspect.interventions import INTERVENTIONS, choose, load
from attnexp.inspect.probe import probe as probe_runs
from attnexp.model.classifier import build_model
from attnexp.model.mixers import Mean
from attnexp.runs import probed, store
from attnexp.runs.arrays import WEIGHTS
from attnexp.runs.manifest import load_runs
from attnexp.runs.probed import FILE
from attnexp.training.evaluate import evaluate_run
from attnexp.training.run import train_run

IDS = padded_reviews()
ORDERS = ["shuffle", "shuffle=2", "shuffle=3", "reverse"]
POSITIONS = ["sinusoidal", "learned", "rotary", "relative", "alibi",
             "sinusoidal position.combine=concat"]  # fmt: skip


def model_of(words: str, like: nn.Module | None = None) -> nn.Module:
    """A model of random weights, or of those that it shares with another."""
    model = build_model(composed(words)).double().eval().requires_grad_(False)
    torch.manual_seed(0)
    for weight in model.parameters():
        weight.normal_()
    if like is not None:
        model.load_state_dict(like.state_dict(), strict=False)
    return model


@torch.no_grad()
def logits(model: nn.Module, intervention: str = "", ids: Tensor = IDS) -> Tensor:
    changed = load(intervention)(ids, model) if intervention else ids
    if isinstance(changed, Tensor):
        ids, changed = changed, nullcontext()
    with changed:
        found: Tensor = model(ids)
    return found


@pytest.mark.parametrize("order", ORDERS)
def test_words_change_places_within_their_text(order: str) -> None:
    moved = load(order)(IDS, model_of("position=none"))
    assert isinstance(moved, Tensor)
    assert torch.equal(moved.sort(dim=1).values, IDS.sort(dim=1).values)
    assert torch.equal(moved == 0, IDS == 0)
    assert torch.equal(moved == 1, IDS == 1)
    assert not torch.equal(moved, IDS)


def test_windows_keep_words_near() -> None:
    ids = torch.arange(2, 32)[None]
    for window in (2, 3, 5):
        moved = load(f"shuffle={window}")(ids, nn.Module())
        assert isinstance(moved, Tensor)
        assert torch.equal((moved - 2) // window, (ids - 2) // window)
    assert torch.equal(load("reverse")(ids, nn.Module()), ids.flip(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ORDERS)
def test_only_a_model_with_order_notices_order(order: str) -> None:
    blind, seeing = model_of("position=none"), model_of("position=sinusoidal")
    torch.testing.assert_close(logits(blind, order), logits(blind), rtol=0, atol=1e-12)
    assert not torch.allclose(logits(seeing, order), logits(seeing))


@pytest.mark.parametrize("position", POSITIONS)
def test_without_positions_it_computes_as_position_none(position: str) -> None:
    model = model_of(f"position={position}")
    without = logits(model, "no_positions")
    assert not torch.allclose(logits(model), without)
    reversed_text = logits(model, "no_positions", IDS[2:3].flip(1))
    torch.testing.assert_close(reversed_text, without[2:3])
    if "concat" not in position:  # whose later layers are wider than those of none
        assert torch.equal(without, logits(model_of("position=none", model)))


@pytest.mark.parametrize("position", POSITIONS)
def test_only_tables_notice_a_shift_and_all_a_permutation(position: str) -> None:
    model = model_of(f"position={position}")
    relative = position in ("rotary", "relative", "alibi")
    assert torch.allclose(logits(model, "shift_positions=3"), logits(model)) is relative
    assert torch.allclose(logits(model, "shift_positions=0"), logits(model))
    assert not torch.allclose(logits(model, "permute_positions"), logits(model))


@pytest.mark.parametrize("words", ["", "position=alibi", "mask=causal", "mask=padding"])
def test_attention_can_be_made_uniform_or_blind(words: str) -> None:
    model = model_of(words)
    uniform = model_of(f"model.score=uniform {words.replace('position=alibi', '')}", model)
    assert torch.equal(logits(model, "uniform"), logits(uniform))
    assert torch.equal(logits(uniform, "uniform"), logits(uniform))
    if words != "mask=padding":
        window = model_of("mask=window mask.radius=0", model)
        torch.testing.assert_close(logits(model, "self_only"), logits(window))


def test_a_head_is_removed_alone() -> None:
    model = model_of("model.layers=2 model.residual=true model.output_projection=true")
    each = [logits(model, f"no_head={i}") for i in range(1, 5)]
    assert len({tuple(one.tolist()) for one in [logits(model), *each]}) == 5
    one_head = model_of("model.heads=1")
    assert len(set(logits(one_head, "no_head=1").tolist())) == 1  # the bias of the output
    for number in ("0", "2"):
        with pytest.raises(ValueError, match="has 1 heads"):
            logits(one_head, f"no_head={number}")


def test_words_become_unknown_and_texts_are_cut() -> None:
    def ids(name: str) -> Tensor:
        changed = load(name)(IDS, nn.Module())
        assert isinstance(changed, Tensor)
        return changed

    assert torch.equal(ids("unknown=0"), IDS)
    assert torch.equal(ids("unknown=1"), IDS.clamp(max=2))
    assert torch.equal(ids("last=9"), IDS)
    assert torch.equal(ids("last=3")[:, -3:], IDS[:, -3:])
    assert not ids("last=3")[:, :-3].any()


@pytest.mark.parametrize("name", INTERVENTIONS)
def test_a_model_is_as_it_was_afterwards(name: str) -> None:
    model = model_of("position=learned")
    before = logits(model)
    for chosen in choose(name, num_heads=2):
        logits(model, chosen)
    assert torch.equal(logits(model), before)


def test_relevance_adds_up_where_the_model_is_linear() -> None:
    model = model_of("model=mean model.pooling=mean position=none")
    output: Any = model.output
    score = logits(model)
    own = (score - output.bias) * score.sign()
    torch.testing.assert_close(relevance.gradient(model, IDS).sum(dim=1), own)
    erased = relevance.erasure(model, IDS)
    pad = relevance.gradient(model, IDS)[0, 0] * score[0].sign()
    expected = relevance.gradient(model, IDS) - pad * score.sign()[:, None]
    torch.testing.assert_close(erased, expected)


def test_heads_of_uniform_attention_have_the_highest_entropy() -> None:
    found = relevance.heads(model_of("model.score=uniform"), IDS)
    assert found["entropy"] == pytest.approx([1, 1])
    near = relevance.heads(model_of("mask=window mask.radius=0"), IDS)
    assert near == {"entropy": [0, 0], "distance": [0, 0]}


SMALL = """data=contrast data.limit_train=64 data.limit_test=48 train.epochs=1 model.d_model=8
model.heads=2 model.d_head=4 train.lr=0.05 train.threads=1""".split()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of a model without order, and one with."""
    out = tmp_path_factory.mktemp("trained")
    words = (["seed=0"], ["seed=1"], ["position=learned"])
    return [train_run(compose([*SMALL, f"out={out}", *more]))[0] for more in words]


@pytest.fixture
def runs(trained: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Copies of them in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copytree(trained[0].parent, "outputs/runs")
    return [Path("outputs/runs", run.name) for run in trained]


Probe = Callable[..., tuple[int, str, str]]


@pytest.fixture
def probe(capsys: pytest.CaptureFixture[str]) -> Probe:
    """Exit code, stdout, and stderr on one line, of the command on all runs."""

    def run(do: str, *more: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = exit_code("probe", "outputs/runs", "--do", do, *more)
        out, err = capsys.readouterr()
        return code, out, " ".join(err.split())

    return run


def nothing(ids: Tensor, model: nn.Module) -> Tensor:
    return ids


def broken(ids: Tensor, model: nn.Module) -> Tensor:
    return ids[:, :0].float()


def stop(ids: Tensor, model: nn.Module) -> Tensor:
    raise KeyboardInterrupt


def test_what_is_found_is_kept_and_goes_on(probe: Probe, runs: list[Path]) -> None:
    def variants(do: str, *more: str) -> Any:
        code, out, err = probe(do, *more, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)["variants"]

    with pytest.raises(KeyboardInterrupt):
        probe_runs(load_runs([runs[0].parent]), ["shuffle", "test_probe:stop"])
    (file,) = Path("outputs").rglob(FILE)
    (found,) = json.loads(file.read_text())["results"].values()
    assert (found["name"], found["accuracy"]) == ("shuffle", evaluate_run(file.parent)[1].accuracy)
    do = "shuffle,test_probe:nothing,no_positions,attention"
    blind, seeing = all_found = variants(do)
    effect = blind["effects"]["shuffle"]
    assert effect["accuracy"]["by_seed"] == {"0": 0, "1": 0}
    assert (effect["flips"], effect["num_texts"]) == (0, 48)
    assert effect["accuracy"]["low"] < 0 < effect["accuracy"]["high"]  # two seeds prove no zero
    assert blind["effects"]["test_probe:nothing"]["flips"] == 0
    assert blind["impossible"] == {"no_positions": "the model has no position piece"}
    assert seeing["impossible"] == {}
    assert blind["measures"]["attention, two seeds"]["n"] == 1
    for run in runs:
        (run / WEIGHTS).rename(run / "hidden")
    assert variants(do) == all_found
    code, out, err = probe("reverse")
    assert (code, out) == (2, "")
    assert "is missing" in err
    for run in runs:
        (run / "hidden").rename(run / WEIGHTS)
    assert examine(runs[0].parent)["troubles"] == []
    (limited, _) = variants("shuffle", "--limit", "10")
    assert limited["effects"]["shuffle"]["num_texts"] == 10
    file.write_text(file.read_text().replace("lost", "most"))
    code, out, err = probe(do, "--json")
    assert "is damaged and left out" in err
    assert json.loads(out)["variants"] == all_found
    earlier = {"id": {"name": "shuffle", "n": 48, "won": [], "lost": [3]}}
    file.write_bytes(store.seal({"schema": 1, "results": earlier}))
    assert variants(do) == all_found
    published = {id: one | {"counts": {}} for id, one in probed.load(runs[1]).items()}
    probed.save(runs[1], published)
    assert "attention, two seeds" not in variants(do)[0]["measures"]


def test_tables_come_in_every_format_and_on_the_page(
    probe: Probe, runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    do = "shuffle,uniform,attention"
    for format, message in {
        "table": "intervention", "markdown": "| uniform | 2 |", "latex": r"\toprule",
        "csv": "data,variant,intervention,texts,seed,difference",
    }.items():  # fmt: skip
        code, out, _ = probe(do, "--format", format)
        assert code == 0
        assert message in out
        assert format != "table" or max(map(len, out.splitlines())) <= 80
    # also below the table of a variant on which nothing else was done
    assert "no_positions cannot be done" in probe("no_positions")[1]
    assert probe(do, "--figure", "probe.svg")[0] == 0
    assert ">shuffle<" in Path("probe.svg").read_text()
    assert exit_code("report", runs[0], "--html", "page.html") == 0
    assert "What the models use" in Path("page.html").read_text()


def test_a_full_disk_is_named_and_no_setting_that_probe_lacks(
    probe: Probe, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, out, err = probe("uniform")
    assert (code, out) == (2, "")
    assert f"/{FILE}" in err
    assert "out=" not in err


def test_what_cannot_be_done_is_told_and_the_others_are_done(
    probe: Probe, runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for word, message in {
        "shufle": "Did you mean 'shuffle'?", "shuffle=x": "There is no intervention 'shuffle=x'",
        "samples:missing": "samples:missing cannot be imported", "nowhere:f": "nowhere:f cannot be",
        "no_head=3": "the model has 2 heads", "shuffle=1": "2 words or more",
        "reverse=3": "reverse takes no number", "attention=2": "attention takes no number",
        "unknown=2": "a probability is 1 at most", "last=0": "keeps 1 token or more",
    }.items():  # fmt: skip
        code, out, err = probe(word)
        assert (code, out) == (2, "")
        assert message in err
    assert exit_code("probe", ROOT / "outputs" / "published" / "contrast") == 2
    assert "12 of 12 runs were published without" in capsys.readouterr().err
    assert exit_code("probe", ROOT / "outputs" / "published" / "blog", "--do", "uniform") == 0
    assert " of 80 runs were published without" in capsys.readouterr().err
    assert exit_code("probe", ROOT / "outputs" / "published" / "blog", "--do", "shufle") == 2
    assert "published without" not in capsys.readouterr().err  # the word alone is wrong
    (runs[0] / WEIGHTS).unlink()
    for do, expected, message in [
        ("shufle,uniform", 2, "shufle"),
        ("test_probe:broken,uniform", 1, "test_probe:broken failed on"),
        ("uniform", 1, WEIGHTS),
    ]:
        code, out, err = probe(do)
        assert code == expected
        assert message in err
        assert "uniform" in out


class Pool(Mean):
    pass


def test_a_run_of_foreign_pieces_needs_trust(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train_run(compose([*SMALL, "model.pooling=test_probe:Pool"]))
    words = ["probe", "outputs/runs", "--do", "shuffle"]
    assert "--trust-code" in refused(*words)
    assert exit_code(*words, "--trust-code") == 0
