"""Options of each group: the YAML files of `conf/`."""

import re
import textwrap
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from attnexp.base.errors import UserError

MAX_NODES = 100_000
"""Values in a file of options, with its aliases unfolded."""


def conf_dir() -> Path:
    """`conf/`: inside the package when installed, beside it in an editable install."""
    package = Path(__file__).parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


@lru_cache
def groups() -> dict[str, list[str]]:
    """Every group, such as `position` or `model.pooling`, with the names of its options."""
    found: dict[str, list[str]] = {}
    for path in sorted(conf_dir().glob("*/**/*.yaml")):
        found.setdefault(".".join(path.parent.relative_to(conf_dir()).parts), []).append(path.stem)
    return found


def file(group: str, option: str) -> Path:
    """YAML file of an option."""
    return conf_dir().joinpath(*group.split("."), f"{option}.yaml")


def is_file(option: str) -> bool:
    """Whether an option is a file of the user."""
    return option.endswith((".yaml", ".yml"))


def read(group: str, option: str) -> Any:
    """Content of an option's file, as plain text. Raises `UserError` if it cannot be read."""
    from omegaconf import OmegaConf  # which TAB and `--help` need not wait for
    from omegaconf.errors import OmegaConfBaseException
    from yaml import MarkedYAMLError, SafeLoader, YAMLError, compose

    path = Path(option).expanduser() if is_file(option) else file(group, option)
    try:
        if is_file(option) and _unfolded(compose(path.read_bytes(), SafeLoader), {}) > MAX_NODES:
            many = f"more than {MAX_NODES:,} values where its aliases are unfolded"
            raise UserError(f"{group}={option} has {many}. Write a smaller file.")
        return OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except OSError as error:
        raise UserError(f"{group}={option} cannot be read: {error.strerror}.") from error
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        said = f"{error.problem}, in line {line}"
        raise UserError(f"{group}={option} is no YAML: {said}.") from error
    except (OmegaConfBaseException, YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{group}={option} is no YAML: {str(error).splitlines()[0]}.") from error


def _unfolded(node: Any, sizes: dict[int, int]) -> int:
    """Number of nodes of a YAML tree, aliases unfolded. sizes: those known, by node's id."""
    if id(node) not in sizes:
        sizes[id(node)] = MAX_NODES  # while it is open: a node within itself has no end
        parts = [] if node is None or isinstance(node.value, str) else node.value
        inner = chain.from_iterable(part if isinstance(part, tuple) else [part] for part in parts)
        sizes[id(node)] = 1 + sum(_unfolded(one, sizes) for one in inner)
    return sizes[id(node)]


def describe() -> dict[str, dict[str, str]]:
    """Every group's options, with the first sentence of the comment in their files."""
    found: dict[str, dict[str, str]] = {}
    for group, options in groups().items():
        for option in options:
            lines = file(group, option).read_text("utf-8").splitlines()
            about = [line[2:] for line in lines if line.startswith("# ")]
            text = " ".join(line for line in about if not line.startswith("@package"))
            first = re.split(r"(?<!\bal)\. ", text)[0].rstrip(".")  # "et al." ends no sentence
            found.setdefault(group, {})[option] = first
    return found


def format_groups(described: dict[str, dict[str, str]]) -> str:
    """Text of `describe`, wrapped to 80 columns."""
    lines = []
    width = max(len(option) for options in described.values() for option in options)
    for group, options in described.items():
        lines.append(group)
        for option, about in options.items():
            margin = f"  {option:{width}}  "
            lines += textwrap.wrap(
                about, 80, initial_indent=margin, subsequent_indent=" " * len(margin),
                break_on_hyphens=False,
            )  # fmt: skip
    return "\n".join(lines)


@cache
def _names() -> dict[str, str]:
    """Name of each class that options name: of its option with the fewest settings."""
    trees = [(read(group, name), name) for group, names in groups().items() for name in names]
    named = [(len(tree), name, tree["kind"]) for tree, name in trees if tree and tree.get("kind")]
    return {kind: name for _, name, kind in sorted(named, reverse=True)}


def name_of(kind: str | None) -> str:
    """Name of a piece: the option with this class and fewest settings, else the class name."""
    return "none" if kind is None else _names().get(kind, kind.rpartition(":")[2])
