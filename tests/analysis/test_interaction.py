"""Two crossed factors: one within each level of the other, and the difference of differences."""

import csv
import io
import re
from pathlib import Path

import pytest
from conftest import Command
from samples import CROSSED, MORE, crossed_runs, only, printed

from attnexp.base.errors import UserError
from attnexp.report import formats
from attnexp.report.verdicts import verdicts
from attnexp.runs import manifest
from attnexp.runs.manifest import Manifest
from attnexp.statistics.verdict import Verdict
from attnexp.sweeps.plan import plan

STUDY = """\
factors:
  position: {none: [position=none], pe: [position=sinusoidal]}
  scale: {scaled: [], unscaled: [model.score.scale=false]}
"""


def test_it_is_the_difference_of_differences_paired_by_seed(tmp_path: Path) -> None:
    (interaction,) = only(crossed_runs(tmp_path, more=MORE)).interactions
    assert interaction.levels == {"position": "pe", "scale": "unscaled"}
    assert interaction.baselines == {"position": "none", "scale": "scaled"}
    assert interaction.variants == ["pe_unscaled", "none_unscaled", "pe_scaled", "none_scaled"]
    found = interaction.points["final"]
    assert [*found.metrics["accuracy"].by_seed.values()] == pytest.approx(MORE)
    assert found.metrics["accuracy"].p == 2 / 2**6
    assert found.judgements["accuracy"].verdict is Verdict.helps
    less = only(crossed_runs(tmp_path, more=[-extra for extra in MORE])).interactions[0]
    assert less.points["final"].judgements["accuracy"].verdict is Verdict.hurts


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (MORE, "pe gives more with unscaled than with scaled: +1.47 points ["),
        ([-extra for extra in MORE], "pe gives less with unscaled than with scaled: -1.47 points"),
        ([1e-4, -1e-4] * 3, "pe gives as much with unscaled as with scaled: +0.00 points"),
        ([0.01, -0.01] * 3, "pe may give more or less with unscaled than with scaled: +0.00"),
        (MORE[:2], "pe may give more or less with unscaled than with scaled: +1.50"),
    ],
)
def test_one_sentence_says_it(tmp_path: Path, more: list[float], said: str) -> None:
    lines = {where: line for where, _, line in verdicts(only(crossed_runs(tmp_path, more=more)))}
    assert lines["interaction, final"].startswith(said)


def test_runs_that_miss_a_variant_or_a_seed_or_lie_elsewhere_have_none(tmp_path: Path) -> None:
    for label in CROSSED:
        assert only(crossed_runs(tmp_path, more=MORE, without=label)).interactions == []
    found = crossed_runs(tmp_path, more=MORE)
    apart = [run for run in found if (run.label == "pe_scaled") == (run.result.seed < 3)]
    assert only(apart).interactions == []
    (tmp_path / manifest.FILE).unlink()
    assert only(found).interactions == []


def test_every_level_but_the_baselines_has_one_judged_together() -> None:
    levels = {
        f"{position}_{mask}": {"position": position, "mask": mask}
        for position in ("none", "pe")
        for mask in ("full", "causal", "window")
    }
    crossings = [*Manifest(variants=levels).crossings()]
    assert crossings == [
        ("pe_causal", "none_causal", "pe_full", "none_full"),
        ("pe_window", "none_window", "pe_full", "none_full"),
    ]
    within = [
        ("pe_full", "none_full"), ("pe_causal", "none_causal"), ("pe_window", "none_window"),
    ]  # fmt: skip
    assert [*Manifest(variants=levels).within()] == within
    del levels["none_causal"]
    assert [*Manifest(variants=levels).crossings()] == crossings[1:]
    assert [*Manifest(variants=levels).within()] == [within[0], within[2]]
    alone = Manifest(variants={"a": {}, "b": {}})
    assert ([*alone.crossings()], [*alone.within()]) == ([], [])


def test_one_factor_is_compared_within_each_level_of_the_other(tmp_path: Path) -> None:
    """PE gives 1 point with scaling, and MORE on top without, each minus no PE there."""
    comparison = only(crossed_runs(tmp_path, more=MORE))
    scaled, unscaled = comparison.within
    assert (scaled.variant, scaled.baseline) == ("pe_scaled", "none_scaled")
    assert (unscaled.variant, unscaled.baseline) == ("pe_unscaled", "none_unscaled")
    assert unscaled.levels == {"position": "pe", "scale": "unscaled"}
    found = unscaled.points["final"]
    expected = [0.01 + more for more in MORE]
    assert [*found.metrics["accuracy"].by_seed.values()] == pytest.approx(expected)
    assert found.judgements["accuracy"].verdict is Verdict.helps
    assert "maxT over 2" in found.judgements["accuracy"].line
    text = printed(crossed_runs(tmp_path, more=MORE))
    assert "\nposition within each scale on contrast (synthetic), validated on test\n" in text
    assert re.search(r"\npe − none, unscaled +6 +final +\+2.47  \[\+2.24, \+2.69\] +helps\n", text)
    rows = [*csv.DictReader(io.StringIO(formats.as_csv([comparison])))]
    of_it = [row for row in rows if row["within"] == "scale=unscaled"]
    assert {row["baseline"] for row in of_it} == {"none_unscaled"}


def test_two_axes_of_a_sweep_are_crossed_factors() -> None:
    words = ["position=none,sinusoidal", "mask=none,causal", "data=contrast", "seed=0,1"]
    crossed = plan(words)
    assert crossed.variants["position=sinusoidal mask=causal"] == {
        "position": "position=sinusoidal", "mask": "mask=causal",
    }  # fmt: skip
    assert [*Manifest(variants=crossed.variants).within()] == [
        ("position=sinusoidal mask=none", "position=none mask=none"),
        ("position=sinusoidal mask=causal", "position=none mask=causal"),
    ]
    with_a_study = plan(["study=blog", "model.heads=4,8", "data=contrast"]).variants
    assert with_a_study["pe model.heads=8"] == {"blog": "pe", "model.heads": "model.heads=8"}
    for sweep in (plan(words, zipped=True), plan(words[1:]), plan([*words, "model.heads=4,8"])):
        assert not any(sweep.variants.values())


# From the study's file to the report


def test_a_study_names_its_factors_and_gets_their_product_as_variants(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(STUDY)
    planned = plan([f"study={path}", "data=contrast"])
    assert [job.label for job in planned.jobs] == [*CROSSED]
    assert [(job.config.position.name, job.config.model.score.scale) for job in planned.jobs] == [
        ("none", True), ("none", False), ("sinusoidal", True), ("sinusoidal", False),
    ]  # fmt: skip
    assert planned.variants["pe_scaled"] == {"position": "pe", "scale": "scaled"}


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 0}', '{"schema": 1, "other": 2}'])
def test_a_damaged_manifest_is_reported(tmp_path: Path, text: str) -> None:
    assert manifest.load(tmp_path) is None
    (tmp_path / manifest.FILE).write_text(text)
    with pytest.raises(UserError, match=r"study.json cannot be used \(.*\)\. Delete it"):
        manifest.load(tmp_path)


@pytest.mark.slow
def test_a_sweep_leaves_what_its_report_needs(here: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(STUDY)
    swept = here(
        *("sweep", "study=mine.yaml", "experiment=smoke", "train.epochs=1"),
        *("data.limit_train=64", "data.limit_test=64", "model.d_model=8", "executor.workers=1"),
    )
    assert swept.returncode == 0, swept.stderr
    assert "interaction, final: " in swept.stdout
    assert "position within each scale on contrast (synthetic)" in swept.stdout
    reported = here("report", "outputs/mine")
    assert reported.stdout == swept.stdout.partition("\nResults: ")[0]
