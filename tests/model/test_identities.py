"""What is known of models besides their formulas: paths, devices, places, starts and costs."""

import json
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Patch
from samples import NARROW
from test_oracle import COMBINATIONS, SMALL, texts
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnexp.config.compose import compose
from attnexp.config.schema import Precision
from attnexp.inspect import interventions
from attnexp.inspect.insight import forward
from attnexp.network.build import build_model
from attnexp.network.cost import cost_of
from attnexp.network.fast import take_fast_path
from attnexp.training import loop
from attnexp.training.adam import make_optimizer
from attnexp.training.state import State


def test_only_the_cpu_in_fp32_goes_by_hand() -> None:
    config = compose(SMALL)
    assert take_fast_path(build_model(config)) == "words"
    assert take_fast_path(build_model(config), Precision.bf16) == "pooled"
    assert take_fast_path(build_model(config).to("meta")) == "pooled"


SMALLER = "data=contrast data.max_len=9 data.vocab_size=30 model.d_model=8 seed=5".split()
GOLDEN = json.loads((Path(__file__).parent / "start_weights.json").read_text())
"""As the code of January 2026 drew them: a fingerprint of each parameter by name and shape, and the
first number that the global generator gives after a model is built from seed 0."""


@pytest.mark.parametrize("words", GOLDEN["next draw"])
def test_a_model_starts_from_the_weights_that_it_always_had(words: str) -> None:
    narrow = [] if words.startswith("model=") else NARROW
    torch.manual_seed(0)
    model = build_model(compose([*SMALLER, *narrow, *words.split()]))
    assert float(torch.rand(())) == pytest.approx(GOLDEN["next draw"][words], abs=1e-6)
    for name, parameter in model.named_parameters():
        shape = "x".join(map(str, parameter.shape))
        expected = GOLDEN["weights"][f"{name} {shape}"]
        values = parameter.detach().double().flatten().numpy()
        fingerprint = values @ np.cos(np.arange(1, len(values) + 1))
        assert fingerprint == pytest.approx(expected, rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize(
    ("words", "parameters", "flops"),
    [  # 80 tokens; a multiply and an add are 2 operations
        ("", 2_609_281, 2 * (3 * 80 * 128**2 + 2 * 80**2 * 128 + 128)),
        ("model=lstm", 20_000 * 128 + 8 * 128**2 + 5 * 128 + 1, 2 * (8 * 80 * 128**2 + 128)),
        ("model=mean model.freeze=true", 129, 2 * 128),
        ("model=tfidf", 20_001, 2 * 80),
    ],
)
def test_cost_by_formula(words: str, parameters: int, flops: int) -> None:
    cost = cost_of(build_model(compose(words.split())), num_tokens=80)
    assert cost == {"parameters": parameters, "flops_per_example": flops}


class Watch(TorchDispatchMode):
    """Counts host syncs, which give zeros, and fails at what a GPU could not do."""

    num_syncs = 0

    def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), more: Any = None) -> Any:
        more = more or {}
        tensors = tensors_in((args, more))
        is_on_meta = bool(tensors) and tensors[0].is_meta
        if is_on_meta and function is torch.ops.aten._local_scalar_dense.default:
            self.num_syncs += 1
            return 0
        if is_on_meta and more.get("device") == torch.device("cpu"):
            self.num_syncs += 1
            return torch.zeros(tensors[0].shape, dtype=tensors[0].dtype)
        is_copy = function in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
        devices = {tensor.device for tensor in tensors if tensor.ndim > 0}  # numbers travel alone
        assert is_copy or len(devices) < 2, f"{function} mixes host and device"
        output = function(*args, **more)
        for tensor in tensors_in(output):
            is_float64 = tensor.is_meta and tensor.ndim > 0 and tensor.dtype is torch.float64
            assert not is_float64, f"{function} makes float64"
        return output


def tensors_in(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


@pytest.mark.parametrize("words", COMBINATIONS[::9])
def test_all_stays_on_the_device(words: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(loop, "autocast", lambda *_: nullcontext())  # torch has none for meta
    config = compose([*SMALL, *words.split()])
    model = build_model(config).to("meta")
    take_fast_path(model)
    ids = texts().repeat(11, 1).to("meta")  # two batches
    train = loop.Examples(ids, torch.zeros(33, device="meta"))
    optimizer = make_optimizer(model, config.train)
    optimizer.param_groups[0]["fused"] = False  # likewise
    state = State(model=model, optimizer=optimizer, shuffle=torch.Generator())
    with Watch() as watch:  # type: ignore[no-untyped-call]
        loop.train_epoch(state, train, config.train)
        assert watch.num_syncs == 3  # a look at the loss, and the two numbers of the epoch
        assert loop.predict(model, train, config.train.precision).shape == (33,)
        assert watch.num_syncs == 4
        model = build_model(config).to("meta")  # a probe takes the reference path
        forward(model, ids)
        for name in ("shuffle=3", "unknown=0.5", "last=3"):
            model(interventions.load_intervention(name)(ids.clone(), model))
        for name in ("permute_positions", "uniform"):
            change: Any = interventions.load_intervention(name)
            with suppress(ValueError), change(ids, model):  # where the model has such a part
                model(ids)
        assert watch.num_syncs == 4
