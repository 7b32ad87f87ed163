"""A layer and its pooling in one, and the pooled model by hand, from words to texts and back.

Take a layer that is attention alone, and a linear pooling, which gives query i of a text the share
s_i (1/T in K's model). With P = softmax(q kᵀ) of a head and W its value matrix, the head's part is

    y = Σ_i s_i Σ_j P_ij W x_j = W z,  where z = Σ_j a_j x_j and a = Pᵀ s.

So values are never made (`pool_layer`). By hand, `pool_words` saves three things besides:

1. A text's tokens are words of the batch plus rows of a table of positions, x_j = e_w + p_j. Their
   queries and keys are sums, too: each different word (about 880 of 2,560 tokens) and each position
   is projected once.
2. The maps of one head, (B, T, T), are made, summed into a and dropped, and made anew for the
   gradient: they stay in the processor's cache, which those of all heads do not.
3. The gradient of the maps is never written. With dz = Wᵀ dy it is s_i g_j, where g_j = dz · x_j,
   and softmax turns it into that of the scores, dS_ij = s_i P_ij (g_j − r_i) with r = P g.

Sums run in another order, so results agree to some 1e-7 of the largest, in float64 to 1e-14.
Shapes: B batch, T tokens, U different words of the batch, D model width, H heads; Dh width of a
head's queries and keys, Dv of its values."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def pool_layer(
    block: Any, pool: Any, x: Tensor, padding: Tensor, allowed: Tensor | None, positions: Tensor
) -> Tensor:
    """`pool(block(x))`, for a block that is attention alone and a pooling that weighs positions by
    padding: (B, T, D) -> (B, H Dv), or W_O's width."""
    attention = block.attention
    shares = shares_of(block, pool, padding, x.dtype)
    maps = attention.dropout(attention.weights(x, allowed, positions))  # (B, H, T, T)
    share_of_query = shares[:, None, None, :]
    seen = (share_of_query @ maps).squeeze(-2)  # a, (B, H, T)
    z = seen @ x  # (B, H, D)
    value = attention.v_proj.weight.unflatten(0, (attention.num_heads, -1))  # (H, Dv, D)
    y = torch.einsum("bhd,hvd->bhv", z, value)
    pooled: Tensor = attention.out_proj(y.flatten(-2).contiguous())
    return pooled


def shares_of(block: Any, pool: Any, padding: Tensor, dtype: torch.dtype) -> Tensor:
    """How much a linear pooling counts each query, (B, T): what it makes of the unit vectors."""
    units = torch.eye(padding.shape[-1], device=padding.device, dtype=dtype)
    units_of_texts = units.expand(len(padding), -1, -1)
    shares: Tensor = pool(units_of_texts, padding)
    if block.hide_padded_queries:
        shares = shares.masked_fill(padding, 0.0)
    return shares


def pool_words(model: Any, ids: Tensor, padding: Tensor) -> Tensor:
    """Pooled output of a one-layer model: ids, padding (B, T) -> (B, H Dv), or W_O's width."""
    words, token_rows = torch.unique(ids.long(), return_inverse=True)  # (U,), (B, T)
    rows = model.embedding(words)  # asked once a batch, as `SparseAdam` needs
    if model.scale_embedding:
        rows = rows * rows.shape[-1] ** 0.5
    table = None
    if model.position is not None:
        table = model.position.table_rows()[: ids.shape[-1]]
    block = model.layers[0]
    attention = block.attention
    query = attention.q_proj.weight * attention.score.scale
    weight = torch.cat([query, attention.k_proj.weight])
    value = attention.v_proj.weight.unflatten(0, (attention.num_heads, -1))
    shares = shares_of(block, model.pool, padding, rows.dtype)
    allowed = model.allowed_keys(padding)
    hidden = None if allowed is None else ~allowed[:, 0]
    apply: Any = PooledAttention.apply
    y = apply(rows, table, weight, value, token_rows, shares, hidden)
    pooled: Tensor = attention.out_proj(y)
    return pooled


class PooledAttention(torch.autograd.Function):
    """Pooled outputs of all heads side by side, (B, H Dv); see the module for the formulas."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,  # (U, D), vectors of the words
        table: Tensor | None,  # (T, D), added to every text
        weight: Tensor,  # (2 H Dh, D), of the queries of all heads, then of the keys
        value: Tensor,  # (H, Dv, D)
        token_rows: Tensor,  # (B, T), the row of each token
        shares: Tensor,  # (B, T)
        hidden: Tensor | None,  # (B or 1, T or 1, T), True where a query may not look
    ) -> Tensor:
        """Pool by the maps of one head at a time."""
        num_heads = len(value)
        projected_words = rows @ weight.T  # each word once
        projected = F.embedding(token_rows, projected_words)  # (B, T, 2 H Dh)
        x = F.embedding(token_rows, rows)
        if table is not None:
            projected += table @ weight.T
            x += table
        projected = projected.unflatten(2, (2, num_heads, -1))  # (B, T, 2, H, Dh)
        seen = x.new_empty(num_heads, *shares.shape)  # a
        scores, maps = x.new_empty(2, *shares.shape, shares.shape[1])  # of one head at a time
        for head in range(num_heads):
            make_maps(projected, head, hidden, scores, maps)
            torch.bmm(shares.unsqueeze(1), maps, out=seen[head].unsqueeze(1))
        seen = seen.transpose(0, 1).contiguous()  # (B, H, T)
        z = (seen @ x).transpose(0, 1)  # (H, B, D)
        inputs = rows, table, weight, value, token_rows, shares, hidden
        ctx.save_for_backward(*inputs, x, projected, seen, z)
        ctx.buffers = scores, maps
        y = (z @ value.mT).transpose(0, 1)  # (B, H, Dv)
        return y.flatten(1).contiguous()  # since dropout draws in the order of memory

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Gradients of rows, table, weight and value. `dx` is that of x, and so on."""
        saved = ctx.saved_tensors
        rows, table, weight, value, token_rows, shares, hidden = saved[:7]
        x, projected, seen, z = saved[7:]
        scores, maps = ctx.buffers
        num_heads = len(value)
        dy = grad.unflatten(1, (num_heads, -1)).transpose(0, 1)  # (H, B, Dv)
        dz = (dy @ value).transpose(0, 1)  # (B, H, D)
        g = (dz @ x.mT).transpose(0, 1).contiguous()  # (H, B, T)
        dprojected = torch.empty_like(projected)
        for head in range(num_heads):
            q, k = make_maps(projected, head, hidden, scores, maps)
            g_of_head = g[head]
            r = torch.bmm(maps, g_of_head[..., None])  # (B, T, 1)
            dscores = torch.sub(g_of_head[:, None], r, out=scores)  # The scores have become maps.
            dscores.mul_(maps)
            dscores.mul_(shares[..., None])
            dprojected[:, :, 0, head] = torch.bmm(dscores, k)
            dprojected[:, :, 1, head] = torch.bmm(dscores.mT, q)
        dprojected = dprojected.flatten(2)  # (B, T, 2 H Dh)
        dx = seen.mT @ dz  # through the values alone: (B, T, D)
        dwords, drows = sum_by_word(token_rows, len(rows), dprojected, dx)
        dweight = dwords.T @ rows
        drows.addmm_(dwords, weight)
        dtable = None
        if table is not None:
            dpositions = dprojected.sum(0)  # (T, 2 H Dh)
            dweight.addmm_(dpositions.T, table)
            dtable = torch.addmm(dx.sum(0), dpositions, weight)
        dvalue = dy.mT @ z
        return drows, dtable, dweight, dvalue, None, None, None


def make_maps(
    projected: Tensor, head: int, hidden: Tensor | None, scores: Tensor, maps: Tensor
) -> tuple[Tensor, Tensor]:
    """Fill scores and maps, (B, T, T), of a head, as `attention_weights`; return its q and k."""
    q = projected[:, :, 0, head].contiguous()
    k = projected[:, :, 1, head].contiguous()
    torch.bmm(q, k.mT, out=scores)
    if hidden is not None:
        scores.masked_fill_(hidden, torch.finfo(scores.dtype).min)
    torch.softmax(scores, dim=-1, out=maps)
    if hidden is not None:
        maps.masked_fill_(hidden, 0.0)
    return q, k


def sum_by_word(token_rows: Tensor, num_words: int, *by_token: Tensor) -> list[Tensor]:
    """Sums over the tokens of each word, of one or more (B, T, D): (U, D) each."""
    sorted_rows, order = token_rows.flatten().sort()
    words = torch.arange(num_words)
    starts = torch.searchsorted(sorted_rows, words)
    # Bags of tokens, sorted by word: twice as fast as index_add.
    tokens = [x.flatten(0, 1) for x in by_token]
    return [F.embedding_bag(order, x, starts, mode="sum") for x in tokens]
