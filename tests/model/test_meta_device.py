"""CUDA and MPS without one: the meta device stands for a GPU, and a mode watches what crosses.

Nothing mixes tensors of both, makes an array of float64 there (Apple's GPUs have none), or waits
for a number of the device more often than is known."""

from contextlib import nullcontext, suppress
from typing import Any

import pytest
import torch
from test_oracle import COMBINATIONS, SMALL, texts
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnexp.config.compose import compose
from attnexp.inspect import interventions
from attnexp.inspect.insight import forward
from attnexp.network.build import build_model
from attnexp.network.fast import take_fast_path
from attnexp.training import loop
from attnexp.training.optimizer import make_optimizer
from attnexp.training.state import State

aten = torch.ops.aten


class Watch(TorchDispatchMode):
    """Counts host syncs, which give zeros, and fails at what a GPU could not do."""

    num_syncs = 0

    def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), more: Any = None) -> Any:
        given = [one for one in tree_leaves((args, more or {})) if isinstance(one, Tensor)]
        more = more or {}
        is_copy = function in (aten._to_copy.default, aten.copy_.default)
        on = {one.device.type for one in given if one.ndim > 0}  # numbers travel by themselves
        assert is_copy or len(on) < 2, f"{function} mixes host and device"
        to_host = more.get("device") == torch.device("cpu")
        if given and given[0].is_meta and (to_host or function is aten._local_scalar_dense.default):
            self.num_syncs += 1
            zeros = torch.zeros(given[0].shape, dtype=given[0].dtype)
            return zeros if to_host else zeros.item()
        made = function(*args, **more)
        for one in tree_leaves(made):
            is_array = isinstance(one, Tensor) and one.is_meta and one.ndim > 0
            assert not (is_array and one.dtype is torch.float64), f"{function} makes float64"
        return made


@pytest.mark.parametrize("words", COMBINATIONS[::5])
def test_all_stays_on_the_device(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training, prediction and a probe."""
    monkeypatch.setattr(loop, "autocast", lambda *_: nullcontext())  # torch has none for meta
    config = compose([*SMALL, *words.split()])
    model = build_model(config).to("meta")
    take_fast_path(model)
    ids = texts().repeat(32, 1).to("meta")
    train = loop.Examples(ids, torch.zeros(96, device="meta"))
    optimizer = make_optimizer(model, config.train)
    state = State(model=model, optimizer=optimizer, shuffle=torch.Generator())
    state.optimizer.param_groups[0] |= {"fused": False}  # likewise
    with Watch() as watch:  # type: ignore[no-untyped-call]
        loop.train_epoch(state, train, config.train)
        assert watch.num_syncs == 3  # a look at the loss, and the two numbers of the epoch
        assert loop.predict(model, train, config.train.precision).shape == (96,)
        assert watch.num_syncs == 4
        model = build_model(config).to("meta")  # a probe takes the reference path
        forward(model, ids)
        for name in ("shuffle=3", "unknown=0.5", "last=3", "permute_positions", "uniform"):
            with suppress(ValueError):  # where the model lacks what it acts on
                changed = interventions.load_intervention(name)(ids.clone(), model)
                with nullcontext(changed) if isinstance(changed, Tensor) else changed as other:
                    model(other if isinstance(other, Tensor) else ids)
        assert watch.num_syncs == 4
