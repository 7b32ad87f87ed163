"""The baseline to beat: TF-IDF and logistic regression, which ignore the order of words.

It reads the same ids as the models, so the same words and the same `max_len` tokens of a text. It
has one optimum, and no seed. Shapes: n texts, B batch, T tokens, V vocabulary, C classes."""

import numpy as np
import torch
from torch import Tensor, nn

from attnexp.base.errors import UserError, require
from attnexp.data.text import START
from attnexp.model.seams import Baseline


class TfidfModel(Baseline):
    """The logits of a text are its TF-IDF vector, of length 1, times `coef`, plus `intercept`."""

    idf: Tensor

    def __init__(self, vocab_size: int, num_classes: int = 2) -> None:
        """Knows no word before `fit`. idf: (V,), ln((1 + n) / (1 + texts with the word)) + 1; 0 for
        a word that no training text has, and for padding and the start of a text, which are no
        words. It is counted; coef, (V,) or (V, C), and intercept, (1,) or (C,), are learned."""
        super().__init__()
        self.num_classes = num_classes
        zeros = torch.zeros(vocab_size, dtype=torch.float64)
        self.register_buffer("idf", zeros)
        columns = [num_classes] if num_classes > 2 else []
        self.coef = nn.Parameter(zeros.new_zeros(vocab_size, *columns))
        self.intercept = nn.Parameter(zeros.new_zeros(columns or 1))

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B,) or (B, C). One without words of the training texts gets `intercept`."""
        vocab_size = len(self.idf)
        ids, _ = ids.long().sort()  # Sums come out the same in every order of the words.
        x = self.idf[ids]
        counts = x.new_zeros(len(ids), vocab_size)
        counts.scatter_add_(1, ids, torch.ones_like(x))
        length = (counts * self.idf).norm(dim=1, keepdim=True)
        coef = self.coef.reshape(vocab_size, -1)  # (V, 1) or (V, C)
        product = torch.einsum("bt,btc->bc", x, coef[ids])
        logits: Tensor = product / length.clamp(min=1) + self.intercept  # Other lengths are >= 1.
        return logits.squeeze(-1)

    def fit(self, ids: Tensor, labels: Tensor) -> None:
        """Fit as scikit-learn does. Raises `UserError` without it, or for a class without texts."""
        from scipy.sparse import coo_array

        needs = "The TF-IDF baseline", "baseline"
        feature_extraction = require("sklearn.feature_extraction.text", *needs)
        linear_model = require("sklearn.linear_model", *needs)
        if len(labels.unique()) < self.num_classes:
            raise UserError(
                f"The TF-IDF baseline needs training texts of all {self.num_classes} classes. Try "
                f"another seed, more texts or a smaller train.holdout."
            )
        texts = ids.cpu().numpy()
        row, column = np.nonzero(texts > START)  # Padding and the start of a text are no words.
        word = texts[row, column]
        shape = len(texts), len(self.idf)
        counts = coo_array((np.ones(len(row)), (row, word)), shape=shape).tocsr()
        transformer = feature_extraction.TfidfTransformer()
        vectors = transformer.fit_transform(counts)
        regression = linear_model.LogisticRegression(max_iter=10_000)  # IMDB takes about 30.
        regression.fit(vectors, labels.cpu().numpy())
        # A word never seen, cut off in every training text, must not lengthen a text's vector.
        idf = np.where(counts.sum(axis=0) > 0, transformer.idf_, 0.0)
        learned = {
            "idf": torch.from_numpy(idf),
            "coef": torch.from_numpy(regression.coef_.T).reshape(self.coef.shape),
            "intercept": torch.from_numpy(regression.intercept_),
        }
        self.load_state_dict(learned)
