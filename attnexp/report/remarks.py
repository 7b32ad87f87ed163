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
            "A to B seeds: A are enough in four of five studies if the difference is as large as "
            "measured, B whatever it is."
        )
    shared = shared_settings(answer.groups).items()
    present = {key: value for key, value in shared if not as_word(key, value).endswith(ABSENT)}
    if present:
        remarks.append(f"All variants: {describe_settings(present)}.")
    return list(dict.fromkeys(remarks))


def describe_comparisons(answer: Answer) -> Iterator[str]:
    """The epochs of each endpoint that has a remark, of one group; how K's run agrees; notes."""
    if len(answer.groups) == 1:
        rows = answer.at_endpoints.drop_duplicates(["variant", "point"])
        for point in answer.groups[0].endpoints:
            if point.remark:
                at_point = rows[rows["point"] == point.name]
                epochs = [f"{row.variant}: {row.epoch:.0f}" for row in at_point.itertuples()]
                yield f"{point.name}: {point.remark} ({', '.join(epochs)})."
    for comparison in answer.comparisons:
        yield from map(str, comparison.agreements)
    yield from answer.notes
