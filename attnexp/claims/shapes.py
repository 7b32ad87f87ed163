"""Claims about shapes and numbers of parameters."""

import torch
import torch.nn.functional as F
from torch import nn

from attnexp.claims.finding import Finding, definition, judge_equality
from attnexp.claims.samples import draw_normal, random_attention
from attnexp.model.scores import Additive, DotProduct, attention_weights


@definition("C01", "D", "Q (2,3,2), K (2,8,2), V (2,8,10) give (2,3,10); Q, Q, Q (2,3,2)")
def output_has_length_of_queries_and_width_of_values() -> Finding:
    """Shapes and values as torch's own function gives them."""
    q = draw_normal(2, 3, 2)
    k = draw_normal(2, 8, 2, seed=1)
    v = draw_normal(2, 8, 10, seed=2)
    score = DotProduct(1, 2, 2, 2)
    cross = attention_weights(score(q, k)) @ v
    to_itself = attention_weights(score(q, q)) @ q
    return judge_equality(
        (cross, F.scaled_dot_product_attention(q, k, v)),
        (to_itself, F.scaled_dot_product_attention(q, q, q)),
        shown=str([*cross.shape]),
    )


@definition("C02", "M", "Five heads keep (2,4,100) at lengths [3,2]; 50 hidden: (2,4,50)")
def heads_keep_the_length_and_choose_the_width() -> Finding:
    """Shapes of the outputs; the mask of lengths is C03's."""
    x = draw_normal(2, 4, 100)
    lengths = torch.tensor([3, 2]).view(2, 1, 1, 1)
    real = torch.arange(4) < lengths
    shapes = []
    for width in (100, 50):
        layer = random_attention(100, 5, width // 5, d_output=width)
        shapes.append([*layer(x, real).shape])
    claimed = torch.tensor([[2, 4, 100], [2, 4, 50]])
    return judge_equality((torch.tensor(shapes), claimed), shown=str(shapes))


@definition("C13", "N", "Parameters d(2d_q+d), hd(d_q+d_k+2d_v), 4hdd_q, K's 3hdd_q")
def parameters_follow_the_formulas() -> Finding:
    """Numbers in the projections, without the hidden layer of an additive score."""
    one_head = random_attention(6, 1, 3, d_value=6)
    many_heads = random_attention(
        6, 4, 2, d_query=3, d_key=5, d_value=7, d_output=6, score=Additive
    )
    of_paper = random_attention(512, 8, 64, d_output=512)
    of_k = random_attention(128, 8, 16)
    counts = [0, 0, 0, 0]
    for place, layer in enumerate((one_head, many_heads, of_paper, of_k)):
        for name, weight in layer.named_parameters():
            if "_proj" in name:
                counts[place] += weight.numel()
    formulas = [6 * (2 * 3 + 6), 4 * 6 * (3 + 5 + 2 * 7), 4 * 8 * 512 * 64, 3 * 8 * 128 * 16]
    return judge_equality((torch.tensor(counts), torch.tensor(formulas)), shown=str(counts))


@definition("C28", "M", "Self-attention layers stack: they keep the length")
def stacked_layers_keep_the_length() -> Finding:
    """Six layers on texts of four lengths."""
    layers = nn.Sequential(*(random_attention() for _ in range(6)))
    lengths = [1, 2, 7, 80]
    lengths_after = []
    for num_tokens in lengths:
        y = layers(draw_normal(1, num_tokens, 8))
        lengths_after.append(y.shape[1])
    pair = (torch.tensor(lengths_after), torch.tensor(lengths))
    return judge_equality(pair, shown=str(lengths_after))
