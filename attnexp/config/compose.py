"""From words on the command line to a checked `RunConfig`.

Hydra composes the options that words choose (`hydra_options`). Settings are laid over them as
Hydra lays `++key=value`, and interpolations resolved, but for those of a stored config. Then
`choose`, imported where it is needed since it imports torch, checks all values.
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
from attnexp.config.options import groups, on_one_line
from attnexp.config.pieces import CLASS
from attnexp.config.schema import PIECES, ExecutorConfig, RunConfig, flatten, is_seed, to_dict
from attnexp.config.words import Setting, setting_of

OF_SWEEPS = re.compile(r"\+*(study|name|executor|tune)[.=]")


def compose(*words: str | Sequence[str]) -> RunConfig:
    """The config of one run, from words such as `seed=3`, or lists of them. Configs that differ in
    seeds alone share their sections. Raises `UserError` for wrong words."""
    from attnexp.config.choose import check_run, with_seeds

    flat: list[str] = []
    for each in words:
        flat += [each] if isinstance(each, str) else each
    for word in flat:
        if OF_SWEEPS.match(word):
            raise UserError(f"{word} is for many runs: attnexp sweep {shlex.join(flat)}")
    settings = [setting_of(word) for word in flat]
    seeds = [setting for setting in settings if is_seed(setting.key)]
    variant = tuple(setting.word for setting in settings if setting not in seeds)
    experiments = chosen_options(settings)["experiment"]
    times = file_times(experiments)
    tree, config = _compose_variant(variant, times, os.getcwd())
    if config is None or "${" in str(seeds):
        return check_run(_resolve(_lay_over(tree, seeds)))
    for kind in foreign_code(to_dict(config)):
        pieces.load(kind)  # which refuses code that was edited since
    return with_seeds(config, seeds)


def compose_executor(words: Sequence[str]) -> ExecutorConfig:
    """Executor settings of a sweep, from words such as `executor=ray executor.gpu=0.5`."""
    from attnexp.config.choose import refuse_idle, validate

    settings = [setting_of(word) for word in words]
    choices = {"executor": "local"} | chosen_options(settings)
    values = [setting for setting in settings if not setting.is_choice]
    tree = _resolve(_lay_over(compose_options(choices), values))
    config: ExecutorConfig = validate(ExecutorConfig, tree["executor"], "executor.")
    refuse_idle(config, "executor.")
    return config


def overlay(tree: dict[str, Any], words: Sequence[str], *, trust_code: bool = False) -> RunConfig:
    """A config that was resolved before (as `to_dict` gives it), with some keys set anew. Raises
    `UserError` where it names code that is not attnexp's, unless the user trusts it: a run's folder
    may come from anyone, and composing imports that code."""
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
    words: tuple[str, ...], _times: FileTimes, _folder: str
) -> tuple[dict[str, Any], RunConfig | None]:
    """The tree of words without seeds, and its config. None for a tree with interpolations, which
    may depend on a seed, or on the environment. Relative paths start from the folder."""
    from attnexp.config.choose import check_run

    settings = [setting_of(word) for word in words]
    values = [setting for setting in settings if not setting.is_choice]
    config = _lay_over(compose_options(chosen_options(settings)), values)
    tree: Any = OmegaConf.to_container(config)
    if "${" in str(tree):
        return tree, None
    return tree, check_run(tree)


def chosen_options(settings: Sequence[Setting]) -> dict[str, Any]:
    """The options that words choose, by group. Several experiments add up to a list."""
    experiments: list[str] = []
    choices: dict[str, Any] = {"experiment": experiments}
    for setting in settings:
        if setting.key == "experiment":
            names = setting.value if isinstance(setting.value, list) else [setting.value]
            experiments += [str(name) for name in names if name is not None]
        elif setting.is_choice:
            choices[setting.key] = setting.value
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
        for setting in sorted(settings, key=lambda setting: setting.key.count(".")):
            OmegaConf.update(config, setting.key, setting.value, force_add=True)
    except (OmegaConfBaseException, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"This cannot be composed: {on_one_line(error)}") from error
    return config


def _resolve(config: DictConfig) -> dict[str, Any]:
    """The plain tree of a config, interpolations resolved."""
    try:
        try:
            tree: Any = OmegaConf.to_container(config, resolve=True)
        except InterpolationKeyError:  # perhaps of a key that has its default
            tree = OmegaConf.to_container(_with_defaults(config), resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"This cannot be interpolated: {on_one_line(error)}") from error
    return dict(tree)


def _with_defaults(config: DictConfig) -> Any:
    """The config over the defaults of what it chooses."""
    from attnexp.config.choose import check_run

    tree: Any = OmegaConf.to_container(config)
    plain = OmegaConf.create()
    for key, value in flatten(tree).items():
        if "${" not in str(value):
            OmegaConf.update(plain, key, value, force_add=True)
    without_interpolations: Any = OmegaConf.to_container(plain)
    defaults = asdict(check_run(without_interpolations))
    return OmegaConf.merge(escape(defaults), config)
