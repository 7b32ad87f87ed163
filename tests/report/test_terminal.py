"""Disks, pipes and folders that go away: one message, and the code that is documented."""

import resource
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Command
from forked import PROGRAM

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.training.run import open_run, prepare, train

SMOKE = ["experiment=smoke", "data.limit_train=64", "data.limit_test=64"]


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A line of bash, in which `attnexp` is ours."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line.replace("attnexp", PROGRAM)],
        cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("attnexp config >&-", 2, "The standard output is closed"),
        ("attnexp config > /dev/full", 2, "No space left on device"),
        ("attnexp config --groups | head -1", 0, ""),
        ("mkdir gone; cd gone; rmdir ../gone; attnexp config", 2, "was deleted"),
        ("attnexp config nonsense=1 2>&-", 2, ""),
        ("attnexp predict nowhere text <&-", 2, "nowhere"),
    ],
)
def test_what_a_shell_may_do(tmp_path: Path, line: str, code: int, said: str) -> None:
    if "/dev/full" in line and not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full here")
    done = shell(line, tmp_path)
    assert (done.returncode, bool(done.stderr)) == (code, bool(said)), done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") <= 2


def test_quiet_leaves_results_alone(here: Command) -> None:
    quiet, loud = here("train", *SMOKE, "-q"), here("train", *SMOKE)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, loud.stdout, "")
    assert loud.stderr


def test_the_folder_of_a_run_deleted_under_it_is_one_message(tmp_path: Path) -> None:
    config = compose([*SMOKE, "train.threads=1", f"out={tmp_path}"])
    with open_run(prepare(config)) as run:
        shutil.rmtree(run.path)
        with pytest.raises(UserError, match=r"cannot be written.*No such file") as error:
            train(run)
    assert str(run.path) in str(error.value)


def test_a_full_disk_inside_a_sweep_names_the_file(here: Command) -> None:
    """No file may be longer than 100 kB, and weights are; the other run is tried, too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        done = here("sweep", *SMOKE, "seed=0,1", "executor.workers=1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.returncode == 1
    assert done.stderr.count(".safetensors: File too large") >= 2
    assert "0 of 2 done, 2 failed" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_that_left_every_sensible_range_says_so_last(tmp_path: Path, here: Command) -> None:
    done = here("train", *SMOKE, "train.lr=1e6")
    assert done.returncode == 0
    closing = " ".join(done.stdout.split("\n\n")[-2].split())
    assert closing.startswith("contrast attention none data.limit_train=64 ")
    assert " train.lr=1000000.0: training diverged in 1 of 1 runs (a loss" in closing
    assert closing.endswith("use a smaller train.lr.")
    (variant,) = here("report", "outputs", "--format", "json").stdout.split('"diverged": [')[1:]
    assert "training diverged in 1 of 1 runs" in variant.partition("]")[0]
