"""Claims about order, the scaling of embeddings and the scaling of scores."""

from typing import Any

import numpy as np
import torch

from attnexp.claims.finding import Finding, claim, judge_equality, max_abs_diff
from attnexp.claims.samples import draw_normal, random_attention
from attnexp.config.compose import compose
from attnexp.model.positions import SinusoidalPosition, sinusoidal_table
from attnexp.model.scores import DotProduct, attention_weights
from attnexp.network.build import build_model

WIDTHS = (4, 16, 64)  # d_k at which the scaling of scores is checked


@claim("C04", "M, K", "Attention is permutation-equivariant without PE, not with it")
def attention_without_positions_is_equivariant() -> Finding:
    """Outputs that do not swap places when two tokens do; with PE a mean that stays the same."""
    layer = random_attention()
    order = [1, 0, 2, 3, 4, 5, 6]
    x = draw_normal(1, 7, 8)
    swapped = x[:, order]
    add_positions = SinusoidalPosition(7, 8)
    means = [layer(add_positions(texts)).mean(dim=1) for texts in (x, swapped)]
    change = max_abs_diff((means[0], means[1]))
    return judge_equality(
        (layer(swapped), layer(x)[:, order]),
        also=change > 1e-3,
        shown=f"the mean with PE by {change:.2g}",
    )


@claim("C06", "P", "√d before PE makes positions weigh more; a step has its own PE")
def scaled_embeddings_make_positions_weigh_more() -> Finding:
    """A norm of positions, against that of the untrained embeddings of words, that √d makes
    smaller."""
    embedding: Any = build_model(compose([])).embedding
    words = embedding.words.detach()
    d_model = words.shape[1]
    positions = sinusoidal_table(80, d_model)
    ratio = positions.norm(dim=1).mean().item() / words.norm(dim=1).mean().item()
    measured = (
        f"scaling and a step's own PE hold by construction; positions have {ratio:.1f} times the "
        f"norm of words without √d, {ratio / d_model**0.5:.1f} with it: they weigh less"
    )
    return Finding("holds in part", measured)


@claim("C12", "N, K", "Var(q·k) = d_k, over √d_k 1; else softmax saturates, gradients shrink")
def softmax_saturates_without_scaling() -> Finding:
    """At any d_k of 4, 16, 64: a variance 5 % off; without √d_k a largest weight no larger, or a
    gradient no smaller, than with it."""
    failures = []
    ratios = []
    for d_key in WIDTHS:
        variance, *unscaled = measure_softmax(d_key, scale=False)
        scaled_variance, *scaled = measure_softmax(d_key, scale=True)
        peak, norm = np.divide(unscaled, scaled)
        ratios.append((peak, norm))
        parts = {
            "variance": max(abs(variance / d_key - 1), abs(scaled_variance - 1)) <= 0.05,
            "saturation": peak > 1,
            "gradient": norm < 1,
        }
        failures += [f"{part} at d_k = {d_key}" for part, holds in parts.items() if not holds]
    peaks, norms = (
        ", ".join(f"×{ratio:.2g}" for ratio in row) for row in zip(*ratios, strict=True)
    )
    measured = f"does not hold: {', '.join(failures) or 'nothing'}; "
    measured += f"peak {peaks}, gradient's norm {norms} at d_k = 4, 16, 64"
    if not failures:
        return Finding("holds", measured)
    at_most_gradients = all("gradient" in failure for failure in failures) and norm < 1
    return Finding("holds in part" if at_most_gradients else "refuted", measured)


def measure_softmax(d_key: int, *, scale: bool) -> tuple[float, float, float]:
    """Measures of the scores of N(0, 1) queries and keys, in 400 rows of 50: their variance, the
    mean of the largest weight of a row, and the mean norm of the gradient of a row, given a random
    gradient of the weights."""
    shape = (20_000, 1, 1, d_key)
    q = draw_normal(*shape)
    k = draw_normal(*shape, seed=1)
    score = DotProduct(1, d_key, d_key, d_key, scale=scale)
    scores = score(q, k).view(400, 50)
    scores.requires_grad_()
    weights = attention_weights(scores)
    gradient_of_weights = draw_normal(400, 50)
    (gradient,) = torch.autograd.grad(weights, scores, gradient_of_weights)
    variance = scores.var().item()
    peaks = weights.amax(dim=-1)
    norms = gradient.norm(dim=-1)
    return variance, peaks.mean().item(), norms.mean().item()
