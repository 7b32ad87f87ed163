"""What a methods section says of a study, from what its results store."""

from typing import Any

from attnexp.analysis.answer import Answer
from attnexp.report.tables import PROTOCOLS


def describe_studies(answer: Answer) -> list[dict[str, Any]]:
    """Fields of each data set and protocol; none for results of other trainers."""
    studies = []
    for group in answer.groups:
        facts = list(group.facts.values())
        if facts:
            epochs = group.epochs.groupby(["variant", "seed"])["epoch"].max().unique()
            study = {"data": group.data, "fingerprint": facts[0]["fingerprint"]}
            for split in ("n_train", "n_val", "n_test"):
                study[split] = sorted({fact[split] for fact in facts})
            study |= {"protocol": group.protocol, "variants": group.variants}
            study["seeds"] = list(group.endpoints["seed"].unique())
            study["epochs"] = sorted(epochs.tolist())
            study["metrics"] = [metric.name for metric in answer.metrics]
            commands = [command for plan in group.studies for command in plan.commands]
            commands = commands or list(group.runs["command"].unique())
            studies.append(study | {"made_by": group.made_by, "commands": commands})
    return studies


def describe_in_words(study: dict[str, Any]) -> str:
    """The fields of a study as sentences."""
    sizes = [f"{_span(study[f'n_{split}'])} {split} texts" for split in ("train", "val", "test")]
    seeds = study["seeds"]
    listed = seeds if len(seeds) < 13 else [*seeds[:2], "...", seeds[-1]]
    sentences = [
        f"Data: {study['data']} (fingerprint {study['fingerprint']}), {', '.join(sizes)}.",
        f"Training: {', '.join(study['variants'])}, {_span(study['epochs'])} epochs, "
        f"{len(seeds)} seeds ({', '.join(listed)}), protocol {study['protocol']}"
        f"{PROTOCOLS[study['protocol']]}; judged by {', '.join(study['metrics'])}.",
    ]
    for made in study["made_by"]:
        about = {key: value or "unknown" for key, value in made.items()}
        text = "Software: attnexp {version} (commit {commit}), torch {torch}, Python {python}"
        places = [made[key] for key in ("processor", "device", "platform") if made[key]]
        sentences.append(", ".join([text.format(**about), *places]) + ".")
    return " ".join([*sentences, *(f"Command: {command}" for command in study["commands"])])


def _span(numbers: list[int]) -> str:
    """`25,000`, or `1,000 to 25,000`."""
    return " to ".join(f"{number:,}" for number in dict.fromkeys([numbers[0], numbers[-1]]))
