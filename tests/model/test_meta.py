"""CUDA and MPS without one: torch's meta device stands for a GPU, and a mode watches what crosses.

No operation may mix tensors of the host and of the device, make an array of float64 there (Apple's
GPUs have none), or wait for a number of the device more often than is known.
"""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from attnexp.inspect.relevance import forward
from test_oracle import composed, covering, texts
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnexp.inspect import interventions
from attnexp.model.classifier import build_model, take_fast_path
from attnexp.training import loop
from attnexp.training.loop import Examples, Tally, predict_batches, shuffle_of, start, train_epoch

aten = torch.ops.aten


class Watch(TorchDispatchMode):
    """Counts host syncs, which give zeros, and fails at what a GPU could not do."""

    num_syncs = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        is_copy = function in (aten._to_copy.default, aten.copy_.default)
        on = {one.device.type for one in given if one.ndim > 0}  # numbers travel by themselves
        assert is_copy or len(on) < 2, f"{function} mixes host and device"
        to_host = is_copy and (kwargs or {}).get("device") == torch.device("cpu")
        if "meta" in {one.device.type for one in given} and (
            to_host or function is aten._local_scalar_dense.default
        ):
            self.num_syncs += 1
            host = torch.zeros(given[0].shape, dtype=given[0].dtype, device="cpu")
            return host if to_host else host.item()
        made = function(*args, **(kwargs or {}))
        for one in tree_leaves(made):
            if isinstance(one, torch.Tensor) and one.device.type == "meta" and one.ndim > 0:
                assert one.dtype is not torch.float64, f"{function} makes float64"
        return made


@pytest.mark.parametrize("words", covering()[::6])
def test_training_prediction_and_probe_stay_on_the_device(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "autocast", lambda *_: nullcontext())  # torch has none for meta
    config = composed(words)
    assert config is not None
    config.train.batch_size = 2
    model = build_model(config)
    take_fast_path(model)
    model.to("meta")
    ids = texts().repeat(2, 1).to("meta")
    train = Examples(ids, torch.zeros(6, device="meta"))
    state = start(model, train, config.train, shuffle_of(config))
    state.optimizer.param_groups[0] |= {"fused": False}  # likewise
    with Watch() as watch:
        tally = Tally()
        assert len([*train_epoch(state, train, config.train, tally)]) == 3
        tally.mean()
        assert watch.num_syncs == 3  # a look at the loss, and the two numbers of the epoch
        logits = torch.cat([*predict_batches(model, train, config.train.precision)])
        assert (logits.device.type, logits.shape) == ("meta", (6,))
        model = build_model(config).to("meta")  # a probe takes the reference path
        forward(model, ids)
        for name in ("shuffle=3", "unknown=0.5", "last=3", "permute_positions", "uniform"):
            try:
                changed = interventions.load(name)(ids.clone(), model)
            except ValueError:  # the model lacks what it acts on
                continue
            with nullcontext() if isinstance(changed, torch.Tensor) else changed:
                model(changed if isinstance(changed, torch.Tensor) else ids)
        assert watch.num_syncs == 3
