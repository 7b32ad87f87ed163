"""What is said of an answer: remarks below its tables, and what a methods section needs."""

from collections.abc import Iterator
from typing import Any

from attnexp.analysis.answer import Answer
from attnexp.report.tables import PROTOCOLS
from attnexp.statistics.verdict import UNDECIDED

MOST_LISTED = 12
SOFTWARE = "Software: attnexp {version} (commit {commit}), torch {torch}, Python {python}"


def list_remarks(answer: Answer) -> Iterator[str]:
    """What a reader of the tables must know, and what "A to B seeds" means."""
    yield from describe_comparisons(answer)
    words = [row.words for row in answer.differences if row.verdict == UNDECIDED]
    if any(text != UNDECIDED for text in words):
        yield (
            "A to B seeds: A are enough in four of five studies if the difference is as large as "
            "measured, B whatever it is."
        )


def describe_comparisons(answer: Answer) -> Iterator[str]:
    """Epochs of endpoints that differ between variants, of one group; how K's run agrees; notes."""
    if len(answer.groups) == 1:
        (group,) = answer.groups
        for point in group.points:
            epochs = group.epochs_of(point.name)
            if point.remark and epochs:
                listed = [f"{variant}: {epoch}" for variant, epoch in epochs.items()]
                yield f"{point.name}: {point.remark} ({', '.join(listed)})."
    for comparison in answer.comparisons:
        yield from map(str, comparison.agreements)
    yield from answer.notes


def describe_studies(answer: Answer) -> list[dict[str, Any]]:
    """Fields of each data set and protocol; none for results of other trainers."""
    studies = []
    for group in answer.groups:
        if not group.facts:
            continue
        facts = list(group.facts.values())
        last_epochs = group.epochs.groupby(["variant", "seed"])["epoch"].max()
        commands: list[str] = []
        for plan in group.studies:
            commands += plan.commands
        study = {
            "data": group.data,
            "fingerprint": facts[0]["fingerprint"],
            "n_train": sorted({fact["n_train"] for fact in facts}),
            "n_val": sorted({fact["n_val"] for fact in facts}),
            "n_test": sorted({fact["n_test"] for fact in facts}),
            "protocol": group.protocol,
            "variants": group.variants,
            "seeds": list(group.endpoints["seed"].unique()),
            "epochs": sorted(last_epochs.unique().tolist()),
            "metrics": [metric.name for metric in answer.metrics],
            "made_by": group.made_by,
            "commands": commands or list(group.runs["command"].unique()),
        }
        studies.append(study)
    return studies


def describe_in_words(study: dict[str, Any]) -> str:
    """The fields of a study as sentences."""
    protocol = study["protocol"]
    splits = ["train", "test"]
    if protocol != "blog":  # which validates on test
        splits.insert(1, "val")
    data = [f"{study['data']} (fingerprint {study['fingerprint']})"]
    for split in splits:
        size = _span(study[f"n_{split}"])
        data.append(f"{size} {split} texts")
    seeds = study["seeds"]
    num_seeds = len(seeds)
    if num_seeds > MOST_LISTED:
        seeds = [*seeds[:2], "...", seeds[-1]]
    rule = protocol + PROTOCOLS[protocol]
    metrics = ", ".join(study["metrics"])
    epochs = _span(study["epochs"])
    training = [
        *study["variants"],
        f"{epochs} epochs",
        f"{num_seeds} seeds ({', '.join(seeds)})",
        f"protocol {rule}; judged by {metrics}",
    ]
    sentences = [
        f"Data: {', '.join(data)}.",
        f"Training: {', '.join(training)}.",
    ]
    for made in study["made_by"]:
        software = {key: value or "unknown" for key, value in made.items()}
        machine = [made[key] for key in ("processor", "device", "platform") if made[key]]
        parts = [SOFTWARE.format(**software), *machine]
        sentences.append(", ".join(parts) + ".")
    sentences += [f"Command: {command}" for command in study["commands"]]
    return " ".join(sentences)


def _span(numbers: list[int]) -> str:
    """`25,000`, or `1,000 to 25,000`."""
    bounds = dict.fromkeys([numbers[0], numbers[-1]])
    return " to ".join(f"{number:,}" for number in bounds)
