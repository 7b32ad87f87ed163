"""Training between two epochs: everything that the rest of it depends on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR


@dataclass(kw_only=True, slots=True)
class State:
    """Model, optimizer and random streams. Dropout draws from torch's global stream."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: LambdaLR
    shuffle: torch.Generator
    """Generator of the order of examples, which draws once an epoch."""
    epoch: int = 1
    """Number of the next epoch."""

    def __str__(self) -> str:
        return f"the end of epoch {self.epoch - 1}" if self.epoch > 1 else "the start"

    def tensors(self, device: torch.device) -> dict[str, Tensor]:
        """Tensors of the state, by name; they are not copied."""
        streams = {"stream.cpu": torch.get_rng_state(), "stream.order": self.shuffle.get_state()}
        if device.type != "cpu":
            streams["stream.device"] = torch.get_device_module(device).get_rng_state()
        moments = self.optimizer.state_dict()["state"]
        return {
            **{f"model.{name}": tensor for name, tensor in self.model.state_dict().items()},
            **{
                f"optimizer.{index}.{name}": tensor
                for index, tensors in moments.items()
                for name, tensor in tensors.items()
            },
            **streams,
        }

    def numbers(self) -> dict[str, Any]:
        """Numbers of the state, fit for JSON."""
        groups = self.optimizer.state_dict()["param_groups"]
        return {"epoch": self.epoch, "num_steps": self.scheduler.last_epoch, "groups": groups}

    def restore(
        self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any], device: torch.device
    ) -> None:
        """Continue from what `tensors` and `numbers` gave, of which copies are taken."""
        weights: dict[str, Tensor] = {}
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "model":
                weights[rest] = tensor
            elif kind == "optimizer":
                index, _, moment = rest.partition(".")
                moments.setdefault(int(index), {})[moment] = tensor.clone()
        self.model.load_state_dict(weights)
        self.optimizer.load_state_dict({"state": moments, "param_groups": numbers["groups"]})
        torch.set_rng_state(tensors["stream.cpu"])
        self.shuffle.set_state(tensors["stream.order"])
        if device.type != "cpu":
            torch.get_device_module(device).set_rng_state(tensors["stream.device"])
        self.scheduler.last_epoch = numbers["num_steps"]
        self.epoch = numbers["epoch"]
