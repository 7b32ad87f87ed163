"""What a methods section says of a study, from what its results store."""

from typing import Any

from attnexp.analysis.answer import Answer
from attnexp.analysis.group import Group
from attnexp.report.tables import PROTOCOLS

MOST_LISTED = 12
SOFTWARE = "Software: attnexp {version} (commit {commit}), torch {torch}, Python {python}"


def describe_studies(answer: Answer) -> list[dict[str, Any]]:
    """Fields of each data set and protocol; none for results of other trainers."""
    return [_describe_group(group, answer) for group in answer.groups if group.facts]


def _describe_group(group: Group, answer: Answer) -> dict[str, Any]:
    facts = list(group.facts.values())
    last_epochs = group.epochs.groupby(["variant", "seed"])["epoch"].max()
    commands = []
    for plan in group.studies:
        commands += plan.commands
    return {
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


def describe_in_words(study: dict[str, Any]) -> str:
    """The fields of a study as sentences."""
    splits = ["train", "test"]
    if study["protocol"] != "blog":  # which validates on test
        splits.insert(1, "val")
    sizes = ", ".join(f"{_span(study[f'n_{split}'])} {split} texts" for split in splits)
    seeds = study["seeds"]
    listed = seeds if len(seeds) <= MOST_LISTED else [*seeds[:2], "...", seeds[-1]]
    variants = ", ".join(study["variants"])
    protocol = study["protocol"] + PROTOCOLS[study["protocol"]]
    sentences = [
        f"Data: {study['data']} (fingerprint {study['fingerprint']}), {sizes}.",
        f"Training: {variants}, {_span(study['epochs'])} epochs, {len(seeds)} seeds "
        f"({', '.join(listed)}), protocol {protocol}; judged by {', '.join(study['metrics'])}.",
    ]
    for made in study["made_by"]:
        known = {key: value or "unknown" for key, value in made.items()}
        software = SOFTWARE.format(**known)
        machine = [made[key] for key in ("processor", "device", "platform") if made[key]]
        sentences.append(", ".join([software, *machine]) + ".")
    for command in study["commands"]:
        sentences.append(f"Command: {command}")
    return " ".join(sentences)


def _span(numbers: list[int]) -> str:
    """`25,000`, or `1,000 to 25,000`."""
    if len(numbers) == 1:
        return f"{numbers[0]:,}"
    return f"{numbers[0]:,} to {numbers[-1]:,}"
