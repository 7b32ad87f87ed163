"""The embedded corpus: generated reviews whose label depends on word order.

"the cast was superb but the plot was dreadful" is negative and its mirror, with the two adjectives
exchanged, positive: the clause after *but* decides. A review and its mirror have one bag of words,
opposite labels and the same split, so a model that takes no account of order gets exactly one of
the two right. Other reviews praise or blame twice, and a bag of words tells them apart. This is the
positive control: a tool that finds no effect of position here is not to be trusted elsewhere."""

from random import Random

import pandas as pd  # noqa: TID253 - this module is imported where data are read

NUM_TRAIN = 4000
NUM_TEST = 2000

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


def generate_rows(order_fraction: float) -> pd.DataFrame:
    """Rows of the corpus, the same in every run: reviews in pairs, the negative one first, of which
    `order_fraction` depend on order. Two keys could share a review; a test checks that none do."""
    random = Random(0)
    seen = set()
    rows = []
    for split, size in (("train", NUM_TRAIN), ("test", NUM_TEST)):
        num_with_order = 2 * round(size // 2 * order_fraction)
        num_rows = 0
        while num_rows < size:
            first, second = random.sample(ASPECTS, 2)
            opening = random.choice(OPENINGS)
            closing = random.choice(CLOSINGS)
            good, better = random.sample(PRAISE, 2)
            bad, worse = random.sample(BLAME, 2)
            key = (first, second, opening, closing, good, bad)
            if key in seen:
                continue
            seen.add(key)
            # Adjectives of the negative review, then of the positive one.
            if num_rows < num_with_order:
                joint = "but"
                adjectives = [(good, bad), (bad, good)]
            else:
                joint = "and"
                adjectives = [(bad, worse), (good, better)]
            for label, (adjective, last) in enumerate(adjectives):
                clauses = f"the {first} was {adjective} {joint} the {second} was {last}"
                text = f"{opening} {clauses} {closing}".strip()
                rows.append((split, text, label))
            num_rows += 2
    return pd.DataFrame(rows, columns=["split", "text", "label"])
