"""Shell completion. It imports neither torch nor Hydra, so that TAB answers at once."""

import glob
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import Field, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

from typer import Context

Offer = tuple[str, str]
"""A completion and its description."""


def settings(ctx: Context, incomplete: str) -> list[Offer]:
    """Complete groups and keys, then values: `posi`, `position=ro`, `model.he`, `mask=none,ca`."""
    words = [*(ctx.params.get("overrides") or [])]
    before = words.pop() if words and words[-1].endswith("=") else ""  # see `join_words_of_bash`
    key, equals, value = (before + incomplete).partition("=")
    known = _keys(key, words, sweep=ctx.info_name == "sweep")
    if equals:
        listed = value[: value.rfind(",") + 1]
        start = listed if before else f"{key}={listed}"
        return [(start + one, about) for one, about in known.get(key, {}).items()]
    # Up to the next dot of each key that begins as typed.
    ends = [(name, name.find(".", len(key))) for name in known if name.startswith(key)]
    near = dict.fromkeys(f"{name}=" if dot < 0 else name[: dot + 1] for name, dot in ends)
    match [*near]:
        case [str(only)] if only.endswith("="):  # a key alone would get a space behind it
            values = known[only[:-1]] or {"": ""}
            return [(only + one, about) for one, about in values.items()]
        case [str(section)] if section != key:
            return settings(ctx, section)
    return [(one, "") for one in near]


def runs(incomplete: str) -> list[str]:
    """Folders of finished runs, under `outputs/` or under the path typed so far."""
    return _beside("result.json", "outputs/runs/*", f"{glob.escape(incomplete)}*")


def studies(incomplete: str) -> list[str]:
    """Folders of studies, under the same paths, and folders that contain runs."""
    trees = ("outputs/*", f"{glob.escape(incomplete)}*")
    all_runs = {str(Path(run).parent) for run in runs("")}
    return [*_beside("study.json", *trees), *sorted(all_runs)]


def join_words_of_bash(environment: MutableMapping[str, str]) -> None:
    """Join what bash splits at `=`. The last word `position=ro` becomes `position=` and `ro`, of
    which bash replaces the second; earlier words are joined as a whole."""
    words: list[str] = []
    *earlier, current = environment["COMP_WORDS"].split("\n")[: int(environment["COMP_CWORD"]) + 1]
    for word in earlier:
        if words and (word == "=" or words[-1].endswith("=")):
            words[-1] += word
        else:
            words.append(word)
    if current == "=":
        words[-1] += current
        current = ""
    environment["COMP_WORDS"] = "\n".join([*words, current])
    environment["COMP_CWORD"] = str(len(words))


def _keys(typed: str, words: Iterable[str], *, sweep: bool) -> dict[str, dict[str, str]]:
    """Keys that may begin as typed; each with its values and their descriptions."""
    from attnexp.config.options import describe, groups
    from attnexp.config.schema import PLACES, RunConfig, SweepConfig, keys_of_option, walk

    found: dict[str, dict[str, str]] = {}
    for schema in (RunConfig(), SweepConfig()) if sweep else (RunConfig(),):
        for key, holder, field in walk(schema):
            if field.name != "kind" and not is_dataclass(value := getattr(holder, field.name)):
                found[key] = dict.fromkeys(_values(field, value), "")
    if sweep:
        found |= {"tune": {"train.lr=": "one grid for every variant"}, "tune.seeds": {}}
    chosen = dict(word.partition("=")[::2] for word in words)
    for group, options in describe().items():
        if sweep or group not in ("study", "executor"):
            found[group] = options
        if group.partition(".")[0] not in PLACES:
            continue
        if typed.rpartition(".")[0] != group:
            found.setdefault(f"{group}.", {})  # its keys are read only when typed this far
            continue
        named = [option for option in chosen.get(group, "").split(",") if option in options]
        for option in named or groups()[group]:
            for key, field in keys_of_option(group, option).items():
                if field.name != "kind" and key not in groups():
                    found[key] = dict.fromkeys(_values(field, field.default), "")
    return found


def _values(field: Field[Any], default: Any) -> Iterator[str]:
    """Values that a field accepts where they can be listed, else its default."""
    yield from field.metadata.get("options", ())
    for kind in get_args(field.type) or (field.type,):
        if kind is bool:
            yield from ("true", "false")
        elif isinstance(kind, type) and issubclass(kind, StrEnum):
            yield from kind
        elif isinstance(default, int | float | str) and isinstance(default, kind):
            yield str(default)


def _beside(file: str, *patterns: str) -> list[str]:
    """Folders that contain a file of this name."""
    found = (glob.glob(f"{pattern}/{file}") for pattern in patterns)
    return sorted({str(Path(path).parent) for paths in found for path in paths})
