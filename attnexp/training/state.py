"""Training between two steps: all that the rest of it depends on, to be put down and taken up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.runs.arrays import under
from attnexp.training.metrics import most_probable


@dataclass(kw_only=True, slots=True)
class Tally:
    """Running mean of loss and accuracy over an epoch, summed on the device.

    Asking for a number after every batch would make the host wait for the GPU.
    """

    num_steps: int = 0
    num_examples: int = 0
    seconds: float = 0.0
    """Spent on these steps."""
    loss_sum: Tensor
    """() float64."""
    num_right: Tensor
    """() int64."""

    @classmethod
    def on(cls, device: torch.device) -> "Tally":
        """Nothing yet."""
        return cls(
            loss_sum=torch.zeros((), dtype=torch.float64, device=device),
            num_right=torch.zeros((), dtype=torch.int64, device=device),
        )

    def add(self, loss: Tensor, logits: Tensor, labels: Tensor) -> None:
        """loss: mean over the batch. logits: (B,) or (B, C). labels: (B,)."""
        self.num_steps += 1
        self.num_examples += len(labels)
        self.loss_sum += loss.detach() * len(labels)
        self.num_right += (most_probable(logits) == labels).sum()

    def mean(self) -> tuple[float, float]:
        """Loss and accuracy over all examples added so far."""
        return self.loss_sum.item() / self.num_examples, self.num_right.item() / self.num_examples


@dataclass(kw_only=True, slots=True)
class State:
    """What a step changes, and where it stands. Dropout draws from torch's own stream."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    shuffle: torch.Generator
    """Orders the examples of every epoch."""
    order: Tensor
    """(n,) int64 on the model's device: the rows of train as this epoch takes them."""
    tally: Tally
    """Of this epoch."""
    epoch: int = 1
    """The one under way."""

    @classmethod
    def start(
        cls,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        shuffle: torch.Generator,
        *,
        num_examples: int,
        device: torch.device,
    ) -> "State":
        """Before the first step."""
        nothing = torch.empty(num_examples, dtype=torch.int64, device=device)
        state = cls(
            model=model,
            optimizer=optimizer,
            shuffle=shuffle,
            order=nothing,
            tally=Tally.on(device),
            epoch=0,
        )
        state.next_epoch()
        return state

    def next_epoch(self) -> None:
        """Draw the order of another epoch, of which no step has been done."""
        device = self.order.device
        self.epoch += 1
        self.order = torch.randperm(len(self.order), generator=self.shuffle).to(device)
        self.tally = Tally.on(device)

    def __str__(self) -> str:
        if self.tally.num_steps:
            return f"epoch {self.epoch}, step {self.tally.num_steps}"
        return f"the end of epoch {self.epoch - 1}" if self.epoch > 1 else "the start"

    def tensors(self) -> dict[str, Tensor]:
        """By name; they are not copied."""
        device = self.order.device
        streams = {"stream.cpu": torch.get_rng_state(), "stream.order": self.shuffle.get_state()}
        if device.type == "cuda":
            streams["stream.cuda"] = torch.cuda.get_rng_state(device)
        return {
            **{f"model.{name}": tensor for name, tensor in self.model.state_dict().items()},
            **{
                f"optimizer.{index}.{name}": tensor
                for index, tensors in self.optimizer.state_dict()["state"].items()
                for name, tensor in tensors.items()
            },
            **streams,
            "order": self.order,
            "loss_sum": self.tally.loss_sum,
            "num_right": self.tally.num_right,
        }

    def numbers(self) -> dict[str, Any]:
        """The rest, fit for JSON."""
        return {
            "epoch": self.epoch,
            "num_steps": self.tally.num_steps,
            "num_examples": self.tally.num_examples,
            "seconds": self.tally.seconds,
            "groups": self.optimizer.state_dict()["param_groups"],
        }

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Become what gave these `tensors` and `numbers`, of which copies are taken."""
        device = self.order.device
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in under("optimizer.", tensors).items():
            index, _, kind = name.partition(".")
            moments.setdefault(int(index), {})[kind] = tensor.clone()
        self.model.load_state_dict(under("model.", tensors))
        self.optimizer.load_state_dict({"state": moments, "param_groups": numbers["groups"]})
        torch.set_rng_state(tensors["stream.cpu"])
        self.shuffle.set_state(tensors["stream.order"])
        if device.type == "cuda":
            torch.cuda.set_rng_state(tensors["stream.cuda"], device)
        self.epoch = numbers["epoch"]
        self.order = tensors["order"].to(device, copy=True)
        self.tally = Tally(
            num_steps=numbers["num_steps"],
            num_examples=numbers["num_examples"],
            seconds=numbers["seconds"],
            loss_sum=tensors["loss_sum"].to(device, copy=True),
            num_right=tensors["num_right"].to(device, copy=True),
        )
