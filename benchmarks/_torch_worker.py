"""A worker of training.py: one epoch of training and one of evaluation a turn, in PyTorch.

Kinds: `ours` is attnexp's model in attnexp's loop; `sdpa_ours` is torch's fused attention in the
same loop; `sdpa` is that in a tutorial's loop; `usual` is torch's own layers, DataLoader included.
"""

import argparse
import time

import _peers
import numpy as np
import torch
from _turns import report, wait
from torch.utils.data import DataLoader, TensorDataset

from attnexp.config.compose import compose
from attnexp.config.schema import RunConfig
from attnexp.model.classifier import build_classifier
from attnexp.training import device
from attnexp.training.loop import Examples, fit, start


def main() -> None:
    """Take turns until stdin closes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["ours", "sdpa_ours", "sdpa", "usual"])
    parser.add_argument("data", help="npz with ids (n, T) and labels (n,)")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--default-malloc", action="store_true")
    args = parser.parse_args()

    with np.load(args.data) as arrays:
        ids, labels = torch.from_numpy(arrays["ids"]), torch.from_numpy(arrays["labels"])
    examples = Examples(ids, labels.float())
    config = compose(
        [
            f"data.max_len={ids.shape[1]}",
            "train.epochs=1_000_000_000",  # as many as there are turns
            "train.measure_train=false",
            "train.device=cpu",
            f"train.precision={args.precision}",
            f"train.threads={args.threads or 'null'}",
        ]
    )
    torch.manual_seed(0)
    if args.kind.endswith("ours"):
        _ours(config, examples, sdpa=args.kind == "sdpa_ours", prepare=not args.default_malloc)
    else:
        _tutorial(config, examples, sdpa=args.kind == "sdpa")


def _ours(config: RunConfig, examples: Examples, *, sdpa: bool, prepare: bool) -> None:
    if prepare:
        device.prepare(config.train)
    model: torch.nn.Module = _sdpa(config, examples) if sdpa else build_classifier(config)
    state = start(model, examples, config.train, torch.Generator().manual_seed(0))
    rows = fit(state, examples, examples, config.train)
    while True:
        wait()
        row, _ = next(rows)
        train_seconds = len(examples) / row.examples_per_second
        report(train=train_seconds, evaluate=row.seconds - train_seconds)


def _tutorial(config: RunConfig, examples: Examples, *, sdpa: bool) -> None:
    size = config.train.batch_size
    if sdpa:
        model: torch.nn.Module = _sdpa(config, examples)
        train: _peers.Batches = _peers.Shuffled(examples, size)
        test: _peers.Batches = list(
            zip(examples.ids.split(size), examples.labels.split(size), strict=True)
        )
    else:
        model = _peers.Usual(config.data.vocab_size, config.model.d_model, config.model.heads)
        data = TensorDataset(examples.ids.long(), examples.labels)
        train, test = DataLoader(data, size, shuffle=True), DataLoader(data, size)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.train.lr)
    while True:
        wait()
        started = time.perf_counter()
        _peers.train(model, train, optimizer)
        trained = time.perf_counter()
        _peers.evaluate(model, test)
        report(train=trained - started, evaluate=time.perf_counter() - trained)


def _sdpa(config: RunConfig, examples: Examples) -> _peers.Sdpa:
    """With our weights, and checked to say what ours says."""
    ours = build_classifier(config).eval()
    model = _peers.Sdpa(ours, config.model.heads).eval()
    with torch.no_grad():
        torch.testing.assert_close(model(examples.ids[:8]), ours(examples.ids[:8]))
    return model


if __name__ == "__main__":
    main()
