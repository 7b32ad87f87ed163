"""The papers as Python loops, over combinations that pair every choice with every other, and what
else holds by construction (`attnexp claims`; C06, C17, C24 and C28 are in the loops): outputs and
gradients in float64, of the reference path and of the fast one, by vectors of single tokens.
"""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from conftest import Patch
from samples import redrawn
from torch import Tensor, nn

from attnexp.config.compose import compose
from attnexp.config.options import groups
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
    """The logit of a text, as one would explain it."""
    p, chosen, place = dict(model.named_parameters()), config.model, config.position
    if chosen.fills(NgramEmbedding):
        padded = [0] * (chosen.n - 1) + text
        ends = [ngram_row(padded[t : t + chosen.n], chosen.buckets) for t in range(len(text))]
        words, ngrams = p["embedding.word.weight"], p["embedding.ngram.weight"]
        x = [words[id] + ngrams[row] for id, row in zip(text, ends, strict=True)]
    else:
        x = [p["embedding.weight"][id] for id in text]
    if chosen.pooling.fills(SummaryToken):
        x, text = [p["cls"], *x], [1, *text]
    if chosen.scale_embedding:
        x = [x_t * math.sqrt(chosen.d_model) for x_t in x]
    places = list(range(len(text)))
    if place.kind and place.shuffled:
        ranked = sorted(places, key=lambda t: (scattered(text[t]), t))
        places = [ranked.index(t) for t in places]
    if place.fills(JoinedPosition):
        table = p.get("position.weight", sines(len(x), len(x[0]), getattr(place, "layout", "")))
        pairs = [(place.scale * table[t], x_t) for t, x_t in zip(places, x, strict=True)]
        x = [torch.cat(pair) if place.combine == "concat" else sum(pair) for pair in pairs]
    for mixer in model.mixers:
        is_conv = hasattr(mixer, "conv")
        x = convolution(mixer.conv, x) if is_conv else [*mixer.rnn(torch.stack(x)[None])[0][0]]
    for layer in model.layers:
        x = block(config, layer, x, text, places)
    y = pooled(chosen.pooling.name, x, text)
    if chosen.hidden:
        y = (p["output.0.weight"] @ y + p["output.0.bias"]).relu()
    last = "output.3" if chosen.hidden else "output"
    logit: Tensor = (p[f"{last}.weight"] @ y + p[f"{last}.bias"])[0]
    return logit


def ngram_row(ids: list[int], buckets: int) -> int:
    hashed = 0
    for id in ids:
        hashed = (hashed + id) * 0x2545F4914F6CDD1D % 2**64
        hashed ^= hashed >> 32
    return (hashed - 2**64 * (hashed >= 2**63)) % buckets  # as a number with a sign


def scattered(id: int) -> int:
    id += 1
    for _ in range(2):
        id = id * 0x7FEB352D % 2**32
        id ^= id >> 15
    return id


def sines(num_tokens: int, width: int, layout: str) -> Tensor:
    """The table, rounded to float32 (Vaswani et al. 2017, section 3.5): (T, D)."""
    table = []
    for t in range(num_tokens):
        angles = [t / 10_000 ** (2 * i / width) for i in range(width // 2)]
        row = [wave(angle) for angle in angles for wave in (math.sin, math.cos)]
        table.append([*row[1::2], *row[::2]] if layout == "split" else row)
    return torch.tensor(table).float().double()


def convolution(conv: Any, x: list[Tensor]) -> list[Tensor]:
    reach, y = conv.kernel_size[0] // 2, []
    for t in range(len(x)):
        seen = [s for s in range(t - reach, t + reach + 1) if 0 <= s < len(x)]
        y.append((conv.bias + sum(conv.weight[:, :, s - t + reach] @ x[s] for s in seen)).relu())
    return y


def block(config: Any, layer: Any, x: Any, text: Any, places: Any) -> list[Tensor]:
    """Vaswani et al. 2017, section 3.1, with LayerNorm after the sum, or before each part."""
    norm, ff = config.model.norm, layer.feed_forward
    for n in range(1 + bool(ff)):
        y = [normed(layer.norms[n], x_t) for x_t in x] if norm == "pre" else x
        if n == 0:
            y = attention(config, layer.attention, y, text, places)
            hides = [config.mask.query and id == 0 for id in text]
            y = [y_t * (not hidden) for y_t, hidden in zip(y, hides, strict=True)]
        else:
            y = [(ff.up.weight @ y_t + ff.up.bias).relu() for y_t in y]
            y = [ff.down.weight @ y_t + ff.down.bias for y_t in y]
        x = [one + other for one, other in zip(x, y, strict=True)] if config.model.residual else y
        x = [normed(layer.norms[n], x_t) for x_t in x] if norm == "post" else x
    return x  # type: ignore[no-any-return]


def normed(norm: Any, x: Any) -> Any:
    return (x - x.mean()) / (((x - x.mean()) ** 2).mean() + 1e-6).sqrt() * norm.weight + norm.bias


def attention(config: Any, layer: Any, x: Any, text: Any, places: Any) -> list[Tensor]:
    """Vaswani et al. 2017, section 3.2."""
    heads, tokens = list[list[Any]](), range(len(x))
    projections = layer.q_proj, layer.k_proj, layer.v_proj
    for h in range(layer.num_heads):
        weights = [one.weight.chunk(layer.num_heads)[h] for one in projections]
        q, k, v = ([weight @ x_t for x_t in x] for weight in weights)
        if config.position.fills(Rotation):
            layout = config.position.layout
            q, k = ([rotated(each[t], places[t], layout) for t in tokens] for each in (q, k))
        heads.append([])
        for i in tokens:
            scores = [
                match(config, layer, h, q[i], k[j], places[i], places[j]).exp() for j in tokens
            ]
            seen = [j for j in tokens if looks(config.mask, i, j, text)]
            total = sum(scores[j] for j in (seen if config.mask.mode == "add" else tokens))
            heads[h].append(sum((scores[j] / total * v[j] for j in seen), 0 * v[0]))
    y = [torch.cat(of_token) for of_token in zip(*heads, strict=True)]
    return [layer.out_proj.weight @ y_t for y_t in y] if config.model.output_projection else y


def looks(mask: Any, i: int, j: int, text: list[int]) -> bool:
    if mask.padding and text[j] == 0:
        return False
    return j <= i if mask.fills(Causal) else not mask.kind or abs(i - j) <= mask.radius


def rotated(x: Tensor, t: int, layout: str) -> Tensor:
    """Each pair of columns by its angle, rounded to float32 (Su et al. 2021, section 3.2.1)."""
    half, y = len(x) // 2, list(x)
    for i in range(half):
        one, other = (i, i + half) if layout == "split" else (2 * i, 2 * i + 1)
        angle = t / 10_000 ** (2 * i / len(x))
        cos, sin = torch.tensor([math.cos(angle), math.sin(angle)]).float().double()
        y[one], y[other] = x[one] * cos - x[other] * sin, x[one] * sin + x[other] * cos
    return torch.stack(y)


def match(config: Any, layer: Any, h: int, q: Tensor, k: Tensor, i: int, j: int) -> Tensor:
    """How well a query in place i matches a key in place j, with the bias of their distance."""
    score: Any = q @ k if len(q) == len(k) else None
    if config.model.score.fills(Additive):  # Bahdanau et al. 2015, A.1.2
        score = layer.score.value[h] @ (q @ layer.score.query[h] + k @ layer.score.key[h]).tanh()
    elif config.model.score.fills(Uniform):
        score = 0 * score
    elif config.model.score.scale:
        score = score / math.sqrt(len(k))
    if config.position.fills(RelativeBias):  # Shaw et al. 2018, section 3.2
        most = config.position.max_distance
        score = score + layer.bias.weight[h, most + max(-most, min(most, j - i))]
    if config.position.fills(AlibiBias):  # Press et al. 2022, section 3
        score = score - 2.0 ** (-8 * (h + 1) / layer.num_heads) * abs(j - i)
    return score  # type: ignore[no-any-return]


def pooled(name: str, x: list[Tensor], text: list[int]) -> Any:
    real = [x_t for x_t, id in zip(x, text, strict=True) if id != 0]
    if name in ("cls", "mean"):
        return x[0] if name == "cls" else torch.stack(x).mean(0)
    together = torch.stack(real or [0 * x[0]])
    return {"last": together[-1], "masked_mean": together.mean(0), "max": together.amax(0)}[name]


def gradients(logits: Tensor, model: nn.Module) -> dict[str, Tensor]:
    """Of a sum that weighs every logit differently, by name."""
    named = {name: one for name, one in model.named_parameters() if one.requires_grad}
    loss = (logits * torch.arange(1.0, len(logits) + 1)).sum()
    found = torch.autograd.grad(loss, [*named.values()], materialize_grads=True, allow_unused=True)
    return dict(zip(named, found, strict=True))


@pytest.mark.parametrize(
    ("group", "usual"), [("position", "none"), ("model.pooling", "mean"), ("model.score", "dot")]
)
def test_every_option_is_in_a_combination(group: str, usual: str) -> None:
    words = {*" ".join(COMBINATIONS).split(), f"{group}={usual}"}
    assert {f"{group}={option}" for option in groups()[group]} <= words


@pytest.mark.parametrize("words", COMBINATIONS)
def test_logits_and_gradients_are_those_of_the_loops(words: str, monkeypatch: Patch) -> None:
    """On the reference path and on the fast one. This shows the claims C03, C14 and C19, too."""
    config = compose([*SMALL, *words.split()])
    for module in (building, window):  # so that short texts have several blocks
        monkeypatch.setattr(module, "SMALLEST_BLOCK", 2)
    reference, fast = (redrawn(build_model(config)) for _ in range(2))
    assert take_fast_path(fast) == PATHS[words]
    logits = torch.stack([loops(config, reference, text) for text in texts().tolist()])
    expected = gradients(logits, reference)
    for model in (reference, fast):
        found = model(texts())
        torch.testing.assert_close(found, logits, rtol=1e-7, atol=1e-7)
        for name, gradient in gradients(found, model).items():
            assert torch.allclose(gradient, expected[name], rtol=1e-6, atol=1e-7), name


def test_heads_keep_the_length_and_choose_the_width() -> None:  # C01, C02
    q, k, v = torch.rand(2, 3, 2), torch.rand(2, 8, 2), torch.rand(2, 8, 10)
    weights = attention_weights(DotProduct(1, 2, 2, 2)(q, k))
    assert (weights @ v).shape == (2, 3, 10)
    torch.testing.assert_close(weights @ v, F.scaled_dot_product_attention(q, k, v))
    allowed = torch.arange(4) < torch.tensor([3, 2]).view(2, 1, 1, 1)
    for width in (100, 50):
        layer = MultiHeadSelfAttention(100, num_heads=5, d_head=width // 5)
        assert layer(torch.rand(2, 4, 100), allowed).shape == (2, 4, width)


def test_the_table_of_sines_is_the_formula() -> None:  # C05
    for layout in ("interleaved", "split"):
        table = sinusoidal_table(1000, 128, layout=layout)
        assert (table - sines(1000, 128, layout)).abs().max() <= 1e-7
    with pytest.raises(ValueError, match="even"):
        sinusoidal_table(9, 127)


def test_projections_have_the_weights_of_the_formulas() -> None:  # C13, C15
    widths: Any = {"d_query": 3, "d_key": 5, "d_value": 7, "d_output": 6}
    unequal = MultiHeadSelfAttention(6, num_heads=4, d_head=2, score=Additive, **widths)
    num_weights = {
        MultiHeadSelfAttention(6, num_heads=1, d_head=3, d_value=6): 6 * (2 * 3 + 6),
        unequal: 4 * 6 * (3 + 5 + 2 * 7),
        MultiHeadSelfAttention(512, num_heads=8, d_head=64, d_output=512): 4 * 8 * 512 * 64,
        MultiHeadSelfAttention(128, num_heads=8, d_head=16): 3 * 8 * 128 * 16,
    }
    for layer, formula in num_weights.items():
        projections = [weight for name, weight in layer.named_parameters() if "_proj" in name]
        assert sum(weight.numel() for weight in projections) == formula
    with pytest.raises(ValueError, match="one width"):
        MultiHeadSelfAttention(6, num_heads=2, d_head=4, d_query=3, d_key=5)
