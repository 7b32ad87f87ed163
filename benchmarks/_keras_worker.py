"""K's script on Keras 3: embedding, [positions,] attention, mean, dropout, logit; `model.fit`.

Worker of bench.py: each turn is an epoch with validation. With `--epochs` it is the script itself,
which trains that long and ends. It does not import attnexp, and imports keras by name because the
type checker's environment lacks it.
"""

import argparse
import importlib
import os
import time
from typing import Any

import numpy as np
from _turns import peak_mib, report, wait

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("data", help="npz with ids (n, T) and labels (n,) of train and val")
parser.add_argument("--backend", default="tensorflow")
parser.add_argument("--positions", action="store_true", help="add K's sines and cosines")
parser.add_argument("--epochs", type=int, help="as a script, without turns")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

os.environ["KERAS_BACKEND"] = args.backend
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
keras: Any = importlib.import_module("keras")
ops = keras.ops


class Positions(keras.layers.Layer):  # type: ignore[misc]
    """Adds a table of cosines, then sines, computed once (K computes it every step)."""

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Make the table: (T, D)."""
        _, num_tokens, width = shape
        assert num_tokens is not None
        assert width is not None
        angle = np.arange(num_tokens)[:, None] / 10_000 ** (2 * np.arange(width // 2) / width)
        self.table = ops.convert_to_tensor(np.hstack([np.cos(angle), np.sin(angle)]), "float32")

    def call(self, x: Any) -> Any:
        """(B, T, D) -> (B, T, D)."""
        return x + self.table


class Attention(keras.layers.Layer):  # type: ignore[misc]
    """Self-attention without biases and output projection."""

    def __init__(self, num_heads: int, d_head: int) -> None:
        super().__init__()
        self.heads = (num_heads, d_head)

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Make the three projection matrices."""
        width = self.heads[0] * self.heads[1]
        self.projections = [
            self.add_weight(name=name, shape=(shape[-1], width), initializer="glorot_uniform")
            for name in ("WQ", "WK", "WV")
        ]

    def call(self, x: Any) -> Any:
        """(B, T, D) -> (B, T, H K)."""
        num_tokens = x.shape[1]
        q, k, v = (
            ops.transpose(
                ops.reshape(ops.matmul(x, weight), (-1, num_tokens, *self.heads)), (0, 2, 1, 3)
            )
            for weight in self.projections
        )
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / self.heads[1] ** 0.5
        y = ops.transpose(ops.matmul(ops.softmax(scores), v), (0, 2, 1, 3))
        return ops.reshape(y, (-1, num_tokens, self.heads[0] * self.heads[1]))


class Turns(keras.callbacks.Callback):  # type: ignore[misc]
    """Waits before each epoch, and reports its seconds after it."""

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        """Wait for a turn."""
        wait()
        self.started = time.perf_counter()

    def on_test_begin(self, logs: object = None) -> None:
        """Note the end of training."""
        # JAX computes asynchronously: wait for the last update, or its time counts as validation.
        ops.convert_to_numpy(self.model.trainable_variables[-1])
        self.trained = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Report the turn."""
        assert logs is not None
        ended = time.perf_counter()
        train, evaluate = self.trained - self.started, ended - self.trained
        report(
            {"train": train, "evaluate": evaluate, "epoch": ended - self.started},
            accuracy=logs["val_accuracy"],
            peak_mib=peak_mib(),
        )


keras.utils.set_random_seed(args.seed)
with np.load(args.data) as arrays:
    train, val = (
        (arrays[f"{split}_ids"], arrays[f"{split}_labels"].astype(np.float32))
        for split in ("train", "val")
    )
inputs = keras.Input(shape=train[0].shape[1:], dtype="int32")
x = keras.layers.Embedding(20_000, 128)(inputs)
if args.positions:
    x = Positions()(x)
x = Attention(8, 16)(x)
x = keras.layers.GlobalAveragePooling1D()(x)
x = keras.layers.Dropout(0.5)(x)
outputs = keras.layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
history = model.fit(
    *train,
    batch_size=32,
    epochs=args.epochs or 10**9,
    validation_data=val,
    callbacks=[] if args.epochs else [Turns()],
    verbose=0,
)
report({}, accuracy=history.history["val_accuracy"][-1], peak_mib=peak_mib())
