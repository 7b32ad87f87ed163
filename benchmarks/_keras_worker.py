"""A worker of training.py: K's model and script on Keras 3, an epoch with validation a turn.

Runs under any Python that has keras with a backend, which `KERAS_BACKEND` chooses; needs nothing
of attnexp. Imports keras by name, for type checkers that have none.
"""

import importlib
import os
import sys
import time
from typing import Any

import numpy as np
from _turns import report, wait

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
keras: Any = importlib.import_module("keras")
ops = keras.ops


class Attention(keras.layers.Layer):  # type: ignore[misc]
    """8 heads of 16, no biases, no output projection."""

    def __init__(self, num_heads: int, d_head: int) -> None:
        super().__init__()
        self.heads = (num_heads, d_head)

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Three square matrices."""
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
    """An epoch begins when asked for, and its seconds are told at its end."""

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        """Wait for a turn."""
        wait()
        self.started = time.perf_counter()

    def on_test_begin(self, logs: object = None) -> None:
        """Training is over, validation begins."""
        # JAX works behind the script's back: wait for the last update, or validation pays for it.
        ops.convert_to_numpy(self.model.trainable_variables[-1])
        self.trained = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        """Validation is over."""
        report(train=self.trained - self.started, evaluate=time.perf_counter() - self.trained)


def main() -> None:
    """Take turns until stdin closes."""
    with np.load(sys.argv[1]) as arrays:
        ids, labels = arrays["ids"], arrays["labels"].astype(np.float32)
    inputs = keras.Input(shape=(ids.shape[1],), dtype="int32")
    x = keras.layers.Embedding(20_000, 128)(inputs)
    x = Attention(8, 16)(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    x = keras.layers.Dropout(0.5)(x)
    outputs = keras.layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model(inputs=inputs, outputs=outputs)
    model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
    model.fit(
        ids,
        labels,
        batch_size=32,
        epochs=10**9,
        validation_data=(ids, labels),
        callbacks=[Turns()],
        verbose=0,
    )


if __name__ == "__main__":
    main()
