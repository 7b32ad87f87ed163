"""K's run held against ours: which runs may be, what is inside, and that every format shows it."""

from dataclasses import replace

import pytest
from samples import SD, K, blog_like_k, like_k, only, printed, result

from attnexp.analysis import published
from attnexp.analysis.summary import PublishedComparison
from attnexp.config.study import load_study
from attnexp.runs.result import Run

PE = "position=sinusoidal"


def counted(found: list[Run]) -> dict[tuple[str, ...], PublishedComparison]:
    return {tuple(count.variants): count for count in only(found).agreement}


def test_ks_run_is_one_more_of_seeds_that_are_like_it() -> None:
    counts = counted(blog_like_k(10, *K))
    assert [*counts] == [("no_pe",), ("pe",), ("no_pe", "pe")]
    both = counts["no_pe", "pe"]
    assert (both.n, both.num_values, both.inside) == (10, 40, 40)
    assert both.inside == counts["no_pe",].inside + counts["pe",].inside
    assert abs(both.furthest) == max(abs(count.furthest) for count in counts.values())
    assert both.unlike == []
    elsewhere = counted(blog_like_k(10, *K, moved=20 * SD))["no_pe", "pe"]
    assert (elsewhere.inside, elsewhere.furthest_value[2]) == (30, "train_loss")


def test_our_own_runs_are_held_against_the_others_with_both_variants_of_a_seed() -> None:
    found = blog_like_k(6, *K)
    counts = counted(found)
    own = counts["no_pe", "pe"].own
    assert [*own] == ["0", "1", "2", "3", "4", "5"]
    assert all(own[seed] == sum(counts[label,].own[seed] for label in ("no_pe", "pe"))
               for seed in own)  # fmt: skip
    strange = [
        like_k("pe", 5, PE, *K, moved=1.0)
        if (run.label, run.result.seed) == ("pe", 5) else run
        for run in found
    ]  # fmt: skip
    assert counted(strange)["no_pe", "pe"].own["5"] <= own["5"] - 5
    assert counted(blog_like_k(3, *K))["no_pe", "pe"].own == {}


def test_two_seeds_are_too_few() -> None:
    assert only(blog_like_k(2, *K)).agreement == []
    assert "prediction interval" not in printed(blog_like_k(2, *K))
    assert "K: the published run, one seed" in printed(blog_like_k(2, *K))


def test_runs_of_another_code_or_keras_are_held_and_say_so() -> None:
    """Variants of different settings are not counted together."""
    study = load_study("blog_cells")
    found = [
        like_k(label, seed, *words) for label, words in study.variants.items() for seed in range(4)
    ]
    counts = counted(found)
    cells = [variants for variants in counts if len(variants) == 2]
    assert cells == [
        tuple(f"{position}_{code}" for position in ("none", "pe"))
        for code in ("unscaled_1e-8", "unscaled_1e-7", "scaled_1e-8", "scaled_1e-7")
    ]
    assert [counts[cell].unlike for cell in cells] == [
        [],
        ["train.eps=1e-07"],
        ["model.score.scale=true"],
        ["model.score.scale=true", "train.eps=1e-07"],
    ]
    text = " ".join(printed(found).split())
    assert (
        "K's run had model.score.scale=false train.eps=1e-08; others here: none_unscaled_1e-7"
        in text
    )
    assert "one seed with model.score.scale=false train.eps=1e-08" in text


@pytest.mark.parametrize(
    "words",
    [
        *(["model.heads=4"], ["position=learned"], ["position.layout=interleaved"]),
        *(["train=holdout"], ["train.batch_size=64"], ["train.lr=0.01"], ["train.eps=1e-6"]),
        *(["data=contrast"], ["data.max_len=90"], ["data.limit_train=100"], ["model.pooling=max"]),
    ],
)
def test_another_experiment_is_never_held_against_k(words: list[str]) -> None:
    run = result("pe", 0, [0.8] * 5, PE, *K, *words).result
    assert published.epochs_for(run) is None
    assert not published.is_k(run)


def test_other_data_under_the_name_of_imdb_are_never_held_against_k() -> None:
    run = result("pe", 0, [0.8] * 5, PE, *K).result
    assert published.is_k(run)
    for split in ("n_train", "n_test"):
        fewer = replace(run, data={**run.data, split: 1_000})
        assert published.epochs_for(fewer) is None


def test_shorter_and_longer_runs_are_held_for_the_epochs_that_both_have() -> None:
    for epochs, num_values in ((2, 8), (5, 20)):
        found = [like_k("a", seed, *K, epochs=epochs) for seed in range(3)]
        assert counted(found)["a",].num_values == num_values
