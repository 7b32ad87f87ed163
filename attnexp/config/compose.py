"""From words on the command line to a checked `RunConfig`, with Hydra doing the composing.

Hydra's own messages speak of its insides, so what a user can get wrong is looked at here first:
unknown keys, unknown options, values of the wrong type, sweeps where one run is wanted.
"""

import itertools
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from attnexp.config.checks import check, check_executor
from attnexp.config.schema import (
    DataName,
    ExecutorConfig,
    RunConfig,
    SweepConfig,
    did_you_mean,
    flatten,
)
from attnexp.errors import UserError

OVERLAYS = ("experiment", "study")
"""Groups that set keys of other groups. A study belongs to `sweep`, which reads it itself."""

EXECUTOR = "executor"
"""The group that says where a sweep's runs take place, and belongs to none of them."""

ConfigStore.instance().store(name="schema", node=RunConfig)
ConfigStore.instance().store(name="sweep_schema", node=SweepConfig)


def conf_dir() -> Path:
    """`conf/`: inside the package when installed, beside it in an editable install."""
    package = Path(__file__).parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def groups() -> dict[str, list[str]]:
    """Every config group with its options, in alphabetical order."""
    return {
        folder.name: sorted(file.stem for file in folder.glob("*.yaml"))
        for folder in sorted(conf_dir().iterdir())
        if folder.is_dir() and not folder.name.startswith("__")
    }


def describe_groups() -> dict[str, dict[str, str]]:
    """Every group's options with the first sentence of what their files say of them."""
    return {
        group: {
            option: _first_sentence(conf_dir() / group / f"{option}.yaml") for option in options
        }
        for group, options in groups().items()
    }


def _first_sentence(file: Path) -> str:
    lines = [line[2:] for line in file.read_text().splitlines() if line.startswith("# ")]
    text = " ".join(line for line in lines if not line.startswith("@package"))
    return re.split(r"(?<!\bal)\. ", text)[0].rstrip(".")  # "et al." ends no sentence


def compose(words: Sequence[str]) -> RunConfig:
    """The config of one run. Raises `UserError` for anything in `words` that is wrong."""
    with _hydra():
        for override in parse(words):
            if override.is_sweep_override():
                given = shlex.quote(str(override.input_line))
                raise UserError(
                    f"{given} names several values, and this is one run. For many runs: "
                    f"attnexp sweep {shlex.join(words)}"
                )
            if override.key_or_group == "study":
                raise UserError(
                    f"A study is many runs, and this is one. For all of them: "
                    f"attnexp sweep {shlex.join(words)}"
                )
            if is_executor(str(override.key_or_group)):
                raise UserError(
                    f"{override.input_line}: a single run has no executor. For many runs: "
                    f"attnexp sweep {shlex.join(words)}"
                )
        config = _hydra_compose("config", words)
    assert isinstance(config, RunConfig)
    return _settle(config)


def compose_executor(words: Sequence[str]) -> ExecutorConfig:
    """Where a sweep's runs take place, from words such as `executor=ray executor.gpu=0.5`."""
    with _hydra():
        for override in parse(words):
            if override.is_sweep_override():
                raise UserError(f"{override.input_line}: a sweep has one executor.")
        config = _hydra_compose("sweep", words)
    assert isinstance(config, SweepConfig)
    check_executor(config)
    return config.executor


def is_executor(key: str) -> bool:
    """Whether a key belongs to `compose_executor` rather than to `compose`."""
    return key == EXECUTOR or key.startswith(f"{EXECUTOR}.")


def expand(words: Sequence[str]) -> list[list[tuple[str, str]]]:
    """The axes of a sweep in Hydra's syntax: each word as (key, one `key=value` word) pairs.

    `a,b`, `range()`, `choice()` and `glob()` give several pairs, anything else gives one.
    """
    with _hydra():
        axes = []
        for override, word in zip(parse(words), words, strict=True):
            key = override.get_key_element()
            if override.is_sweep_override():
                values = [f"{key}={value}" for value in override.sweep_string_iterator()]
            else:
                values = [word]
            axes.append([(str(override.key_or_group), value) for value in values])
        return axes


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """Variants that are compared with a baseline, each a list of words."""

    name: str
    variants: dict[str, list[str]]
    """The baseline first."""
    levels: dict[str, dict[str, str]]
    """By variant, its level of each of two crossed factors; without any in a study of none."""
    overrides: list[str]
    """Words for all of them."""


def load_study(given: str) -> Study:
    """A study of `conf/study/` by its name, or one of the user's by its file.

    Raises `UserError` for an unknown name, or a file that is no study.
    """
    if given.endswith((".yaml", ".yml")):
        path = Path(given).expanduser()
    else:
        _check_option("study", given)
        path = conf_dir() / "study" / f"{given}.yaml"
    try:
        tree = OmegaConf.to_container(OmegaConf.load(path))
    except OSError as error:
        raise UserError(f"study={given} cannot be read: {error.strerror}.") from error
    except (OmegaConfBaseException, YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"study={given} is no YAML: {str(error).splitlines()[0]}.") from error
    return _study(path.stem, given, tree)


def _study(name: str, given: str, tree: Any) -> Study:
    wrong = (
        f"study={given} must hold baseline: NAME and variants: {{NAME: [WORDS]}}, or two crossed "
        f"factors: {{FACTOR: {{LEVEL: [WORDS]}}}}, and, if there are words for all of them, "
        f"overrides: [WORDS]; "
    )
    if not isinstance(tree, dict) or not tree:
        raise UserError(f"{wrong}got {tree if tree else 'nothing'}.")
    keys = set(tree) - {"overrides"}
    if keys not in ({"baseline", "variants"}, {"factors"}):
        raise UserError(f"{wrong}got {', '.join(map(str, tree))}.")
    overrides = tree.get("overrides") or []
    _check_words(overrides, wrong)
    if "factors" in tree:
        variants, levels = _cross(tree["factors"], wrong)
        return Study(name=name, variants=variants, levels=levels, overrides=overrides)
    if not isinstance(tree["variants"], dict):
        raise UserError(f"{wrong}got variants: {tree['variants']!r}.")
    variants, baseline = {str(k): words for k, words in tree["variants"].items()}, tree["baseline"]
    if str(baseline) not in variants:
        raise UserError(f"{wrong}baseline {baseline!r} is not among the variants.")
    for words in variants.values():
        _check_words(words, wrong)
    ordered = {str(baseline): variants[str(baseline)], **variants}
    return Study(name=name, variants=ordered, levels={}, overrides=overrides)


def _cross(factors: Any, wrong: str) -> tuple[dict[str, list[str]], dict[str, dict[str, str]]]:
    """Every pair of levels as a variant `LEVEL_LEVEL`, each factor's first level the baseline's."""
    if not isinstance(factors, dict) or len(factors) != 2:
        raise UserError(f"{wrong}got factors: {factors!r}.")
    for factor, levels in factors.items():
        if not isinstance(levels, dict) or len(levels) < 2:
            raise UserError(f"{wrong}factor {factor} needs two levels or more; got {levels!r}.")
        for words in levels.values():
            _check_words(words, wrong)
    (one, levels_of_one), (other, levels_of_other) = factors.items()
    variants, levels = {}, {}
    for (a, words), (b, more) in itertools.product(levels_of_one.items(), levels_of_other.items()):
        label = f"{a}_{b}"
        if label in variants:
            raise UserError(f"{wrong}two pairs of levels are named {label}.")
        variants[label] = [*words, *more]
        levels[label] = {str(one): str(a), str(other): str(b)}
    return variants, levels


def _check_words(words: Any, wrong: str) -> None:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UserError(f"{wrong}{words!r} is no list of words such as position=none.")


def parse(words: Sequence[str]) -> list[Override]:
    """Hydra's overrides, with keys and options known to exist. Call inside `_hydra()`."""
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    known_groups = groups()
    known_keys = flatten(asdict(RunConfig())) | flatten(asdict(SweepConfig()))
    overrides = []
    for word in words:
        try:
            (override,) = parser.parse_overrides([word])
        except (OverrideParseException, HydraException) as error:
            raise UserError(_unreadable(word)) from error
        key = str(override.key_or_group)
        if override.type is not OverrideType.CHANGE or override.package is not None:
            raise UserError(f"{word}: only key=value is understood here.")
        if key in known_groups:
            for option in _options(override):
                _check_option(key, option)
        elif key not in known_keys:
            sections = {name.split(".")[0] for name in known_keys if "." in name}
            near = did_you_mean(key, [*known_keys, *known_groups, *sections])
            raise UserError(
                f"There is no key '{key}' (in '{word}').{near} "
                f"`attnexp config` lists all keys, `attnexp config --groups` all options."
            )
        elif override.value() == "" and not override.is_sweep_override():
            raise UserError(f"'{word}' gives no value. Write {key}=VALUE, or {key}=null for none.")
        overrides.append(override)
    return overrides


def overlay(tree: dict[str, Any], words: Sequence[str]) -> RunConfig:
    """A config that was resolved before (as `to_dict` gives it), with some keys set anew."""
    try:
        merged = OmegaConf.merge(
            OmegaConf.structured(RunConfig), tree, OmegaConf.from_dotlist(list(words))
        )
        config = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        raise UserError(_cause(error)) from error
    assert isinstance(config, RunConfig)
    return _settle(config)


@contextmanager
def _hydra() -> Iterator[None]:
    with initialize_config_dir(str(conf_dir().resolve()), job_name="attnexp", version_base="1.3"):
        yield


def _hydra_compose(name: str, words: Sequence[str]) -> Any:
    try:
        return OmegaConf.to_object(hydra_compose(name, overrides=list(words)))
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_cause(error)) from error


def _settle(config: RunConfig) -> RunConfig:
    """Check, and make paths absolute so that the config means the same from anywhere."""
    check(config)
    if config.data.path is not None and config.data.name is not DataName.hub:
        config.data.path = _absolute(config.data.path)
    if config.model.vectors is not None:
        config.model.vectors = _absolute(config.model.vectors)
    return config


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))  # unlike resolve(), keeps links


def _options(override: Override) -> list[str]:
    if override.is_sweep_override():
        return [str(value) for value in override.sweep_string_iterator()]
    return [override.get_value_element_as_str()]


def _check_option(group: str, option: str) -> None:
    options = groups()[group]
    if option in options or (option == "null" and group in OVERLAYS):
        return
    raise UserError(
        f"{group}={option}: there is no such {group}.{did_you_mean(option, options)} "
        f"Choose one of: {', '.join(options)}."
    )


def _unreadable(word: str) -> str:
    key, equals, value = word.partition("=")
    if not equals:
        return (
            f"'{word}' is not understood: settings are written key=value, such as "
            f"model.heads=4 or position=sinusoidal."
        )
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    quoted = shlex.quote(f'{key}="{escaped}"')
    return f"The value in '{word}' is not understood. If it is one text, quote it: {quoted}"


def _cause(error: BaseException) -> str:
    """The innermost message: Hydra wraps OmegaConf's, which names the key and the type."""
    while error.__cause__ is not None:
        error = error.__cause__
    key = getattr(error, "full_key", None)
    message = str(getattr(error, "msg", None) or error).splitlines()[0]
    return f"{key}: {message}. `attnexp config` shows a value that fits." if key else message
