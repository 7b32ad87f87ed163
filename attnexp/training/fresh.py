"""A trained model checked in a fresh process: its folder must hold all that it computes with.

What a class or a module keeps beside the weights, and what came of the order of texts, shows there.
The process starts with the training, since importing torch takes long, and ends with it.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, from_numpy, nn

from attnexp.base.errors import UserError
from attnexp.config.schema import Precision, RunConfig, foreign_code, to_dict
from attnexp.network.build import build_model
from attnexp.network.check import check_logits, check_pieces
from attnexp.network.guard import guard
from attnexp.network.trial import compare_weights, weights_of
from attnexp.training import device
from attnexp.training.loop import Examples, autocast

NUM_TEXTS = 32
TOLERANCE = {Precision.fp32: 1e-3, Precision.bf16: 5e-2}
"""Largest difference of two logits, as a share of the largest, that passes as rounding."""


@contextmanager
def start_process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has run none of the user's code, until the end of the block."""
    # -P: nothing in the current folder hides a module of Python. A session of its own: Ctrl-C in a
    # terminal is for the training.
    command = [sys.executable, "-P", "-m", __name__]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def check_in(
    process: subprocess.Popen[bytes],
    config: RunConfig,
    num_classes: int,
    start: Mapping[str, Tensor],
    model: nn.Module,
    test: Examples,
    logits: NDArray[np.float32],
) -> None:
    """Raise `UserError` where a model gives others than these logits, (n,) or (n, C), of texts
    in a fresh process, or others for a text in a batch than for the text alone, and where it does
    not start there from the same weights."""
    last = len(test) - 1
    rows = np.linspace(0, last, NUM_TEXTS).astype(int)
    texts = test.ids[from_numpy(rows)]
    job = config, num_classes, start, weights_of(model), texts.cpu().numpy(), logits[rows]
    content = pickle.dumps(sys.path) + pickle.dumps(job)
    answer, log = process.communicate(content)
    if answer:
        raise UserError(answer.decode())
    if process.returncode:
        text = log.decode(errors="replace").strip()
        _, _, last_line = text.rpartition("\n")
        raise UserError(f"The model fails in another process: {last_line}")


def main() -> None:
    """Check the model that stdin gives; write what is wrong on stdout."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the user's code prints goes to stderr
    sys.path[:] = pickle.load(sys.stdin.buffer)  # where the job's classes are found
    try:
        compare_logits(*pickle.load(sys.stdin.buffer))
    except UserError as error:
        answers.write(str(error).encode())


@torch.no_grad()
def compare_logits(
    config: RunConfig,
    num_classes: int,
    start: Mapping[str, Tensor],
    weights: dict[str, NDArray[Any]],
    texts: NDArray[np.int32],
    expected: NDArray[np.float32],
) -> None:
    """Raise `UserError` as `check_in` does. texts: ids (B, T). expected: their logits then."""
    processor = device.prepare(config.train)
    ids = from_numpy(texts).to(processor)
    code = foreign_code(to_dict(config))
    with guard(code):
        model = build_model(config, num_classes).to(processor)
        compare_weights(model, start)
        model.load_state_dict({name: from_numpy(array) for name, array in weights.items()})
        device.choose_path(model, config.train)
        check_pieces(model, ids)
        check_logits(model, ids, num_classes)
        with autocast(processor, config.train.precision):
            logits = model.eval()(ids).float().cpu().numpy()
    tolerance = TOLERANCE[config.train.precision] * float(np.abs(expected).max())
    distance = float(np.abs(logits - expected).max())
    if distance > tolerance:
        raise UserError(
            f"The model gives other logits in a process of its own than after its training (by "
            f"{distance:.2g}): {', '.join(code)} keeps state outside its parameters and buffers, "
            f"such as in its class or module. Keep it by self.register_buffer."
        )


if __name__ == "__main__":
    main()
