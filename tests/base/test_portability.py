"""A system may lack modules and functions of Unix and of newer releases of torch."""

import subprocess
import sys
from pathlib import Path

LACKING = """
import ctypes, os, signal, sys
import torch.backends.mkldnn
sys.modules["resource"] = sys.modules["fcntl"] = None
del signal.pthread_sigmask, os.sysconf
load = ctypes.CDLL
ctypes.CDLL = lambda name, *more: load(name, *more) if name else object()  # no mallopt
torch.backends.mkldnn = type(sys)("mkldnn")  # no matmul
from attnexp.cli import main
for line in sys.argv[1:]:
    sys.argv = ["attnexp", *line.split()]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, line
"""


def test_training_sweeping_and_reporting_need_none_of_them(tmp_path: Path) -> None:
    smoke = "experiment=smoke data.limit_train=64 data.limit_test=64 train.epochs=1 out=made"
    lines = [f"train {smoke}", f"sweep {smoke} seed=0,1 executor.workers=1", "report made/runs"]
    done = subprocess.run(
        [sys.executable, "-c", LACKING, *lines], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
