"""What a terminal, a service or a folder of another program may do to a command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Refused
from samples import result, save_study

ATTNEXP = Path(sys.executable).with_name("attnexp")


def test_closed_streams_and_an_unknown_backend_of_matplotlib_do_no_harm(tmp_path: Path) -> None:
    save_study(tmp_path / "outputs", [result("a", 0, [0.9, 0.7])])
    line = f"{ATTNEXP} report outputs/runs --figure a.svg <&- >&-"
    env = os.environ | {"MPLBACKEND": "Qt4Agg"}
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True
    )
    assert (done.returncode, done.stderr) == (0, "Wrote a.svg.\n")
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")


def test_a_config_of_another_program_is_no_run(refused: Refused, tmp_path: Path) -> None:
    config = tmp_path / "conf" / "config.yaml"
    config.parent.mkdir()
    config.write_text("lr: 1")
    assert "There is no run" in refused("runs", str(tmp_path))
    assert list(tmp_path.rglob("*")) == [config.parent, config]  # a listing writes nothing


@pytest.mark.parametrize("name", ["results.xlsx", "results.pkl"])
def test_a_file_that_is_no_text_names_the_formats(
    refused: Refused, name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04\x00\x00\x80\xff")
    message = refused("judge", name)
    assert f"{name} is of no known format: csv, tsv, json, jsonl and parquet" in message
