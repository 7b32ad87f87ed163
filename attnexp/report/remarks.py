"""Remarks below the tables of an answer."""

from collections.abc import Iterator, Sequence

from attnexp.analysis.answer import Answer
from attnexp.analysis.contrasts import Difference
from attnexp.report.methods import describe_settings, shared_settings
from attnexp.runs.labels import as_word
from attnexp.statistics.verdict import UNDECIDED

ABSENT = ("=null", "=none", "=false", "=0", "=0.0")  # A setting that ends so names no part.


def list_remarks(answer: Answer, rows: Sequence[Difference]) -> list[str]:
    """What a reader of the tables must know. rows: the differences that are shown."""
    remarks = list(describe_comparisons(answer))
    if any(row.words.startswith(f"{UNDECIDED}, needs") for row in rows):
        remarks.append(
            "Needs A to B, A or more, or at most B seeds: A are enough in four of five studies if "
            "the difference is as large as measured, B whatever it is."
        )
    shared = shared_settings(answer.groups).items()
    present = dict(setting for setting in shared if not as_word(*setting).endswith(ABSENT))
    if present:
        remarks.append(f"All variants: {describe_settings(present)}.")
    return list(dict.fromkeys(remarks))


def describe_comparisons(answer: Answer) -> Iterator[str]:
    """Sentences: of a single group, the epochs of its endpoints; how K's run agrees; notes."""
    if len(answer.groups) == 1:
        rows = answer.at_endpoints.drop_duplicates(["variant", "point"])
        for endpoint in answer.groups[0].endpoints:
            if endpoint.remark:
                at_endpoint = rows[rows["point"] == endpoint.name]
                epochs = [f"{row.variant}: {row.epoch:.0f}" for row in at_endpoint.itertuples()]
                yield f"{endpoint.name}: {endpoint.remark} ({', '.join(epochs)})."
    for comparison in answer.comparisons:
        yield from map(str, comparison.agreements)
    yield from answer.notes
