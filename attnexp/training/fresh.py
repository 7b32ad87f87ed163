"""A trained model checked in a fresh process: its folder must hold all that it computes with.

What a class or a module keeps beside the weights, and what came of the order of texts, shows there.
The process starts with the training, since it takes as long to import torch as a short training
takes, and ends with it, however that ends.
"""

import os
import pickle
import subprocess
import sys
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import from_numpy

from attnexp.base.errors import UserError
from attnexp.config.schema import Precision, RunConfig
from attnexp.network.build import build_model
from attnexp.network.check import check_logits, check_pieces
from attnexp.network.guard import guard
from attnexp.training import device
from attnexp.training.loop import autocast

NUM_TEXTS = 32
TOLERANCE = {Precision.fp32: 1e-3, Precision.bf16: 5e-2}
"""Largest difference of two logits, as a share of the largest, that passes as rounding."""


class Trained(NamedTuple):
    """A trained model, as another process can build it, and logits that it gave."""

    config: RunConfig
    code: list[str]  # the user's, as `module:name`
    num_classes: int
    weights: dict[str, NDArray[Any]]
    ids: NDArray[np.int32]  # (B, T)
    logits: NDArray[np.float32]  # (B,) or (B, C)


class FreshProcess:
    """A process that has run none of the user's code."""

    def __enter__(self) -> Self:
        # -P: nothing in the current folder hides a module of Python. A session of its own: Ctrl-C
        # in a terminal is for the training.
        command = [sys.executable, "-P", "-m", __name__]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def check(self, trained: Trained) -> None:
        """Raise `UserError` where the model gives other logits there, or others for a text in a
        batch than for the text alone."""
        job = pickle.dumps((sys.path, pickle.dumps(trained)))
        answer, log = self.process.communicate(job)
        if answer or self.process.returncode:
            last_line = log.decode(errors="replace").strip().rpartition("\n")[2]
            raise UserError(answer.decode() or f"The model fails in another process: {last_line}")


def main() -> None:
    """Check the model that stdin gives; write what is wrong on stdout."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever the user's code prints
    job = sys.stdin.buffer.read()
    if not job:  # the training has ended early
        return
    path, trained = pickle.loads(job)
    sys.path[:] = path
    try:
        compare_logits(pickle.loads(trained))
    except UserError as error:
        answers.write(str(error).encode())


@torch.no_grad()
def compare_logits(trained: Trained) -> None:
    """Raise `UserError` as `FreshProcess.check` does."""
    config = trained.config
    where = device.prepare(config.train)
    ids = from_numpy(trained.ids).to(where)
    with guard(trained.code):
        model = build_model(config, trained.num_classes).to(where)
        weights = {name: from_numpy(array) for name, array in trained.weights.items()}
        model.load_state_dict(weights)
        device.choose_path(model, config.train)
        check_pieces(model, ids)
        check_logits(model, ids, trained.num_classes)
        with autocast(where, config.train.precision):
            logits = model.eval()(ids).float().cpu().numpy()
    tolerance = TOLERANCE[config.train.precision] * float(np.abs(trained.logits).max())
    distance = float(np.abs(logits - trained.logits).max())
    if distance > tolerance:
        raise UserError(
            f"The model gives other logits in a process of its own than after its training (by "
            f"{distance:.2g}): {', '.join(trained.code)} keeps state outside its parameters and "
            f"buffers, such as in its class or module. Keep it by self.register_buffer."
        )


if __name__ == "__main__":
    main()
