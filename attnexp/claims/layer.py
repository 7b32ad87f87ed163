"""Claims about order, the scaling of embeddings and the scaling of scores."""

from typing import Any

import torch
from torch import Tensor

from attnexp.claims.finding import Finding, claim, judge_equality, max_abs_diff
from attnexp.claims.samples import draw_normal, random_attention
from attnexp.config.compose import compose
from attnexp.model.positions import SinusoidalPosition, sinusoidal_table
from attnexp.model.scores import DotProduct, attention_weights
from attnexp.network.build import build_model


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
    norms = [table.norm(dim=1).mean() for table in (positions, words)]
    ratio = float(norms[0] / norms[1])
    scaled_ratio = ratio / d_model**0.5
    measured = (
        f"scaling and a step's own PE hold by construction; positions have {ratio:.1f} times the "
        f"norm of words without √d, {scaled_ratio:.1f} with it: they weigh less"
    )
    return Finding("holds in part", measured)


@claim("C12", "N, K", "Var(q·k) = d_k, over √d_k 1; else softmax saturates, gradients shrink")
def softmax_saturates_without_scaling() -> Finding:
    """At any d_k of 4, 16, 64: a variance 5 % off; without √d_k a largest weight no larger, or a
    gradient no smaller, than with it."""
    failures = []
    peaks = []
    norms = []
    for d_key in (4, 16, 64):
        unscaled = measure_softmax(d_key, scale=False)
        scaled = measure_softmax(d_key, scale=True)
        _, peak, norm = (unscaled / scaled).tolist()
        peaks.append(f"×{peak:.2g}")
        norms.append(f"×{norm:.2g}")
        errors = abs(unscaled[0] / d_key - 1), abs(scaled[0] - 1)
        if max(errors) > 0.05:
            failures.append(f"variance at d_k = {d_key}")
        if peak <= 1:
            failures.append(f"saturation at d_k = {d_key}")
        if norm >= 1:
            failures.append(f"gradient at d_k = {d_key}")
    measured = f"does not hold: {', '.join(failures) or 'nothing'}; "
    measured += f"peak {', '.join(peaks)}, gradient's norm {', '.join(norms)} at d_k = 4, 16, 64"
    if not failures:
        return Finding("holds", measured)
    at_most_gradients = all("gradient" in failure for failure in failures) and norm < 1
    return Finding("holds in part" if at_most_gradients else "refuted", measured)


def measure_softmax(d_key: int, *, scale: bool) -> Tensor:
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
    (gradient,) = torch.autograd.grad(weights, scores, draw_normal(400, 50))
    peaks = weights.amax(dim=-1)
    norms = gradient.norm(dim=-1)
    return torch.stack([scores.var(), peaks.mean(), norms.mean()]).detach()
