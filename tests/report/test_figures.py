"""Pictures: they show the numbers and cut no label."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from made_up import made_answer, made_group, made_reading, published
from matplotlib.figure import Figure
from matplotlib.image import imread

from attnexp.analysis.group import Group
from attnexp.base.errors import UserError
from attnexp.report import cells, figures

LONG = "a name without any end that goes on for longer than a figure is wide"


def curves(*groups: Group) -> Figure:
    return figures.draw_curves(made_answer(*groups).comparisons)


def test_curves_are_means_in_a_band_of_one_sd_with_ks_run_dashed() -> None:
    (comparison,) = published("blog").comparisons
    (axes,) = figures.draw_curves([comparison]).axes
    ours, of_k, pe, *_ = axes.lines
    assert (ours.get_label(), axes.get_ylabel()) == ("no_pe, n = 40", "imdb: accuracy on test, %")
    assert of_k.get_linestyle() == "--" != ours.get_linestyle()
    assert ours.get_color() == of_k.get_color() != pe.get_color()
    k_run = comparison.k_runs["no_pe"]
    assert of_k.get_ydata() == pytest.approx(100 * k_run["val_accuracy"])
    curve = comparison.curve.query("variant == 'no_pe'")
    mean = 100 * curve["mean"]
    sd = 100 * curve["sd"]
    assert ours.get_ydata() == pytest.approx(mean)
    band = axes.collections[0].get_datalim(axes.transData)
    assert band.intervaly == pytest.approx([min(mean - sd), max(mean + sd)])


def test_data_sets_without_a_curve_are_left_out() -> None:
    without = made_group("none", data="no curve")
    without = replace(without, epochs=without.epochs[:0])
    figure = curves(made_group("none", data="cr"), made_group("none", data="sst2"), without)
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["cr: accuracy on test, %", "sst2: accuracy on test, %"]
    with pytest.raises(UserError, match="no accuracy by epoch"):
        curves(without)


def test_no_two_of_many_variants_look_alike() -> None:
    (axes,) = curves(made_group(*"abcdefghijkl")).axes
    lines: Any = axes.get_legend_handles_labels()[0]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 12


def test_a_forest_has_both_intervals_of_each_difference_beside_its_name_and_size() -> None:
    """With the mean over data sets last."""
    groups = [made_group("none", LONG, data=data) for data in ("cr", "sst2")]
    first, second, mean = made_answer(*groups).differences
    rows = [replace(first, texts=(-0.05, 0.05)), second, mean]
    figure = figures.draw_forest(rows)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    ends: Any = [line.get_xdata() for line in axes.lines if np.ptp(line.get_xdata()) > 0]
    shown = [first.interval.bounds, (-0.05, 0.05), second.interval.bounds, mean.interval.bounds]
    np.testing.assert_allclose(ends[:4], 100 * np.array(shown))
    labels = axes.get_yticklabels()
    for label, data in zip(labels, ("cr", "sst2", "mean over 2"), strict=True):
        assert label.get_text().split() == f"{data}: {LONG} − none, final".split()
    above, below, _ = labels
    assert not above.get_window_extent().overlaps(below.get_window_extent())
    _, size, _ = axes.child_axes[0].get_yticklabels()
    assert size.get_text() == cells.format_size(second.interval, second.metric)
    with pytest.raises(UserError, match="no two variants share a seed"):
        figures.draw_forest([])


@pytest.mark.parametrize(
    ("num_padding", "largest", "key"), [(0, "0.5", "key"), (6, "0.125", "key (padding: 75 %)")]
)
def test_colours_end_at_the_largest_weight(num_padding: int, largest: str, key: str) -> None:
    figure = figures.draw_attention(made_reading("a b", num_padding=num_padding))
    figure.draw_without_rendering()
    axes, scale = figure.axes
    assert axes.images[0].get_clim() == (0, float(largest))
    *_, highest = scale.get_yticklabels()
    assert highest.get_text() == largest
    assert axes.get_xlabel() == key


def test_no_two_words_beside_a_map_of_attention_overlap() -> None:
    figure = figures.draw_attention(made_reading(" ".join(["sentimental"] * 60)))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert len(labels) == 60
        for word, following in pairwise(labels):
            assert not word.get_window_extent().overlaps(following.get_window_extent())


def test_every_picture_is_written_whatever_the_readers_matplotlibrc_says(tmp_path: Path) -> None:
    answer = made_answer(made_group("none", "$pe$"))
    path = tmp_path / "a.svg"
    with mpl.rc_context({"svg.fonttype": "path", "text.parse_math": True}):
        for figure in (
            figures.draw_curves(answer.comparisons),
            figures.draw_forest(answer.differences),
            figures.draw_attention(made_reading("$pe$ <b> c")),
        ):
            figures.save_figure(figure, path)
            assert ">$pe$" in path.read_text()
        figures.save_figure(figures.draw_positions(np.zeros((3, 2))), path)


def test_a_file_grows_where_a_label_would_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.PNG"
    figure = curves(made_group("none", LONG))
    figure.set_size_inches(3, 3)
    figures.save_figure(figure, path)
    assert imread(path).shape[1] > 600
    figures.save_figure(figure, tmp_path / "a.pdf")
    with pytest.raises(UserError, match=r"\.svg, \.pdf, \.png"):
        figures.save_figure(figure, tmp_path / "a.gif")
