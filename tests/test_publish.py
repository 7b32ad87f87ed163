"""A run for the hub: whole, told beforehand, and sent only where it may be."""

import shlex
from pathlib import Path

import pytest
import yaml
from conftest import Command
from hub_server import Hub, serve

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.inspect import predict
from attnexp.report import publish
from attnexp.runs import manifest
from attnexp.training.inputs import read_inputs
from attnexp.training.run import train_run

REPO = "user/my-model"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """The last of two runs, which are a study."""
    runs = []
    for variant in ("none", "sinusoidal"):
        words = ["experiment=smoke", "data.limit_train=64", "data.limit_test=64", "train.epochs=1",
                 "train.threads=1", f"position={variant}", f"out={tmp_path}"]  # fmt: skip
        path, _ = train_run(compose(words), overrides=words)
        runs.append(manifest.Entry(variant=variant, seed="0", run_id=path.name))
    variants: dict[str, dict[str, str]] = {run.variant: {} for run in runs}
    study = manifest.Manifest(variants=variants, commands=["attnexp"], runs=runs)
    manifest.record(tmp_path / "mine", study)
    return path


def test_a_dry_run_shows_files_and_card(attnexp: Command, run_dir: Path) -> None:
    shown = attnexp("publish", str(run_dir), REPO, "--dry-run").stdout
    listed, _, card = shown.partition("\n\n")
    files = publish.bundle(run_dir, REPO)
    assert [line.split() for line in listed.splitlines()] == [
        [f"{len(content):,}", name] for name, content in files.items()
    ]
    assert card == files["README.md"].decode()
    _, metadata, text = card.split("---\n", 2)
    (model,) = yaml.safe_load(metadata)["model-index"]
    (result,) = model["results"]
    assert result["dataset"]["name"] == "contrast"
    assert f"| accuracy | {100 * result['metrics'][0]['value']:.2f} % |" in text
    assert "on 64 texts of the test set" in text
    assert "into negative, positive." in text
    assert "## In the study mine: sinusoidal\n" in text
    assert "sinusoidal against none, final: **inconclusive: " in text
    (command,) = [line for line in text.splitlines() if line.startswith("attnexp train ")]
    _, _, *words = shlex.split(command)
    assert read_inputs(compose(words)).identify().run_id == run_dir.name


def test_what_is_sent_is_all_that_reads_texts(
    attnexp: Command, run_dir: Path, tmp_path: Path
) -> None:
    send = ("publish", str(run_dir), REPO, "--yes")
    with serve(Hub("x/y", {})) as hub:
        done = attnexp(*send, HF_ENDPOINT=hub.endpoint, HF_TOKEN="hf_x")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{hub.endpoint}/{REPO}\n"
    files = publish.bundle(run_dir, REPO)
    assert hub.models == {REPO: files}
    there = tmp_path / "downloaded"
    there.mkdir()
    for name, content in files.items():
        (there / name).write_bytes(content)
    here, read = (next(predict.readings(path, ["the plot"])) for path in (run_dir, there))
    assert read.probabilities == here.probabilities


@pytest.mark.parametrize(
    ("words", "token", "told"),
    [
        ([], "hf_x", "Nobody is here to ask"),
        (["--yes"], "", "Nobody is logged in"),
        (["--yes"], "hf_x", "cannot be written to the hub at http"),  # nobody answers
    ],
)
def test_what_cannot_be_sent_is_one_message(
    attnexp: Command, run_dir: Path, words: list[str], token: str, told: str
) -> None:
    done = attnexp("publish", str(run_dir), REPO, *words, HF_TOKEN=token)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


def test_a_hub_that_refuses_is_told(attnexp: Command, run_dir: Path) -> None:
    with serve(Hub("x/y", {}, refuse=401)) as hub:
        environment = {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": "hf_x"}
        done = attnexp("publish", str(run_dir), REPO, "--yes", **environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "does not let you write to user/my-model (401)" in done.stderr
    with pytest.raises(UserError, match="cannot be a repository's name"):
        publish.bundle(run_dir, "a/b/c")
