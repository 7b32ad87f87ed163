"""Claims about the cost and the reach of K's layer, 8 heads of 16 on width 128: C18, C23, C27.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from attnexp.claims.exact import Finding, attention, equal, normal, random_module
from attnexp.model.mixers import LSTM, Convolution
from attnexp.model.scores import DotProduct, attention_weights
from attnexp.model.window import window_attention


def c18() -> Finding:
    """Seconds, of a forward and a backward pass on one thread, are shown and do not decide."""
    layer, x = attention(128, 8, 16), normal(32, 80, 128)
    found = layer(x), loop_over_heads(layer, x)
    given = {"layer": layer.float().requires_grad_(), "x": x.float(), "loop": loop_over_heads}
    loop = Timer("loop(layer, x).sum().backward()", globals=given).timeit(9).mean
    heads = Timer("layer(x).sum().backward()", globals=given).timeit(9).mean
    return equal(*found, shown=f"; a loop takes {loop / heads:.2f} times as long")


def loop_over_heads(layer: Any, x: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(K)) V, one head after the other, joined: (B, T, D) -> (B, T, H K)."""
    outputs, projections = [], (layer.q_proj, layer.k_proj, layer.v_proj)
    for weights in zip(*(p.weight.chunk(layer.num_heads) for p in projections), strict=True):
        q, k, v = (x @ weight.T for weight in weights)
        outputs.append((q @ k.mT / math.sqrt(k.shape[-1])).softmax(dim=-1) @ v)
    return torch.cat(outputs, dim=-1)


def c23() -> Finding:
    """Exponents of FLOPs from 1,024 to 2,048 tokens, and from a window of ±64 to ±128."""
    layer, conv = attention(128, 8, 16), random_module(Convolution, 128, 128, kernel=3)
    score, qkv, convolution, products, window = DotProduct(8, 16, 16, 16), [], [], [], []
    for n in (1024, 2048):
        x, q = normal(1, n, 128), normal(1, 8, n, 16)
        qkv.append(flops(layer.queries_and_keys, x) + flops(layer.v_proj, x))
        convolution.append(flops(conv, x, torch.zeros(1, n, dtype=torch.bool)))
        products.append(flops(lambda q: attention_weights(score(q, q)) @ q, q))
        window.append(flops(window_attention, q, q, q, radius=8))
    radius = [flops(window_attention, q, q, q, radius=r) for r in (64, 128)]
    grows = [math.log2(after / before) for before, after in (qkv, products, window, radius)]
    shown = "; QKV n^{:.2f}, products n^{:.2f}, ±8 n^{:.2f}, ±r r^{:.2f}".format(*grows)
    found, claimed = torch.tensor(grows), torch.tensor([1.0, 2.0, 1.0, 1.0])
    return equal(found, claimed, within=0.1, also=qkv == convolution, shown=shown)


def flops(run: Callable[..., object], *args: Any, **settings: Any) -> int:
    """Floating-point operations of a call."""
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        run(*args, **settings)
    return int(counter.get_total_flops())


def c27() -> Finding:
    """A token reaches an output whose gradient in it is not zero."""
    x, no_padding = normal(1, 16, 128).requires_grad_(), torch.zeros(1, 16, dtype=torch.bool)
    y, lstm = x, random_module(LSTM, 128, 8)
    seen = [reach(attention(128, 8, 16)(x), x), reach(lstm(x, no_padding), x)]
    for _ in range(3):
        y = random_module(Convolution, y.shape[-1], 16, kernel=3)(y, no_padding)
        seen.append(reach(y, x))
    ahead = torch.arange(16)[None, :] - torch.arange(16)[:, None]  # (T outputs, T inputs)
    said = [ahead < 16, ahead <= 0, *(ahead.abs() <= depth for depth in (1, 2, 3))]
    return equal(torch.stack(seen), torch.stack(said), shown=f"; {[int(s.sum()) for s in seen]}")


def reach(y: Tensor, x: Tensor) -> Tensor:
    """Which tokens of x (1, T, D) each token of y depends on, boolean: (T outputs, T inputs)."""
    slopes = [torch.autograd.grad(out, x, retain_graph=True)[0] for out in y[0].sum(dim=-1)]
    return (torch.cat(slopes) != 0).any(dim=-1)
