"""Shell completion: groups and options, runs and studies. It imports neither torch nor Hydra."""

import glob
from collections.abc import MutableMapping
from pathlib import Path

from typer import Context


def settings(ctx: Context, incomplete: str) -> list[tuple[str, str]]:
    """Complete groups, then their options with what they are: `posi`, `mask=none,ca`."""
    from attnexp.config.options import describe

    *_, last = ctx.params.get("overrides") or [""]
    split_off = last if last.endswith("=") else ""  # see `join_words_of_bash`
    key, equals, value = f"{split_off}{incomplete}".partition("=")
    options = describe()
    if "/" in key:  # as Hydra writes it
        options = {group.replace(".", "/"): names for group, names in options.items()}
    if not equals:
        groups = [group for group in options if group.startswith(key)]
        if len(groups) > 1:
            return [(f"{group}=", "") for group in groups]
        if groups:  # alone it would get a space behind it
            key = groups[0]
    earlier, comma, _ = value.rpartition(",")
    start = f"{key}={earlier}{comma}".removeprefix(split_off)
    return [(start + option, text) for option, text in options.get(key, {}).items()]


def runs(incomplete: str) -> list[str]:
    """Folders of finished runs, under `outputs/` or under the path typed so far."""
    return _holding("result.json", "outputs/runs/*", incomplete)


def studies(incomplete: str) -> list[str]:
    """Folders of studies, under the same paths, and folders that contain runs."""
    folders = {str(Path(run).parent) for run in runs("")}
    return [*_holding("study.json", "outputs/*", incomplete), *sorted(folders)]


def _holding(file: str, pattern: str, incomplete: str) -> list[str]:
    """Folders that contain a file of this name."""
    paths = glob.glob(f"{pattern}/{file}") + glob.glob(f"{glob.escape(incomplete)}*/{file}")
    return sorted({str(Path(path).parent) for path in paths})


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
