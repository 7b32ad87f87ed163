"""From words on the command line to a checked `RunConfig`.

Hydra composes the options that words choose (`hydra_options`). Settings are laid over them as
Hydra lays `++key=value`, and interpolations resolved. Then pydantic checks every value against the
settings of the chosen pieces, and refuses what they do not have (`choose`, which imports torch, so
that it is imported here when something is composed). A stored config goes the same way from there,
and nothing in it is interpolated.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationKeyError, OmegaConfBaseException

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.hydra_options import FileTimes, compose_options, escape, file_times
from attnexp.config.options import groups
from attnexp.config.pieces import CLASS
from attnexp.config.schema import PIECES, ExecutorConfig, RunConfig, flatten, to_dict
from attnexp.config.words import Setting, setting_of


def compose(*words: str | Sequence[str]) -> RunConfig:
    """The config of one run, from words such as `seed=3`, or lists of them.

    Configs that differ in seeds alone share their sections. Raises `UserError` for anything in the
    words that is wrong.
    """
    from attnexp.config.choose import check_run, with_seeds

    flat: list[str] = []
    for each in words:
        flat += [each] if isinstance(each, str) else each
    for word in flat:
        if re.match(r"\+*(study|name|executor|tune)[.=]", word):
            raise UserError(f"{word} is for many runs: attnexp sweep {shlex.join(flat)}")
    settings = [setting_of(word) for word in flat]
    seeds = [setting for setting in settings if setting.is_seed]
    variant = tuple(setting.word for setting in settings if not setting.is_seed)
    times = file_times(chosen_options(settings)["experiment"])
    tree = _compose_tree(variant, times)
    if "${" in f"{tree} {seeds}":  # which may depend on a seed, or on the environment
        return check_run(_resolve(_lay_over(tree, seeds)))
    config, code = _compose_variant(variant, times, os.getcwd())
    for kind in code:
        pieces.load(kind)  # which refuses code that was edited since
    return with_seeds(config, {setting.key: setting.value for setting in seeds})


def compose_executor(words: Sequence[str]) -> ExecutorConfig:
    """Executor settings of a sweep, from words such as `executor=ray executor.gpu=0.5`."""
    from attnexp.config.validate import refuse_idle, validate

    settings = [setting_of(word) for word in words]
    choices = {"executor": "local"} | chosen_options(settings)
    values = [setting for setting in settings if not setting.is_choice]
    tree = _resolve(_lay_over(compose_options(choices), values))
    config: ExecutorConfig = validate(ExecutorConfig, tree["executor"], "executor.")
    refuse_idle(config, prefix="executor.")
    return config


def overlay(tree: dict[str, Any], words: Sequence[str], *, trust_code: bool = False) -> RunConfig:
    """A config that was resolved before (as `to_dict` gives it), with some keys set anew.

    A run's folder may come from anyone. Raises `UserError` where its config names code that is not
    attnexp's, unless the user trusts it (`--trust-code`): composing imports that code.
    """
    from attnexp.config.choose import check_run

    names = foreign_code(tree)
    if names and not trust_code:
        raise UserError(
            f"This run's model is not attnexp's alone: loading it would run {', '.join(names)}. If "
            f"you trust this code, add --trust-code. Tables and verdicts need no model."
        )
    settings = [setting_of(word) for word in words]
    resolved = _resolve(_lay_over(escape(tree), settings))
    # The names above are those of a config that a run wrote; a made-up one may hide some.
    with nullcontext() if trust_code else pieces.refusing_foreign_code():
        return check_run(resolved)


def foreign_code(config: Mapping[str, Any]) -> list[str]:
    """Code that is not attnexp's in a config as `to_dict` gives it, as `module:name`: pieces,
    tokenizer and loss."""
    names = []
    for key, value in flatten(dict(config)).items():
        if not CLASS.fullmatch(str(value)):
            continue
        is_foreign_piece = key.partition(".")[0] in PIECES and not pieces.is_ours(value)
        if is_foreign_piece or key in ("data.tokenizer", "train.loss"):
            names.append(value)
    return names


@lru_cache(maxsize=1000)
def _compose_variant(
    words: tuple[str, ...], times: FileTimes, _folder: str
) -> tuple[RunConfig, list[str]]:
    """The config of words without seeds and interpolations, and the user's code that it names.

    Relative paths start from the folder.
    """
    from attnexp.config.choose import check_run

    config = check_run(_compose_tree(words, times))
    return config, foreign_code(to_dict(config))


@lru_cache(maxsize=1000)
def _compose_tree(words: tuple[str, ...], times: FileTimes) -> dict[str, Any]:
    """The tree of words, interpolations as they are. times: of the files that it depends on."""
    settings = [setting_of(word) for word in words]
    values = [setting for setting in settings if not setting.is_choice]
    config = _lay_over(compose_options(chosen_options(settings)), values)
    tree: Any = OmegaConf.to_container(config)
    return dict(tree)


def chosen_options(settings: Sequence[Setting]) -> dict[str, Any]:
    """The options that words choose, by group. Several experiments add up to a list."""
    choices: dict[str, Any] = {"experiment": []}
    for setting in settings:
        if setting.key != "experiment":
            if setting.is_choice:
                choices[setting.key] = setting.value
        elif isinstance(setting.value, list):
            choices["experiment"] += map(str, setting.value)
        elif setting.value is not None:
            choices["experiment"].append(str(setting.value))
    return choices


def _lay_over(tree: Mapping[str, Any], settings: Sequence[Setting]) -> DictConfig:
    """The tree with settings put in by their keys, those of a section before those within it."""
    config = OmegaConf.create(dict(tree))
    try:
        for group in groups():
            section = group.partition(".")[0]
            name = OmegaConf.select(config, group)
            if section in PIECES and isinstance(name, str):  # a file may say `before: cnn`
                OmegaConf.update(config, group, {"kind": name})
        from_outside_in = sorted(settings, key=lambda setting: setting.key.count("."))
        for setting in from_outside_in:
            OmegaConf.update(config, setting.key, setting.value, force_add=True)
    except (OmegaConfBaseException, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"This cannot be composed: {' '.join(str(error).split())}") from error
    return config


def _resolve(config: DictConfig) -> dict[str, Any]:
    """The plain tree of a config, interpolations resolved."""
    try:
        try:
            tree: Any = OmegaConf.to_container(config, resolve=True)
        except InterpolationKeyError:  # perhaps of a key that has its default
            tree = OmegaConf.to_container(_with_defaults(config), resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"This cannot be interpolated: {' '.join(str(error).split())}") from error
    return dict(tree)


def _with_defaults(config: DictConfig) -> Any:
    """The config over the defaults of what it chooses."""
    from attnexp.config.choose import check_run

    def without_interpolations(tree: Mapping[str, Any]) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, value in tree.items():
            if isinstance(value, dict):
                plain[key] = without_interpolations(value)
            elif "${" not in str(value):
                plain[key] = value
        return plain

    tree: Any = OmegaConf.to_container(config)
    defaults = asdict(check_run(without_interpolations(tree)))
    return OmegaConf.merge(escape(defaults), config)
