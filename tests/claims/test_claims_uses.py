"""C30 to C32 follow what is stored: shuffled words, removed heads, embeddings times √d."""

from pathlib import Path

import pytest
from samples import K, result, save_study

from attnexp.claims import uses
from attnexp.claims.claim import REGISTRY, Conclusion
from attnexp.runs import probed, store

NUM_TEXTS = 1000


def probe_runs(root: Path, results: dict[str, dict[str, int]], seeds: int = 6) -> None:
    """Six seeds without PE, all of whose answers stay, and with PE, which is 20 texts better and
    loses so many answers by each intervention, one more with every seed."""
    for label, position in (("no_pe", "none"), ("pe", "sinusoidal")):
        runs = [result(label, seed, [0.8] * 5, f"position={position}", *K) for seed in range(seeds)]
        save_study(root, runs)
        for seed in range(seeds):
            lost = {
                name: range(n + seed if label == "pe" else 0) for name, n in results[label].items()
            }
            probed.save(
                store.run_dir(root, f"blog{label}{seed}imdb-0"),
                {
                    name: {"name": name, "n": NUM_TEXTS, "won": [], "lost": [*texts], "flips": 0.0,
                           "accuracy": 0.82 if label == "pe" else 0.8}
                    for name, texts in lost.items()
                },
            )  # fmt: skip


@pytest.mark.parametrize(
    ("lost", "conclusion"),
    [
        (30, Conclusion.supported),
        (18, Conclusion.inconclusive),
        (5, Conclusion.not_supported),
    ],
)
def test_c30_holds_the_cost_of_shuffling_against_the_gain(
    tmp_path: Path, lost: int, conclusion: Conclusion
) -> None:
    stored = {"no_pe": {"shuffle": 0, "shuffle=2": 0}, "pe": {"shuffle": lost, "shuffle=2": 0}}
    probe_runs(tmp_path, stored)
    found = uses.c30(tmp_path)
    assert (found.conclusion, found.n) == (conclusion, 6)
    assert f"cost +{(lost + 2.5) / 10:.2f}" in found.measured


@pytest.mark.parametrize(
    ("needed", "conclusion"), [(1, Conclusion.supported), (3, Conclusion.not_supported)]
)
def test_c31_counts_heads_that_cost_less_than_the_margin(
    tmp_path: Path, needed: int, conclusion: Conclusion
) -> None:
    heads = {f"no_head={i}": 50 if i <= needed else -5 for i in range(1, 5)}
    probe_runs(tmp_path, {"no_pe": dict.fromkeys(heads, 0), "pe": heads})
    found = uses.c31(tmp_path)
    assert found.conclusion is conclusion
    assert f"{1 - needed / 4:.0%} of 4 heads" in found.measured


def test_runs_that_were_not_probed_are_asked_for(tmp_path: Path) -> None:
    probe_runs(tmp_path, {"no_pe": {"shuffle": 0}, "pe": {"shuffle": 30}}, seeds=5)
    found = REGISTRY["C30"].run(tmp_path)
    assert found.conclusion is Conclusion.not_run
    assert "5 of 6 seeds" in found.measured
    assert f"attnexp sweep study=blog 'seed=range(6)' out={tmp_path}, then" in found.measured
    assert f"attnexp probe {tmp_path}/blog" in found.measured
    (file, *_) = tmp_path.glob(f"runs/*/{store.RESULT}")
    file.write_text("{")
    assert "is damaged" in REGISTRY["C30"].run(tmp_path).measured


@pytest.mark.parametrize(
    ("gains", "conclusion"),
    [
        ((0.02, 0.021, 0.022), Conclusion.supported),
        ((0.02, -0.02, 0.0), Conclusion.inconclusive),
        ((-0.02, -0.021, -0.022), Conclusion.not_supported),
    ],
)
def test_c32_combines_data_sets(
    tmp_path: Path, gains: tuple[float, ...], conclusion: Conclusion
) -> None:
    """gains: what multiplying by √d adds to the effect of PE, by data set."""
    runs, levels = [], {}
    for name, gain in zip(("trec", "cr", "irony"), gains, strict=True):
        for seed in range(6):
            for label, position in (("none", "none"), ("pe", "sinusoidal")):
                for size, scaled in (("plain", "false"), ("scaled", "true")):
                    levels[f"{label}_{size}"] = {"position": label, "embedding": size}
                    moved = gain * (label == "pe" and size == "scaled") + seed / 10_000
                    words = (
                        f"data={name}",
                        f"position={position}",
                        f"model.scale_embedding={scaled}",
                    )
                    runs.append(result(f"{label}_{size}", seed, [0.8 + moved] * 5, *words, *K))
    save_study(tmp_path, runs, "position_x_embedding", levels)
    found = uses.c32(tmp_path)
    assert (found.conclusion, found.n) == (conclusion, 6)
    assert "over 3 data sets" in found.measured
