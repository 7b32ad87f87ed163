"""Every YAML file composes, says what it is for, and runs."""

import itertools
from pathlib import Path

import pytest

from attnexp.base.errors import UserError
from attnexp.config.compose import compose, compose_executor
from attnexp.config.options import conf_dir, describe, format_groups, groups
from attnexp.config.study import load_study
from attnexp.model.classifier import build_model
from attnexp.sweeps.plan import plan
from attnexp.training.evaluate import evaluate_run
from attnexp.training.run import train_run

NEEDS = {"files": ["data.path=/x"], "hub": ["data.path=x"]}
"""What a kind of data cannot do without."""

OPTIONS = [
    f"{group}={option}"
    for group, options in groups().items()
    for option in options
    if group not in ("study", "executor", "experiment")
]
SMALL = ["data.limit_train=64", "data.limit_test=64"]
TINY = [*SMALL, "model.d_model=8", "train.epochs=2"]


@pytest.mark.parametrize("option", groups()["data"])
def test_every_kind_of_data_composes(option: str) -> None:
    """Options of all other groups are trained here, and built in test_classifier.py."""
    assert compose([f"data={option}", *NEEDS.get(option, [])]).data.name == option


def test_every_option_is_listed_with_what_it_is() -> None:
    lines = format_groups(describe()).splitlines()
    for options in groups().values():
        for option in options:
            assert any(line.startswith(f"  {option}  ") for line in lines), option


@pytest.mark.parametrize("option", groups()["executor"])
def test_every_executor_composes(option: str) -> None:
    assert compose_executor([f"executor={option}"]).kind == option


@pytest.mark.parametrize("study", groups()["study"])
def test_every_study_plans_runs_of_every_variant(study: str) -> None:
    planned = plan([f"study={study}"])
    assert {job.label for job in planned.jobs} == set(load_study(study).variants)
    assert planned.jobs[0].label == next(iter(load_study(study).variants))
    assert planned.name == study


@pytest.mark.parametrize("path", sorted(conf_dir().rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_opens_with_what_it_is_for(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    assert first.startswith("# ")
    if path.parent.name in ("experiment", "study"):
        comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
        text = "\n".join(comments)
        assert "laims" in text
        assert f"Command: attnexp {'sweep' if path.parent.name == 'study' else 'train'}" in text
        assert f"{path.parent.name}={path.stem}" in text


WITHOUT_ATTENTION = ["mean", "fasttext", "cnn", "lstm", "bilstm", "gru", "tfidf"]
INSIDE_ATTENTION = ["rotary", "relative", "alibi"]


def excluded(pair: tuple[str, str]) -> bool:
    """Pieces that have nothing to do with each other, which is told rather than ignored."""
    chosen = dict(option.split("=") for option in pair)
    position, mask = chosen.get("position", "none"), chosen.get("mask", "none")
    if chosen.get("model") in WITHOUT_ATTENTION:
        return (
            mask != "none"
            or position in INSIDE_ATTENTION
            or (chosen["model"] == "tfidf" and position != "none")
            or (chosen["model"] in ("mean", "fasttext") and position == "shuffled")
        )
    return False


GROUPS = ("model", "position", "mask", "train")
PIECES = [option for option in OPTIONS if option.split("=")[0] in GROUPS]
PAIRS = [
    (one, other)
    for one, other in itertools.combinations(PIECES, 2)
    if one.split("=")[0] != other.split("=")[0]
]


def few(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs that hold every piece of the given ones, most of them once."""
    found: list[tuple[str, str]] = []
    for piece in itertools.chain(*pairs):
        if not any(piece in pair for pair in found):
            having = [pair for pair in pairs if piece in pair]
            fresh = [pair for pair in having if not {*pair} & {*itertools.chain(*found)}]
            found.append((fresh or having)[0])
    return found


@pytest.mark.parametrize("pair", few([pair for pair in PAIRS if excluded(pair)]), ids=" ".join)
def test_pieces_that_do_not_meet_are_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(UserError):
        compose(list(pair))


MEETING = [pair for pair in PAIRS if not excluded(pair)]
"""Each builds and learns in test_classifier.py, at once."""
FEW = few(MEETING)


@pytest.mark.parametrize(
    "pair",
    [pytest.param(pair, marks=() if pair in FEW else pytest.mark.slow) for pair in MEETING],
    ids=" ".join,
)
def test_every_pair_of_pieces_trains_saves_and_evaluates_the_same(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    tiny = SMALL if "model=tfidf" in pair else TINY
    words = [*pair, "data=contrast", *tiny, "train.threads=1", f"out={tmp_path}"]
    run_dir, result = train_run(compose(words))
    assert len(result.epochs) == (1 if "model=tfidf" in pair else 2)
    assert evaluate_run(run_dir) == (result.test, result.test)


@pytest.mark.parametrize("experiment", groups()["experiment"])
def test_every_experiment_trains(experiment: str, tmp_path: Path) -> None:
    words = [f"experiment={experiment}", "data=contrast", *SMALL, "train.epochs=1"]
    _, result = train_run(compose([*words, f"out={tmp_path}"]))
    assert result.final.epoch == 1


@pytest.mark.parametrize("name", ["experiment=blog_no_pe", "experiment=blog_pe", "model=lstm"])
def test_presets_have_the_known_number_of_parameters(name: str) -> None:
    """K's 2,609,281; Keras's imdb_lstm has 2,560,000 + 131,584 + 129."""
    model = build_model(compose([name]))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained == (2_691_713 if name == "model=lstm" else 2_609_281)
