"""Interventions do to a trained model what they say, and nothing else; results are kept."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
import torch
from conftest import PUBLISHED, Command, Refused
from samples import FEW_TEXTS, NARROW, redrawn
from torch import Tensor, nn

from attnexp.analysis.answer import compare
from attnexp.analysis.contrasts import difference_frame
from attnexp.analysis.metrics import ACCURACY
from attnexp.config.compose import compose
from attnexp.inspect.evaluate import measure_again
from attnexp.inspect.interventions import INTERVENTIONS, choose_interventions, load_intervention
from attnexp.inspect.probe import load_measured, measure_heads, probe_studies
from attnexp.network.build import build_model
from attnexp.training.run import train_run

IDS = torch.randint(1, 30, (5, 9), generator=torch.Generator().manual_seed(0))
IDS[0], IDS[1, :4] = 0, 0  # padding alone, and before a text

POSITIONS = "sinusoidal,learned,rotary,relative,alibi,sinusoidal position.combine=concat".split(",")

TINY = "data=contrast data.max_len=9 data.vocab_size=30 model.d_model=8".split()


def model_of(words: str, like: nn.Module | None = None) -> nn.Module:
    """A model of random weights, or of those that it shares with another."""
    config = compose([*TINY, *NARROW, *words.split()])
    model: nn.Module = redrawn(build_model(config)).eval()
    if like is not None:
        model.load_state_dict(like.state_dict(), strict=False)
    return model


@torch.no_grad()
def logits(model: nn.Module, intervention: str = "", ids: Tensor = IDS) -> Tensor:
    change = load_intervention(intervention)(ids, model) if intervention else ids
    if isinstance(change, Tensor):
        output: Tensor = model(change)
    else:
        with change:
            output = model(ids)
    return output


def changed_ids(intervention: str, ids: Tensor = IDS) -> Tensor:
    changed = load_intervention(intervention)(ids, nn.Module())
    assert isinstance(changed, Tensor)
    return changed


@pytest.mark.parametrize("order", ["shuffle", "shuffle=3", "reverse"])
def test_words_change_places_within_their_text(order: str) -> None:
    moved = changed_ids(order)
    assert torch.equal(moved.sort(dim=1).values, IDS.sort(dim=1).values)
    stays = IDS < 2  # padding and the start
    assert torch.equal(moved[stays], IDS[stays])
    assert not torch.equal(moved, IDS)


def test_windows_keep_words_near() -> None:
    ids = torch.arange(1, 32)[None]  # 1 is the start of the text, and no word
    for window in (2, 3, 5):
        moved = changed_ids(f"shuffle={window}", ids)
        assert torch.equal((moved - 2) // window, (ids - 2) // window)
    assert torch.equal(changed_ids("reverse", ids)[:, 1:], ids[:, 1:].flip(1))


@pytest.mark.parametrize("position", POSITIONS)
def test_positions_are_removed_shifted_and_permuted(position: str) -> None:
    model = model_of(f"position={position}")
    usual = logits(model)
    is_relative = position in ("rotary", "relative", "alibi")
    assert torch.allclose(logits(model, "shift_positions=3"), usual) is is_relative
    assert not torch.allclose(logits(model, "permute_positions"), usual)
    without = logits(model, "no_positions")
    torch.testing.assert_close(logits(model, "no_positions", IDS.flip(1)), without)
    if "concat" not in position:  # whose layers are wider than those of none
        assert torch.equal(without, logits(model_of("position=none", model)))


@pytest.mark.parametrize("words", ["", "position=alibi", "mask=causal", "mask=padding"])
def test_attention_can_be_made_uniform_or_blind(words: str) -> None:
    model = model_of(words)
    no_bias = words.replace("position=alibi", "")
    uniform = model_of(f"model.score=uniform {no_bias}", model)
    assert torch.equal(logits(model, "uniform"), logits(uniform))
    if words != "mask=padding":
        window = model_of("mask=window mask.radius=0", model)
        torch.testing.assert_close(logits(model, "self_only"), logits(window))


def test_a_head_is_removed_alone() -> None:
    model = model_of("model.layers=2 model.residual=true model.output_projection=true")
    words = ["", "no_head=1", "no_head=2", "no_head=3", "no_head=4"]
    outputs = torch.stack([logits(model, word) for word in words])
    assert len(outputs.unique(dim=0)) == 5
    one_head = model_of("model.heads=1")
    first, *others = logits(one_head, "no_head=1")
    assert all(output == first for output in others)  # the bias of the output
    with pytest.raises(ValueError, match="has 1 heads"):
        logits(one_head, "no_head=2")


def test_words_become_unknown_and_texts_are_cut() -> None:
    assert torch.equal(changed_ids("unknown=1"), IDS.clamp(max=2))
    assert torch.equal(changed_ids("last=9"), IDS)
    cut = IDS.clone()
    cut[:, :-3] = 0
    assert torch.equal(changed_ids("last=3"), cut)


@pytest.mark.parametrize("name", INTERVENTIONS)
def test_a_model_is_as_it_was_afterwards(name: str) -> None:
    model = model_of("position=learned")
    before = logits(model)
    for chosen in choose_interventions([name], num_heads=2):
        logits(model, chosen)
        load_intervention(chosen)(IDS, model)  # acts within `with` alone
    assert torch.equal(logits(model), before)


def test_entropy_is_1_of_uniform_attention_and_0_of_one_key() -> None:
    uniform = model_of("model.score=uniform")
    one_key = model_of("mask=window mask.radius=0")
    assert measure_heads(uniform, IDS) == pytest.approx([1, 1])
    assert measure_heads(one_key, IDS) == [0, 0]
    model = model_of("mask=causal mask.mode=mul").float()
    assert all(0 < value < 1 for value in measure_heads(model, IDS))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained")
    usual = [*FEW_TEXTS, *NARROW, "train.lr=0.05", f"out={out}"]
    for word in ("seed=0", "seed=1", "position=learned"):
        train_run(compose([*usual, word]))
    return out


@pytest.fixture
def runs(trained: Path, folder: Path) -> list[Path]:
    """Copies of the three runs in `outputs` of the current folder."""
    shutil.copytree(trained, folder / "outputs")
    return sorted(Path("outputs/runs").glob("[0-9a-f]*"))


def nothing(ids: Tensor, model: nn.Module) -> Tensor:
    return ids


def broken(ids: Tensor, model: nn.Module) -> Tensor:
    return ids[:, :0].float()


def changes(path: Path | str, *do: str, limit: int | None = None) -> pd.DataFrame:
    groups = probe_studies([Path(path)], do, limit=limit)
    answer = compare(groups, ACCURACY)
    return difference_frame(answer.differences).set_index("variant")


def test_what_is_found_is_kept_and_goes_on(runs: list[Path], here: Command) -> None:
    first = runs[0]
    with pytest.raises(ValueError, match="test_probe:broken failed: "):
        changes(first, "shuffle", "test_probe:broken")
    untouched, _shuffled = load_measured(first / "probe_48.json").values()
    assert untouched["accuracy"] == measure_again(first).metrics.accuracy
    limited = changes(first, "shuffle", limit=10)
    assert limited["data"].str.endswith(", 10 texts").all()
    found = changes("outputs", "shuffle", "attention")
    for run in runs:
        (run / "model.safetensors").unlink()
    pd.testing.assert_frame_equal(changes("outputs", "shuffle", "attention"), found)
    assert "model.safetensors" in here("probe", "outputs", "--do", "reverse").stderr


def test_an_intervention_is_a_variant_in_the_family_of_its_model(runs: list[Path]) -> None:
    do = ["shuffle", "test_probe:nothing", "no_positions", "attention"]
    train_run(compose([*FEW_TEXTS, *NARROW, "data.limit_test=9", "position=learned"]))
    group, other = probe_studies([Path("outputs")], do)
    assert not other.notes
    rows = compare([group], ACCURACY).differences
    families = Counter((row.contrast.baseline, row.m) for row in rows)
    assert families == {("position=none", 2): 2, ("position=learned", 3): 3}
    idle = [row for row in rows if re.search("none|nothing", row.contrast.name)]
    assert {row.words for row in idle} == {"neither is shown to be above chance"}
    flips = group.values("result", "flips")
    assert (flips[[row.contrast.variant for row in idle]].sum() == 0).all()
    entropies = group.values("result", "entropy")["position=none, head 2"]
    assert entropies.tolist() == pytest.approx([1, 1], abs=0.05)
    assert group.notes == ["position=none, no_positions: the model has no position piece"]


def test_a_published_study_is_read_by_any_of_its_names(refused: Refused) -> None:
    found = changes(PUBLISHED / "blog", "shuffle", "no_head")
    assert len(found) == 2 * 9
    shuffled = found.loc["pe, shuffle"]
    assert shuffled["mean"] == pytest.approx(-0.0252, abs=5e-5)
    assert shuffled["verdict"] == "hurts"
    file = PUBLISHED / "blog.probe.parquet"
    pd.testing.assert_frame_equal(changes(file, "shuffle", "no_head"), found)
    assert "has none of reverse." in refused("probe", file, "--do", "reverse")
    assert "two runs have one variant" in refused("probe", file, PUBLISHED / "blog_scaled")
    assert "A published study holds no models." in refused("probe", PUBLISHED / "blog_cells")


@pytest.mark.usefixtures("runs")
def test_what_cannot_be_done_is_reported(refused: Refused) -> None:
    assert "no 'shufle'. There are shuffle," in refused("probe", "outputs", "--do", "shufle")
    for word in ("reverse=3", "last=0", "unknown=2"):
        assert f"{word}: no such number." in refused("probe", "outputs", "--do", word)
