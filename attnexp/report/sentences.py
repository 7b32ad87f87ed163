"""What is said of an answer: remarks below its tables, and what a methods section needs."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attnexp
from attnexp.analysis.answer import Answer, Comparison
from attnexp.analysis.contrasts import Difference
from attnexp.analysis.group import Group
from attnexp.base.errors import UserError
from attnexp.config.schema import ADAM_BETAS, foreign_code
from attnexp.report.cells import format_span
from attnexp.report.tables import PROTOCOLS
from attnexp.runs.labels import as_word
from attnexp.statistics.defaults import ALPHA
from attnexp.statistics.verdict import UNDECIDED, MetricSpec

PACKAGE = Path(attnexp.__file__).parent
COUNTED = ("data/", "model/", "network/", "training/")  # folders of attnexp that runs list
ABSENT = ("=null", "=none", "=false", "=0", "=0.0")
"""Ends of settings that say that a part is not there; a remark leaves them out."""


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


def shared_settings(groups: Iterable[Group]) -> dict[str, Any]:
    """The settings that all variants of these groups share, by key."""
    variants = [setup.settings.items() for group in groups for setup in group.setups.values()]
    first: Iterable[tuple[str, Any]] = variants[0] if variants else ()
    return dict(item for item in first if all(item in items for items in variants))


def describe_settings(shared: dict[str, Any]) -> str:
    """Settings by section of the config: `data max_len=80 ...; model attention d_model=128 ...;
    train blog epochs=5 ...`."""
    sections: dict[str, list[str]] = {}
    for key, value in shared.items():
        section = key.partition(".")[0]
        # `max_len=80` of `data.max_len=80`, `sinusoidal` of `position=sinusoidal`
        setting = as_word(key, value)[len(section) + 1 :]
        sections.setdefault(section, [section]).append(setting)
    return "; ".join(" ".join(words) for words in sections.values())


def describe_variants(group: Group) -> dict[str, str]:
    """The settings of each variant that not all variants of its group share."""
    shared = shared_settings([group])
    words = {}
    for variant, setup in group.setups.items():
        own = {key: value for key, value in setup.settings.items() if key not in shared}
        words[variant] = ", ".join(map(as_word, own, own.values()))
    return words


def describe_comparisons(answer: Answer) -> Iterator[str]:
    """The epochs of each endpoint that has a remark, of one group; how K's run agrees; notes."""
    if len(answer.groups) == 1:
        rows = answer.endpoints.drop_duplicates(["variant", "point"])
        for point in answer.groups[0].points:
            if point.remark:
                at_point = rows[rows["point"] == point.name].itertuples()
                listed = [f"{row.variant}: {row.epoch:.0f}" for row in at_point]
                yield f"{point.name}: {point.remark} ({', '.join(listed)})."
    for comparison in answer.comparisons:
        yield from map(str, comparison.agreements)
    yield from answer.notes


def describe_studies(answer: Answer) -> list[dict[str, Any]]:
    """`describe_study` of each data set and protocol. Raises `UserError` for other trainers'."""
    made_here = [row for row in answer.comparisons if row.group.setups]
    if not made_here:
        raise UserError("--table study takes results of attnexp, which say how they were made.")
    return [describe_study(comparison, answer.metric) for comparison in made_here]


def describe_study(comparison: Comparison, metric: MetricSpec) -> dict[str, Any]:
    """What a methods section says of one data set and protocol, by field; many fields are lists."""
    group = comparison.group
    facts = [setup.facts for setup in group.setups.values()]
    sizes = {}
    for key in ("n_train", "n_val", "n_test"):
        sizes[key] = sorted({fact[key] for fact in facts})
    last_epochs = group.epochs.groupby(["variant", "seed"])["epoch"].max()
    commands = [command for plan in group.studies for command in plan.commands]
    unit = " points" if metric.is_share else ""
    return {
        "data": group.data,
        "fingerprint": facts[0]["fingerprint"],
        **sizes,
        "protocol": group.protocol,
        "variants": group.variants,
        "shared": shared_settings([group]),
        "parameters": {name: setup.facts.get("parameters") for name, setup in group.setups.items()},
        "seeds": list(group.endpoints["seed"].unique()),
        "epochs": sorted(last_epochs.unique().tolist()),
        "metrics": [metric.name],
        "margins": [f"±{metric.margin_text}{unit}"],
        "code": _list_own_code(group),
        "alpha": ALPHA,
        "m": max((row.m for row in comparison.differences), default=0),
        "sequential": any(row.sequential for row in comparison.differences),
        "made_by": group.made_by,
        "commands": commands or list(group.runs["command"].unique()),
    }


def _list_own_code(group: Group) -> dict[str, str]:
    """Digests of the Python files that variants have read beside attnexp's own, by name."""
    own = {}
    for setup in group.setups.values():
        code = setup.code if foreign_code(setup.config) else {}
        for file, digest in code.items():
            if not (file.startswith(COUNTED) and (PACKAGE / file).is_file()):
                own[file] = digest
    return own


def describe_in_words(study: dict[str, Any]) -> list[str]:
    """The fields of a study as sentences."""
    protocol = study["protocol"]
    data = [f"{study['data']} (fingerprint {study['fingerprint']})"]
    splits = ("train", "test") if protocol == "blog" else ("train", "val", "test")
    for split in splits:
        data.append(f"{format_span(study[f'n_{split}'])} {split} texts")
    training = [
        *study["variants"],
        f"{format_span(study['epochs'])} epochs",
        f"{len(study['seeds'])} seeds ({', '.join(study['seeds'])})",
        f"protocol {protocol}{PROTOCOLS[protocol]}",
    ]
    shared = describe_settings(study["shared"])
    if "train.optimizer" in study["shared"]:
        shared += f"; betas of Adam {ADAM_BETAS}"
    sentences = [
        f"Data: {', '.join(data)}.",
        f"Training: {', '.join(training)}.",
        f"All variants: {shared}.",
        _describe_judgement(study),
    ]
    parameters = study["parameters"].items()
    numbers = [f"{variant} {number:,}" for variant, number in parameters if number]
    if numbers:
        sentences.append(f"Parameters: {', '.join(numbers)}.")
    if study["code"]:
        files = [f"{file} {digest[:12]}" for file, digest in study["code"].items()]
        sentences.append(f"Own code (digests): {', '.join(files)}.")
    for made in study["made_by"]:
        parts = [f"{key} {value}" for key, value in made.items() if value]
        sentences.append(f"Software: attnexp {', '.join(parts)}.")
    return sentences + [f"Command: {command}" for command in study["commands"]]


def _describe_judgement(study: dict[str, Any]) -> str:
    metrics = ", ".join(study["metrics"])
    margins = ", ".join(study["margins"])
    kind = "anytime-valid" if study["sequential"] else "t"
    level = 100 * (1 - study["alpha"])
    sentence = f"Judged by {metrics}, margin {margins}: {kind} intervals of {level:g} %"
    if study["m"] > 1:
        sentence += f", {study['m']} together (Bonferroni)"
    return f"{sentence}."
