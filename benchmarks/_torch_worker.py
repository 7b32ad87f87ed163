"""Worker of bench.py in PyTorch: each turn is an epoch of training and validation.

`ours` is attnexp's model in attnexp's loop, with the given settings; `fused` is the same network in
the same loop on torch's `scaled_dot_product_attention`; `usual` is a tutorial's model of torch's
layers: nn.MultiheadAttention, DataLoader, the default Adam. `profile` is `ours`, with the seconds
of each of torch's operations, without those of the operations that it calls.

Shapes: B batch, T tokens, D model width, H heads, Dh head width.
"""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from _turns import peak_mib, report, wait
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

from attnexp.config.compose import compose
from attnexp.config.schema import RunConfig
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.network.build import build_model
from attnexp.network.fast import choose_path
from attnexp.runs.result import EpochRow
from attnexp.training.adam import make_optimizer
from attnexp.training.device import prepare_device
from attnexp.training.loop import Examples, measure_epoch, train_epoch
from attnexp.training.state import State

Batches = DataLoader[tuple[Tensor, ...]]


def main() -> None:
    """Take turns until stdin is closed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["ours", "fused", "usual", "profile"])
    parser.add_argument("data", help="npz with ids (n, T) and labels (n,) of train and val")
    parser.add_argument("words", nargs="*", help="settings, such as train.fast=false")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    with np.load(args.data) as arrays:
        train, val = (
            Examples(
                torch.from_numpy(arrays[f"{split}_ids"]),
                torch.from_numpy(arrays[f"{split}_labels"]).float(),
            )
            for split in ("train", "val")
        )
    config = compose(
        [
            f"data.max_len={train.ids.shape[1]}",
            "train.device=cpu",
            "train.epochs=1_000_000_000",  # as many as there are turns
            f"seed={args.seed}",
            *args.words,
        ]
    )
    torch.manual_seed(args.seed)
    if args.kind == "usual":
        usual(config, train, val)
    else:
        ours(config, train, val, args.kind)


def ours(config: RunConfig, train: Examples, val: Examples, kind: str) -> None:
    """Take turns in attnexp's loop."""
    prepare_device(config.train)
    model = fused(config, val.ids[:8]) if kind == "fused" else build_model(config)
    if kind != "fused":
        choose_path(model, config.train)
    shuffle = torch.Generator().manual_seed(config.seed)
    optimizer = make_optimizer(model, config.train)
    state = State(model=model, optimizer=optimizer, shuffle=shuffle)

    def next_row() -> EpochRow:
        train_epoch(state, train, config.train)
        return measure_epoch(model, state.epoch, train, val, config.train)[0]

    before = peak_mib()
    while True:
        wait()
        if kind == "profile":
            with profile(activities=[ProfilerActivity.CPU]) as seen:
                next_row()
            took = {each.key: each.self_cpu_time_total / 1e6 for each in seen.key_averages()}
            report({name: seconds for name, seconds in took.items() if seconds})
            continue
        started = time.perf_counter()
        row = next_row()
        epoch = time.perf_counter() - started
        train_seconds = len(train) / row.examples_per_second
        seconds = {"train": train_seconds, "evaluate": row.seconds - train_seconds, "epoch": epoch}
        peak = peak_mib()
        report(seconds, accuracy=row.val_accuracy, peak_mib=peak, step_mib=peak - before)


def fused(config: RunConfig, ids: Tensor) -> nn.Module:
    """Our network on torch's fused attention, after a check that it gives the same logits."""
    model = build_model(config).eval()
    with torch.no_grad():
        expected = model(ids)
        for module in model.modules():
            if isinstance(module, MultiHeadSelfAttention):
                module.fast_attention = F.scaled_dot_product_attention
        torch.testing.assert_close(model(ids), expected)
    return model


class Usual(nn.Module):
    """K's network of torch's layers, including their output projection."""

    def __init__(self, vocab_size: int, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.attention = nn.MultiheadAttention(d_model, num_heads, bias=False, batch_first=True)
        self.dropout = nn.Dropout(0.5)
        self.output = nn.Linear(d_model, 1)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B,) logits."""
        x = self.embedding(ids)
        x, _ = self.attention(x, x, x, need_weights=False)
        logits: Tensor = self.output(self.dropout(x.mean(dim=1)))
        return logits.squeeze(-1)


def usual(config: RunConfig, train: Examples, val: Examples) -> None:
    """Take turns in the loop of a tutorial."""
    model = Usual(config.data.vocab_size, config.model.d_model, config.model.heads)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.train.lr)
    train_batches, val_batches = (
        DataLoader(
            TensorDataset(split.ids.long(), split.labels),
            config.train.batch_size,
            shuffle=split is train,
        )
        for split in (train, val)
    )
    while True:
        wait()
        started = time.perf_counter()
        model.train()
        one_pass(model, train_batches, optimizer)
        trained = time.perf_counter()
        model.eval()
        with torch.no_grad():
            accuracy = one_pass(model, val_batches)
        ended = time.perf_counter()
        seconds = {
            "train": trained - started,
            "evaluate": ended - trained,
            "epoch": ended - started,
        }
        report(seconds, accuracy=accuracy, peak_mib=peak_mib())


def one_pass(
    model: nn.Module, batches: Batches, optimizer: torch.optim.Optimizer | None = None
) -> float:
    """Accuracy of one epoch, which trains if there is an optimizer."""
    right = total = 0
    loss_sum = 0.0
    for ids, labels in batches:
        logits = model(ids)
        loss = F.binary_cross_entropy_with_logits(logits, labels)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        loss_sum += loss.item() * len(labels)
        right += int(((logits > 0) == (labels > 0)).sum().item())
        total += len(labels)
    return right / total


if __name__ == "__main__":
    main()
