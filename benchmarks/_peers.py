"""Two models that somebody else would write for the same task, and the loop they would use.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.classifier import Classifier
from attnexp.training.loop import Examples

Batches = Iterable[tuple[Tensor, Tensor]]
"""(ids (B, T), labels (B,)) of one epoch, anew each time it is walked."""


class Usual(nn.Module):
    """The layers torch offers: nn.MultiheadAttention, its output projection included."""

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


class Sdpa(nn.Module):
    """Our network, its weights included, on torch's fused attention."""

    def __init__(self, ours: Classifier, num_heads: int) -> None:
        super().__init__()
        attention = next(m for m in ours.modules() if isinstance(m, MultiHeadSelfAttention))
        self.num_heads = num_heads
        self.embedding = ours.embedding
        self.q_proj, self.k_proj, self.v_proj = attention.q_proj, attention.k_proj, attention.v_proj
        self.dropout = nn.Dropout(0.5)
        self.output = ours.output

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B,) logits."""
        x = self.embedding(ids)
        q, k, v = (
            project(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        logits: Tensor = self.output(self.dropout(y.mean(dim=1)))
        return logits.squeeze(-1)


class Shuffled:
    """Batches by plain indexing in a new order every time: what a DataLoader is often used for."""

    def __init__(self, examples: Examples, batch_size: int) -> None:
        self.examples = examples
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in torch.randperm(len(self.examples)).split(self.batch_size):
            yield self.examples.ids[rows], self.examples.labels[rows]


def train(model: nn.Module, batches: Batches, optimizer: torch.optim.Optimizer) -> float:
    """One epoch as in most tutorials; the accuracy over it."""
    model.train()
    right = total = 0
    loss_sum = 0.0
    for ids, labels in batches:
        optimizer.zero_grad()
        logits = model(ids)
        loss = F.binary_cross_entropy_with_logits(logits, labels)
        loss.backward()
        optimizer.step()
        loss_sum += loss.item() * len(labels)
        right += int(((logits > 0) == (labels > 0)).sum().item())
        total += len(labels)
    return right / total


def evaluate(model: nn.Module, batches: Batches) -> float:
    """Accuracy over all batches, with the loss, as most tutorials do it."""
    model.eval()
    right = total = 0
    loss_sum = 0.0
    with torch.no_grad():
        for ids, labels in batches:
            logits = model(ids)
            loss_sum += F.binary_cross_entropy_with_logits(logits, labels).item() * len(labels)
            right += int(((logits > 0) == (labels > 0)).sum().item())
            total += len(labels)
    return right / total
