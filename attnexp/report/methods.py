"""What a methods section needs: how runs were made, by field and in sentences."""

from collections.abc import Iterable
from itertools import chain

import pandas as pd

from attnexp.analysis.answer import Answer, Comparison
from attnexp.analysis.group import Group
from attnexp.base.errors import UserError
from attnexp.config.schema import ADAM_BETAS
from attnexp.report import Record
from attnexp.report.cells import format_span
from attnexp.report.titles import PROTOCOLS
from attnexp.runs.labels import as_word
from attnexp.statistics.defaults import ALPHA
from attnexp.statistics.verdict import MetricSpec


def shared_settings(groups: Iterable[Group]) -> Record:
    """The settings that all variants of these groups share, by key."""
    variants = [setup.settings for group in groups for setup in group.origin.setups.values()]
    shared, *others = variants or [{}]
    for own in others:
        shared = dict(setting for setting in shared.items() if setting in own.items())
    return shared


def describe_settings(shared: Record) -> str:
    """`data max_len=80 ...; model attention d_model=128 ...`, by section of the config."""
    sections: dict[str, list[str]] = {}
    for key, value in shared.items():
        section, _, _ = key.partition(".")
        word = as_word(key, value)  # data.max_len=80, or mask=none of mask.kind
        sections.setdefault(section, [section]).append(word.removeprefix(section)[1:])
    return "; ".join(map(" ".join, sections.values()))


def describe_variants(group: Group) -> dict[str, str]:
    """The settings of each variant that not all variants of its group share."""
    shared = shared_settings([group])
    described = {}
    for variant, setup in group.origin.setups.items():
        words = [as_word(key, value) for key, value in setup.settings.items() if key not in shared]
        described[variant] = ", ".join(words)
    return described


def describe_studies(answer: Answer) -> list[Record]:
    """`describe_study` of each data set and protocol. Raises `UserError` for other trainers'."""
    made_here = [each for each in answer.comparisons if each.group.origin.setups]
    if not made_here:
        raise UserError("--table study takes results of attnexp, which say how they were made.")
    return [describe_study(comparison, answer.metric) for comparison in made_here]


def describe_study(comparison: Comparison, metric: MetricSpec) -> Record:
    """The record of one data set and protocol. JSON has metrics and margins as lists, of one."""
    group = comparison.group
    setups = group.origin.setups
    facts = pd.DataFrame(setup.facts for setup in setups.values())
    last_epochs = group.epochs.groupby(["variant", "seed"])["epoch"].max()
    commands = list(chain(*(plan.commands for plan in group.origin.studies)))
    own_code: dict[str, str] = {}
    for setup in setups.values():
        own_code |= setup.own_code
    unit = " points" if metric.is_share else ""
    return {
        "data": group.data,
        "fingerprint": facts["fingerprint"][0],
        "n_train": sorted({*facts["n_train"]}),
        "n_val": sorted({*facts["n_val"]}),
        "n_test": sorted({*facts["n_test"]}),
        "protocol": group.protocol,
        "variants": group.variants,
        "shared": shared_settings([group]),
        "parameters": {name: setup.facts.get("parameters") for name, setup in setups.items()},
        "seeds": list(group.at_endpoints["seed"].unique()),
        "epochs": sorted(last_epochs.unique().tolist()),
        "metrics": [metric.name],
        "margins": [f"±{metric.margin_text}{unit}"],
        "code": own_code,
        "alpha": ALPHA,
        "m": max((row.m for row in comparison.differences), default=0),
        "sequential": any(row.sequential for row in comparison.differences),
        "made_by": group.origin.made_by,
        "commands": commands or list(group.origin.runs["command"].unique()),
    }


def describe_in_words(study: Record) -> list[str]:
    """The fields of a study as sentences."""
    protocol = study["protocol"]
    splits = ["train", "test"] if protocol == "blog" else ["train", "val", "test"]
    data = f"{study['data']} (fingerprint {study['fingerprint']})"
    for split in splits:
        data += ", " + format_span(study[f"n_{split}"], f"{split} text")
    seeds = study["seeds"]
    training = [
        *study["variants"],
        format_span(study["epochs"], "epoch"),
        f"{format_span([len(seeds)], 'seed')} ({', '.join(seeds)})",
        f"protocol {protocol}{PROTOCOLS[protocol]}",
    ]
    shared = describe_settings(study["shared"])
    if "train.optimizer" in study["shared"]:
        shared += f"; betas of Adam {ADAM_BETAS}"
    sentences = [
        f"Data: {data}.",
        f"Training: {', '.join(training)}.",
        f"All variants: {shared}.",
        _describe_judgement(study),
    ]
    numbers = [f"{name} {number:,}" for name, number in study["parameters"].items() if number]
    if numbers:
        sentences.append(f"Parameters: {', '.join(numbers)}.")
    files = [f"{file} {digest[:12]}" for file, digest in study["code"].items()]
    if files:
        sentences.append(f"Own code (digests): {', '.join(files)}.")
    for made in study["made_by"]:
        parts = [f"{key} {value}" for key, value in made.items() if value]
        sentences.append(f"Software: attnexp {', '.join(parts)}.")
    return sentences + [f"Command: {command}" for command in study["commands"]]


def _describe_judgement(study: Record) -> str:
    (metric,) = study["metrics"]
    (margin,) = study["margins"]
    kind = "anytime-valid" if study["sequential"] else "t"
    level = 100 * (1 - study["alpha"])
    sentence = f"Judged by {metric}, margin {margin}: {kind} intervals of {level:g} %"
    if study["m"] > 1:
        sentence += f", {study['m']} together (Bonferroni)"
    return f"{sentence}."
