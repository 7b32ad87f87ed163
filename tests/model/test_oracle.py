"""The papers as Python loops, over combinations that pair every choice with every other, and what
else holds by construction (`attnexp claims`; C02, C06, C17, C24 and C28 are in the loops): outputs
and gradients in float64, of the reference path and of the fast one, by a text at a time."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import Patch
from samples import redrawn
from torch import Tensor, nn

from attnexp.config.compose import compose, overlay
from attnexp.config.schema import to_dict
from attnexp.model import window
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.mixers import NgramEmbedding, SummaryToken
from attnexp.model.positions import AlibiBias, RelativeBias, sinusoidal_table
from attnexp.model.scores import Additive, Causal, DotProduct, Uniform, attention_weights
from attnexp.model.seams import JoinedPosition, Rotation
from attnexp.network import fast as building
from attnexp.network.build import build_model
from attnexp.network.fast import take_fast_path

SMALL = """data=contrast data.max_len=7 data.vocab_size=30 model.d_model=4 train.device=cpu
model.dropout=0""".split()
LINES = (Path(__file__).parent / "combinations.txt").read_text().splitlines()
PATHS = {words: path for path, words in (line.split(" | ") for line in LINES)}
"""The fast path of each combination; a search paired the choices."""
COMBINATIONS = [*PATHS]


def texts() -> Tensor:
    """A full text, one padded in front, and one of padding alone: (3, 7)."""
    ids = torch.randint(1, 30, (3, 7), generator=torch.Generator().manual_seed(0))
    ids[1, :3], ids[2] = 0, 0
    return ids


def loops(config: Any, model: Any, text: list[int]) -> Tensor:
    """The logit of a text, as one would explain it: x has a row for each token."""
    p = dict(model.named_parameters())
    chosen = config.model
    position = config.position
    if chosen.fills(NgramEmbedding):
        padded = [0] * (chosen.n - 1) + text
        ngrams = [padded[t : t + chosen.n] for t in range(len(text))]
        rows = [ngram_row(ngram, chosen.buckets) for ngram in ngrams]
        x = p["embedding.word.weight"][text] + p["embedding.ngram.weight"][rows]
    else:
        x = p["embedding.weight"][text]
    if chosen.pooling.fills(SummaryToken):
        x = torch.cat([p["cls"][None], x])
        text = [1, *text]
    if chosen.scale_embedding:
        x = x * math.sqrt(chosen.d_model)
    places = [*range(len(text))]
    if position.kind and position.shuffled:
        ranked = sorted(places, key=lambda t: (scattered(text[t]), t))
        places = [ranked.index(t) for t in places]
    if position.fills(JoinedPosition):
        table = p.get("position.weight")
        if table is None:
            table = sines(len(text), chosen.d_model, position.layout)
        y = position.scale * table[places]
        x = torch.cat([y, x], dim=1) if position.combine == "concat" else y + x
    for mixer in model.mixers:
        x = convolution(mixer.conv, x) if hasattr(mixer, "conv") else mixer.rnn(x[None])[0][0]
    for layer in model.layers:
        x = block(config, layer, x, text, places)
    y = pooled(chosen.pooling.name, x, text)
    if chosen.hidden:
        y = (p["output.0.weight"] @ y + p["output.0.bias"]).relu()
    last = "output.3" if chosen.hidden else "output"
    logit: Tensor = p[f"{last}.weight"] @ y + p[f"{last}.bias"]
    return logit.squeeze()


def ngram_row(ids: list[int], buckets: int) -> int:
    hashed = 0
    for id in ids:
        hashed = (hashed + id) * 0x2545F4914F6CDD1D % 2**64
        hashed ^= hashed >> 32
    signed = hashed - 2**64 if hashed >= 2**63 else hashed
    return signed % buckets


def scattered(id: int) -> int:
    id += 1
    for _ in range(2):
        id = id * 0x7FEB352D % 2**32
        id ^= id >> 15
    return id


def sines(num_tokens: int, width: int, layout: str) -> Tensor:
    """The table, rounded to float32 (Vaswani et al. 2017, section 3.5): (T, D)."""
    table = np.empty((num_tokens, width), dtype=np.float32)
    half = width // 2
    for t in range(num_tokens):
        for i in range(half):
            sine, cosine = (half + i, i) if layout == "split" else (2 * i, 2 * i + 1)
            angle = t / 10_000 ** (i / half)
            table[t, sine] = math.sin(angle)
            table[t, cosine] = math.cos(angle)
    return torch.from_numpy(table).double()


def convolution(conv: Any, x: Tensor) -> Tensor:
    """Each row from those about it, with zeros beyond the ends."""
    reach = conv.kernel_size[0] // 2
    padded = F.pad(x, (0, 0, reach, reach))
    y = conv.bias
    for k in range(2 * reach + 1):
        y = y + padded[k : k + len(x)] @ conv.weight[:, :, k].T
    return y.relu()  # type: ignore[no-any-return]


def block(config: Any, layer: Any, x: Tensor, text: list[int], places: list[int]) -> Tensor:
    """Vaswani et al. 2017, section 3.1, with LayerNorm after the sum, or before each part."""
    norm = config.model.norm
    ff = layer.feed_forward
    for n in range(2 if ff else 1):
        y = normed(layer.norms[n], x) if norm == "pre" else x
        if n == 0:
            y = attention(config, layer.attention, y, text, places)
        else:
            y = ff.down(ff.up(y).relu())
        x = x + y if config.model.residual else y
        if norm == "post":
            x = normed(layer.norms[n], x)
    return x


def normed(norm: Any, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[1:], norm.weight, norm.bias, eps=1e-6)


def attention(config: Any, layer: Any, x: Tensor, text: list[int], places: list[int]) -> Tensor:
    """Vaswani et al. 2017, section 3.2."""
    heads = [one_head(config, layer, h, x, text, places) for h in range(layer.num_heads)]
    y = torch.cat(heads, dim=1)
    if config.model.output_projection:
        y = y @ layer.out_proj.weight.T
    if config.mask.query:
        y[[id == 0 for id in text]] = 0
    return y


def one_head(config: Any, layer: Any, h: int, x: Any, text: list[int], places: list[int]) -> Tensor:
    projections = layer.q_proj, layer.k_proj, layer.v_proj
    q, k, v = (x @ one.weight.chunk(layer.num_heads)[h].T for one in projections)
    if config.position.fills(Rotation):
        q = rotated(q, places, config.position.layout)
        k = rotated(k, places, config.position.layout)
    queries, keys, values = [*q], [*k], [*v]  # a row for each token
    tokens = range(len(text))
    y = []
    for i in tokens:
        pairs = [(queries[i], keys[j], places[i], places[j]) for j in tokens]
        scores = [match(config, layer, h, *pair).exp() for pair in pairs]
        seen = [j for j in tokens if looks(config.mask, i, j, text)]
        total = sum(scores[j] for j in (seen if config.mask.mode == "add" else tokens))
        parts = [scores[j] / total * values[j] for j in seen]
        y.append(sum(parts, start=torch.zeros_like(values[i])))
    return torch.stack(y)


def looks(mask: Any, i: int, j: int, text: list[int]) -> bool:
    if mask.padding and text[j] == 0:
        return False
    if mask.fills(Causal):
        return j <= i
    return not mask.kind or abs(i - j) <= mask.radius


def rotated(x: Tensor, places: list[int], layout: str) -> Tensor:
    """Each pair of columns by its angle, rounded to float32 (Su et al. 2021, section 3.2.1)."""
    half = x.shape[1] // 2
    y = torch.zeros_like(x)
    for t, place in enumerate(places):
        for i in range(half):
            pair = [i, i + half] if layout == "split" else [2 * i, 2 * i + 1]
            angle = place / 10_000 ** (i / half)
            cos = math.cos(angle)
            sin = math.sin(angle)
            y[t, pair] = torch.tensor([[cos, -sin], [sin, cos]]).double() @ x[t, pair]
    return y


def match(config: Any, layer: Any, h: int, q: Tensor, k: Tensor, i: int, j: int) -> Tensor:
    """How well a query in place i matches a key in place j, with the bias of their distance."""
    chosen = config.model.score
    if chosen.fills(Additive):  # Bahdanau et al. 2015, A.1.2
        hidden = q @ layer.score.query[h] + k @ layer.score.key[h]
        score = layer.score.value[h] @ hidden.tanh()
    elif chosen.fills(Uniform):
        score = torch.zeros(())
    else:
        score = q @ k
        if chosen.scale:
            score = score / math.sqrt(len(k))
    if config.position.fills(RelativeBias):  # Shaw et al. 2018, section 3.2
        most = config.position.max_distance
        distance = max(-most, min(most, j - i))
        score = score + layer.bias.weight[h, most + distance]
    if config.position.fills(AlibiBias):  # Press et al. 2022, section 3
        slope = 2.0 ** (-8 * (h + 1) / layer.num_heads)
        score = score - slope * abs(j - i)
    return score  # type: ignore[no-any-return]


def pooled(name: str, x: Tensor, text: list[int]) -> Tensor:
    if name == "cls":
        return x[0]
    if name == "mean":
        return x.mean(dim=0)
    real = x[[id != 0 for id in text]]
    if len(real) == 0:
        real = torch.zeros_like(x[:1])
    if name == "last":
        return real[-1]
    return real.amax(dim=0) if name == "max" else real.mean(dim=0)


def gradients(logits: Tensor, model: nn.Module) -> dict[str, Tensor]:
    """Of a sum that weighs every logit differently, by name."""
    named = {name: one for name, one in model.named_parameters() if one.requires_grad}
    loss = (logits * torch.arange(1.0, len(logits) + 1)).sum()
    found = torch.autograd.grad(loss, [*named.values()], materialize_grads=True, allow_unused=True)
    return dict(zip(named, found, strict=True))


@pytest.mark.parametrize("words", COMBINATIONS)
def test_logits_and_gradients_are_those_of_the_loops(words: str, monkeypatch: Patch) -> None:
    """On the reference path and on the fast one. This shows the claims C03, C14 and C19, too."""
    model_word, *others = words.split()  # Hydra composes each model once.
    config = overlay(to_dict(compose([*SMALL, model_word])), others)
    for module in (building, window):  # so that short texts have several blocks
        monkeypatch.setattr(module, "SMALLEST_BLOCK", 2)
    reference = redrawn(build_model(config))
    fast = copy.deepcopy(reference)
    assert take_fast_path(fast) == take_fast_path(fast) == PATHS[words]
    logits = torch.stack([loops(config, reference, text) for text in texts().tolist()])
    expected = gradients(logits, reference)
    for model in (reference, fast):
        found = model(texts())
        torch.testing.assert_close(found, logits, rtol=1e-7, atol=1e-7)
        torch.testing.assert_close(gradients(found, model), expected, rtol=1e-6, atol=1e-7)


def test_queries_keys_and_values_have_their_own_sizes() -> None:  # C01
    q, k, v = torch.rand(2, 3, 2), torch.rand(2, 8, 2), torch.rand(2, 8, 10)
    weights = attention_weights(DotProduct(1, 2, 2, 2)(q, k))
    torch.testing.assert_close(weights @ v, F.scaled_dot_product_attention(q, k, v))


@pytest.mark.parametrize("layout", ["interleaved", "split"])
def test_the_table_of_sines_is_the_formula(layout: str) -> None:  # C05
    table = sinusoidal_table(1000, 32, layout=layout)
    assert (table - sines(1000, 32, layout)).abs().max() <= 1e-7
    with pytest.raises(ValueError, match="even"):
        sinusoidal_table(9, 127, layout=layout)


def test_projections_have_the_weights_of_the_formula() -> None:  # C13, C15
    layer = MultiHeadSelfAttention(
        6, num_heads=4, d_head=2, score=Additive, d_query=3, d_key=5, d_value=7, d_output=6
    )
    weights = [weight for name, weight in layer.named_parameters() if "_proj" in name]
    assert sum(map(torch.numel, weights)) == 4 * 6 * (3 + 5 + 2 * 7)
    with pytest.raises(ValueError, match="one width"):
        MultiHeadSelfAttention(6, num_heads=2, d_head=4, d_query=3, d_key=5)
