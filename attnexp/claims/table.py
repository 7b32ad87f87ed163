"""The claims of the sources, and how they are chosen, checked and printed.

K: kexue.fm/archives/4765, M: mathpretty.com/15218.html; articles on the paper (N), on positional
encoding in PyTorch (P) and on scaled dot-product attention (D); own: this project.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from attnexp.base.errors import UserError
from attnexp.claims import attention, costs, masks, positions, shapes, studies, trials
from attnexp.claims.finding import Finding


class Claim(NamedTuple):
    """A statement of a source, with its check."""

    id: str
    source: str
    text: str
    check: Callable[..., Finding]
    """Takes the path of the study, if there is one."""
    study: str = ""
    by_construction: bool = False
    """Whether the claim defines a piece: shapes, counts, formulas. Its check tests our code and
    nothing else, and tests/model/test_oracle.py holds that code to plain loops."""


CLAIMS = [
    Claim(
        "C01",
        "D",
        "Q (2,3,2), K (2,8,2), V (2,8,10) give (2,3,10); Q, Q, Q (2,3,2)",
        shapes.output_has_length_of_queries_and_width_of_values,
        by_construction=True,
    ),
    Claim(
        "C02",
        "M",
        "Five heads keep (2,4,100) at lengths [3,2]; 50 hidden: (2,4,50)",
        shapes.heads_keep_the_length_and_choose_the_width,
        by_construction=True,
    ),
    Claim(
        "C03",
        "D",
        "Masked softmax takes lengths (B,) or (B,T); rows still sum to 1",
        masks.masked_keys_get_no_weight,
    ),
    Claim(
        "C04",
        "M, K",
        "Attention is permutation-equivariant without PE, not with it",
        positions.attention_without_positions_is_blind_to_order,
    ),
    Claim(
        "C05",
        "M, P, K",
        "PE is sin, cos of p/10000^(2i/d), in two forms, d even",
        positions.positions_are_sines_and_cosines,
        by_construction=True,
    ),
    Claim(
        "C06",
        "P",
        "Embeddings are scaled by √d before PE; a step has its own PE",
        positions.embeddings_are_scaled_before_positions_join,
        by_construction=True,
    ),
    Claim(
        "C07",
        "K",
        "Interleaved and split PE are equal up to a permutation",
        positions.layouts_differ_by_a_permutation,
    ),
    Claim(
        "C08",
        "M, K",
        "PE(p+δ) = R(δ)·PE(p), a rotation that does not depend on p",
        positions.shifts_are_rotations,
    ),
    Claim(
        "C09",
        "M",
        "Columns 6, 7 are faster than 8, 9, a quarter period apart",
        positions.later_columns_oscillate_slower,
    ),
    Claim(
        "C10",
        "K",
        "Learned and sinusoidal PE are close",
        studies.learned_positions_are_close_to_sinusoidal,
        "position",
    ),
    Claim(
        "C11",
        "K",
        "Adding and concatenating PE both work",
        studies.adding_and_concatenating_positions_both_work,
        "position",
    ),
    Claim(
        "C12",
        "N",
        "Var(q·k) = d_k, over √d_k 1; else softmax saturates, gradients shrink",
        attention.softmax_saturates_without_scaling,
    ),
    Claim(
        "C13",
        "N",
        "Parameters d(2d_q+d), hd(d_q+d_k+2d_v), 4hdd_q, K's 3hdd_q",
        shapes.parameters_follow_the_formulas,
        by_construction=True,
    ),
    Claim(
        "C14",
        "N",
        "Causal mask: no weight above the diagonal, no leak",
        masks.causal_mask_hides_later_tokens,
    ),
    Claim(
        "C15",
        "N",
        "Dot-product scores need d_q = d_k; additive ones do not",
        attention.additive_scores_take_unequal_widths,
        by_construction=True,
    ),
    Claim(
        "C16",
        "N",
        "Heads joined by W_O are a sum of low-rank maps W_up·W_down",
        attention.joined_heads_are_a_sum_of_low_rank_maps,
    ),
    Claim(
        "C17",
        "N",
        "The update is residual: E' = E + ΔE",
        attention.updates_are_residual,
        by_construction=True,
    ),
    Claim(
        "C18",
        "K",
        "All heads in one operation equal a loop over heads",
        costs.heads_at_once_equal_a_loop,
    ),
    Claim(
        "C19",
        "K, D",
        "Padding masked before softmax has no effect; `mul` loses weight",
        masks.padding_masked_before_softmax_has_no_effect,
    ),
    Claim(
        "C20",
        "K",
        "The published table of ten epochs is reproduced",
        studies.published_table_is_reproduced,
        "blog",
    ),
    Claim(
        "C21",
        "K",
        "Attention's best is slightly above an LSTM's",
        studies.attention_is_better_than_an_lstm,
        "baselines",
    ),
    Claim(
        "C22",
        "K",
        "PE raises accuracy and reduces over-fitting",
        studies.positions_raise_accuracy_and_reduce_over_fitting,
        "blog",
    ),
    Claim(
        "C23",
        "K",
        "QKV cost O(n), as a convolution; products O(n²); ±r O(n·r)",
        costs.projections_cost_n_and_products_n_squared,
    ),
    Claim(
        "C24",
        "K",
        "The feed-forward layer is a convolution of width 1",
        attention.feed_forward_is_a_convolution_of_width_one,
        by_construction=True,
    ),
    Claim(
        "C25",
        "K",
        "Attention is poor at tagging (here by neighbours); PE only eases it",
        trials.attention_is_poor_at_tagging,
    ),
    Claim(
        "C26",
        "K",
        "Attention gains from CNN or RNN and back",
        studies.attention_gains_from_cnn_and_rnn,
        "baselines",
    ),
    Claim(
        "C27",
        "K",
        "Attention reaches all tokens, an RNN back, L CNN layers ±L",
        costs.attention_reaches_all_tokens_in_one_layer,
    ),
    Claim(
        "C28",
        "M",
        "Self-attention layers stack: they keep the length",
        shapes.stacked_layers_keep_the_length,
        by_construction=True,
    ),
    Claim(
        "C29",
        "K",
        "Shown train accuracy is a running mean, at first too low",
        trials.running_accuracy_is_too_low_at_first,
    ),
    Claim(
        "C30",
        "own",
        "Shuffled words cost more than PE gives",
        studies.shuffled_words_cost_more_than_positions_give,
        "blog",
    ),
    Claim(
        "C31",
        "own",
        "Most heads can be removed, one at a time",
        studies.most_heads_can_be_removed,
        "blog",
    ),
    Claim(
        "C32",
        "own",
        "√d keeps PE from drowning words",
        studies.scaling_keeps_positions_from_drowning_words,
        "position_x_embedding",
    ),
]


def choose_claims(ids: Sequence[str], *, everything: bool) -> list[Claim]:
    """The claims of these ids; without ids all, or those that read no study."""
    if not ids:
        return [claim for claim in CLAIMS if everything or not claim.study]
    chosen_ids = {id.upper() for id in ids}
    known_ids = {claim.id for claim in CLAIMS}
    unknown_ids = chosen_ids - known_ids
    if unknown_ids:
        raise UserError(
            f"There is no claim {min(unknown_ids)}. They run from C01 to {max(known_ids)}."
        )
    return [claim for claim in CLAIMS if claim.id in chosen_ids]


def check_claim(claim: Claim, out: Path) -> dict[str, Any]:
    """Record of a claim and its finding; torch's random state stays. out: folder of studies."""
    try:
        with torch.random.fork_rng(devices=[]):
            finding = claim.check(out / claim.study) if claim.study else claim.check()
    except UserError as error:
        command = f"attnexp sweep study={claim.study} out=DIR"
        message = f"{error} Make them: {command}, then use --out DIR."
        finding = Finding("missing runs", message)
    if claim.by_construction and finding.verdict == "holds":
        finding = finding._replace(verdict="holds by construction")
    about = {"id": claim.id, "source": claim.source, "claim": claim.text}
    return {**about, **finding._asdict()}
