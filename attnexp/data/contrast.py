"""The embedded corpus: generated reviews whose label depends on word order.

"the cast was superb but the plot was dreadful" is negative and its mirror, with the two adjectives
exchanged, positive: the clause after *but* decides. A review and its mirror have one bag of words
and opposite labels, and both stand in the same split, so a model that is blind to order gets
exactly one of the two right. The other reviews praise or blame twice, and a bag of words tells
them apart. Hence the ceiling of an order-blind model: 1 - order_fraction / 2.

This is the positive control: a tool that found no effect of positional encoding here could not be
trusted when it finds none elsewhere.
"""

from random import Random

import numpy as np

from attnexp.data.corpus import Corpus

NUM_TRAIN, NUM_TEST = 4000, 2000

ASPECTS = """acting cast camerawork dialogue direction editing ending humour lighting music pacing
plot romance scenery score script soundtrack story suspense villain""".split()
PRAISE = """superb brilliant charming clever delightful excellent gripping hilarious lovely moving
powerful splendid stunning touching wonderful""".split()
BLAME = """dreadful awful boring clumsy dull feeble forgettable horrible lame painful pathetic
stale tedious terrible weak""".split()
OPENINGS = """|well|honestly|to be fair|i have to say|in this film|as far as i can tell
|when i saw it last night|my friends told me that""".replace("\n", "").split("|")
CLOSINGS = """|overall|all in all|in my opinion|if you ask me|for what it is worth
|and that is that|or so it seemed to me""".replace("\n", "").split("|")


def order_blind_ceiling(order_fraction: float) -> float:
    """The accuracy that no model of bags of words can pass on this corpus."""
    return 1 - order_fraction / 2


def generate(order_fraction: float) -> Corpus:
    """The corpus, the same in every run; no review of test stands in train."""
    import pandas as pd

    random = Random(0)
    seen: set[tuple[str, ...]] = set()
    train = _reviews(NUM_TRAIN, order_fraction, random, seen)
    test = _reviews(NUM_TEST, order_fraction, random, seen)
    rows = pd.DataFrame(
        {"split": ["train"] * NUM_TRAIN + ["test"] * NUM_TEST, "text": train + test}
    )
    return Corpus(rows=rows.assign(label=np.arange(len(rows), dtype=np.int64).astype(np.int8) % 2))


def _reviews(
    size: int, order_fraction: float, random: Random, seen: set[tuple[str, ...]]
) -> list[str]:
    """Reviews in pairs, the negative one first."""
    num_with_order = 2 * round(size // 2 * order_fraction)
    texts: list[str] = []
    while len(texts) < size:
        depends_on_order = len(texts) < num_with_order
        first, second = random.sample(ASPECTS, 2)
        opening, closing = random.choice(OPENINGS), random.choice(CLOSINGS)
        praise, blame = random.sample(PRAISE, 2), random.sample(BLAME, 2)
        key = (first, second, opening, closing, praise[0], blame[0])
        if key in seen:
            continue
        seen.add(key)
        if depends_on_order:
            joint, adjectives = "but", [(praise[0], blame[0]), (blame[0], praise[0])]
        else:
            joint, adjectives = "and", [(blame[0], blame[1]), (praise[0], praise[1])]
        for one, other in adjectives:
            clauses = f"the {first} was {one} {joint} the {second} was {other}"
            texts.append(f"{opening} {clauses} {closing}".strip())
    return texts
