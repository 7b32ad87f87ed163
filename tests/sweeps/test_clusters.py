"""Clusters: what Slurm is asked for, and one sweep each on a real Slurm, that of `slurm_node`, and
on Ray."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_node import NoSlurm, await_empty, slurm_node
from sweeping import SMOKE, outcomes, result_of, sweeping

from attnexp.base.errors import UserError
from attnexp.config.schema import ExecutorConfig, ExecutorKind
from attnexp.sweeps.clusters import open_executor, sbatch_script
from attnexp.sweeps.plan import plan

FOUR = [*SMOKE, "train.device=cpu", "position=none,sinusoidal", "seed=0,1"]


def script(*words: str) -> list[str]:
    pytest.importorskip("submitit")
    planned = plan([*SMOKE, "seed=range(4)", "executor=slurm", *words])
    return sbatch_script(planned.executor, planned.jobs).splitlines()


def test_the_script_has_what_is_asked_for_and_what_is_passed_on(tmp_path: Path) -> None:
    lines = script(
        "executor.partition=long", "executor.timeout_min=30", "executor.mem_gb=2",
        "executor.workers=3", "executor.slurm={qos: high, mail-type: END}", f"out={tmp_path}",
    )  # fmt: skip
    wanted = "array=0-3%3 partition=long time=30 mem=2GB cpus-per-task=1 qos=high mail-type=END"
    assert {f"#SBATCH --{option}" for option in wanted.split()} <= {*lines}
    assert any(line.startswith("srun") and f"{tmp_path}/runs/.jobs" in line for line in lines)


def test_a_gpu_is_asked_for_unless_the_device_is_the_cpu() -> None:
    assert "#SBATCH --gpus-per-node=1" in script()
    assert not any("gpus" in line for line in script("train.device=cpu"))


def test_no_slurm_here_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    jobs = plan([*SMOKE, f"out={tmp_path}"]).jobs
    with pytest.raises(UserError, match="login node"):
        open_executor(ExecutorConfig(kind=ExecutorKind.slurm), jobs)


def test_a_ray_cluster_that_does_not_answer_is_told_at_once() -> None:
    pytest.importorskip("ray")
    config = ExecutorConfig(kind=ExecutorKind.ray, address="127.0.0.1:9")  # nobody listens there
    with pytest.raises(UserError, match=r"No Ray cluster answers at 127\.0\.0\.1:9"):
        open_executor(config, plan([*SMOKE]).jobs)


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[dict[str, str]]:
    pytest.importorskip("submitit")
    try:
        (tmp_path / "slurm").mkdir()
        with slurm_node(tmp_path / "slurm") as environment:
            yield environment
    except NoSlurm as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The four, by processes here."""
    folder = tmp_path_factory.mktemp("local")
    assert result_of(sweeping(folder, *FOUR))[0] == 0
    return outcomes(folder)


@pytest.mark.slow
def test_slurm_gives_the_figures_of_processes_here(
    tmp_path: Path, slurm: dict[str, str], undisturbed: dict[str, object]
) -> None:
    """And stops what it queued: the first sweep is interrupted, the second one does the runs."""
    words = [*FOUR, "executor=slurm", "executor.mem_gb=1"]
    first = sweeping(tmp_path / "out", *words, **slurm)
    while not subprocess.check_output(["squeue", "--noheader"], env=slurm):
        assert first.poll() is None
        time.sleep(0.1)
    first.terminate()
    assert result_of(first)[0] == 130
    await_empty(slurm)
    code, message = result_of(sweeping(tmp_path / "out", *words, **slurm))
    assert code == 0, message
    assert outcomes(tmp_path / "out") == undisturbed
    refused = sweeping(tmp_path, *words, "executor.partition=nowhere", **slurm)
    code, message = result_of(refused)
    assert (code, message.count("Slurm refuses these runs")) == (2, 1)


@pytest.mark.slow
def test_ray_gives_the_figures_of_processes_here(
    tmp_path: Path, undisturbed: dict[str, object]
) -> None:
    pytest.importorskip("ray")
    code, message = result_of(sweeping(tmp_path, *FOUR, "executor=ray", "executor.workers=2"))
    assert code == 0, message
    assert outcomes(tmp_path) == undisturbed
