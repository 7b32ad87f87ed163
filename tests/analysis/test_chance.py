"""Spread by source of chance, and seeds far below the others."""

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import but, only, printed, result

from attnexp.runs.result import Run
from attnexp.statistics.crossed import Spread, spread


def grid(accuracies: NDArray[np.float64], source: str) -> list[Run]:
    """Runs of one variant whose seeds are points, crossed with values of a source."""
    runs = []
    for point, row in enumerate(accuracies):
        for value, accuracy in enumerate(row):
            run = result(source, point, [float(accuracy)])
            seeds = {**run.result.config["seeds"], source: value}
            run = but(run, config={**run.result.config, "seeds": seeds})
            runs.append(but(run, run_id=f"{source}{point}{value}"))
    return runs


ACCURACIES = 0.8 + np.random.default_rng(0).normal(size=(3, 6)) / 100


@pytest.mark.parametrize("source", ["init", "order", "resample"])
def test_a_source_that_varies_around_several_points_has_a_spread(source: str) -> None:
    found = {each.name: each for each in only(grid(ACCURACIES, source)).sources}[source]
    assert (found.variant, found.num_points, found.num_values) == (source, 3, 6)
    assert found.spreads["final"].sd == pytest.approx(spread(ACCURACIES).sd)
    assert f"seeds.{source}" in printed(grid(ACCURACIES, source))


def test_the_variance_of_a_source_is_that_at_one_point_averaged_over_them() -> None:
    assert spread(ACCURACIES).sd ** 2 == pytest.approx(ACCURACIES.var(axis=1, ddof=1).mean())
    found = spread(ACCURACIES)
    assert found.low < found.sd < found.high
    assert spread(np.ones((3, 2))) == Spread(sd=0, low=0, high=0)


def test_seeds_that_are_no_grid_have_no_spread() -> None:
    runs = grid(ACCURACIES, "init")
    assert only(runs[:-1]).sources == []
    assert only([result("a", seed, [0.8]) for seed in range(6)]).sources == []


def test_a_run_is_not_compared_with_itself() -> None:
    """A study of variance has one run under several labels, where the sources agree."""
    one, other = ([result(label, seed, [0.8 + seed / 100]) for seed in range(3)] for label in "ab")
    other[0] = but(other[0], run_id=one[0].result.run_id)
    pair = only([*one, *other]).differences["b"]["final"].metrics["accuracy"]
    assert list(pair.by_seed) == ["1", "2"]


def test_a_tail_of_bad_seeds_is_marked() -> None:
    low = {7: 0.70, 3: 0.72}
    runs = [
        result("a", seed, [low.get(seed, 0.84 + seed / 10_000), 0.84 + seed / 10_000])
        for seed in range(12)
    ]
    (line,) = only(runs).bad_seeds
    assert line.startswith("a: 2 of 12 seeds (7, 3) are more than 4 robust sd below the median")
    assert line.endswith("after epoch 1.")
    assert "2 of 12 seeds (7, 3)" in printed(runs)
    assert only(runs[8:]).bad_seeds == []


@pytest.mark.parametrize(("lower", "num_lines"), [(1 / 25_000, 0), (0.01, 1)])
def test_a_seed_below_equal_ones_is_marked_only_from_several_texts_on(
    lower: float, num_lines: int
) -> None:
    runs = [result("a", seed, [1.0 - lower * (seed == 3)]) for seed in range(12)]
    assert len(only(runs).bad_seeds) == num_lines
