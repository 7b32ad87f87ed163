"""Write the parts of README.md and docs/ that a command makes: `make docs`.

A part stands between two comments. The first names a function below, with its arguments, or a
command, whose output is shown as in a terminal of 80 columns:

    <!-- made by: differences blog -->
    <!-- made by: $ attnexp report outputs/published/blog -->
    ...
    <!-- end -->
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from textwrap import fill
from typing import Any, get_args

import pandas as pd

from attnexp.analysis import contrasts
from attnexp.analysis.frames import Group, load
from attnexp.analysis.published import k_counts
from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.options import describe, groups
from attnexp.config.pieces import Piece
from attnexp.config.schema import RunConfig, meanings, walk
from attnexp.report import tables
from attnexp.statistics.verdict import HELPS, UNDECIDED

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "outputs" / "published"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PART = re.compile(r"(<!-- made by: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

PLACES = ("model", "model.before", "position", "mask", "model.score", "model.pooling")
"""Groups whose options are pieces of the model."""

ANSWERS = (
    ("blog", "final", "after five epochs, as K measured"),
    ("blog", "best", "at the epoch that is best on the test set"),
    ("blog_unscaled_holdout", "chosen", "at the epoch chosen on other, held-out reviews"),
)
"""Rows of README's table: a published study, the endpoint, and the endpoint in words."""

POINTS = {"final": "last epoch", "best": "best epoch", "chosen": "chosen epoch"}


def main(names: list[str]) -> int:
    """Write the pages anew; with names, only the parts of these names."""

    def renew(part: re.Match[str]) -> str:
        start, how, _, end = part.groups()
        if names and how not in names:
            return part[0]
        return start + make_part(how) + end

    for page in PAGES:
        page.write_text(PART.sub(renew, page.read_text()))
    return 0


def make_part(how: str) -> str:
    """The text of a part."""
    if how.startswith("$ "):
        printed = run_command(how.removeprefix("$ "))
        return f"```\n{printed}\n```\n"
    makers = {
        "answers": answers,
        "findings": findings,
        "differences": differences,
        "studies": studies,
        "means": means,
        "pieces": pieces,
        "settings": settings,
        "claims": claims,
    }
    name, *arguments = how.split()
    lines = makers[name](*arguments)
    return "\n".join(lines) + "\n"


def run_command(command: str) -> str:
    """What a command prints on stdout, in a terminal of 80 columns."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    terminal = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "PATH": path}
    done = subprocess.run(
        command,
        shell=True,
        check=True,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **terminal},
    )
    lines = done.stdout.strip("\n").splitlines()
    return "\n".join(line.rstrip() for line in lines)


def answers() -> Iterator[str]:
    """The table of README: what positional encoding gives, by how one looks."""
    yield "| accuracy with PE minus without | seeds | points | so |"
    yield "|---|---:|---:|---|"
    for study, point, words in ANSWERS:
        rows = contrasts.differences(*published(study))
        row = rows[rows["point"] == point].iloc[0]
        yield f"| {words} | {row['n']} of each | {size(row)} | {conclusion(row)} |"


def conclusion(row: "pd.Series[Any]") -> str:
    """What README concludes from a difference."""
    if row["verdict"] == HELPS:
        return "PE helps"
    if row["verdict"] == UNDECIDED:
        largest = 100 * max(abs(row["low"]), abs(row["high"]))
        return f"we cannot say yet; {largest:.1f} points at most"
    return f"less than {tables.margin(row)} points on these texts"


def findings() -> Iterator[str]:
    """The findings of README, a sentence or two each."""
    (k,) = k_counts(*published("blog"))
    cells = {count["unlike"]: count for count in k_counts(*published("blog_cells"))}
    scaled = cells["model.score.scale=true",]
    mean = contrasts.across(published("blog_data", "blog")).set_index("point").loc
    rivals = contrasts.differences(*published("baselines")).set_index(["variant", "point"])
    document = run_command("attnexp probe outputs/published/blog --do uniform --json")
    effects = json.loads(document)["effects"]
    uniform = pd.DataFrame(effects).set_index(["variant", "metric"])
    paragraphs = (
        """**Over-fitting.** Both models over-fit after the first epochs, the one without PE more;
        that is what PE changes.""",
        f"""**Attention.** Put the same weight on every word of a trained model without PE, and it
        gets better: {size(uniform.loc[("no_pe", "accuracy")])} points. A model without attention,
        which averages the word vectors, beats the paper's attention with PE after five epochs:
        {size(rivals.loc[("mean", "final")])} points
        ([rivals](docs/results.md#attention-and-its-rivals)).""",
        f"""**Other data.** On average over {mean["final", "n"]} data sets PE lowers accuracy:
        {size(mean["final"])} points after five epochs (which may be chance) and
        {size(mean["best"])} at the best epoch (which is not): the positions are too large beside
        the words ([why](docs/results.md#why-the-sign-turns)).""",
        f"""**K's table.** Of the {k["values"]} numbers that K published, {k["inside"]} lie where
        one more of our runs would, if scores are not divided by √d_k, as in K's code of the time.
        With that division {scaled["inside"]} do, so the missing √d_k explains the table.""",
    )
    for paragraph in paragraphs:
        words = " ".join(paragraph.split())
        yield fill(f"- {words}", 120, subsequent_indent="  ")


def published(*studies: str) -> list[Group]:
    """The groups of published studies."""
    return load([PUBLISHED / study for study in studies])


def size(row: "pd.Series[Any]") -> str:
    """A mean with its interval: `+2.53 [+2.32, +2.73]`."""
    mean = tables.number(row["mean"], True, "+")
    interval = tables.interval(row["low"], row["high"], True)
    return f"{mean} {interval}"


def differences(*studies: str) -> Iterator[str]:
    """Every variant minus the baseline, the interactions of two factors, and the mean over data
    sets where there are several."""
    groups = published(*studies)
    parts = [contrasts.differences(group) for group in groups]
    for group in groups:
        within = contrasts.within(group)
        if len(within):
            interactions = within[within["within"] == ""]
            parts.append(interactions)
    if len(groups) > 1:
        parts.append(contrasts.across(groups))
    return table(pd.concat(parts))


def studies(*names: str) -> Iterator[str]:
    """Differences of several studies, of two factors within each level of the second."""
    parts = []
    for name in names:
        for group in published(name):
            rows = contrasts.differences(group)
            within = contrasts.within(group)
            if len(within):
                rows = within[within["within"] != ""]
            parts.append(rows.assign(data=f"`{name}`, {group.data}"))
    return table(pd.concat(parts))


def means(study: str) -> Iterator[str]:
    """Means over data sets of the differences within each level of the second factor."""
    rows = contrasts.across(published(study))
    level_of_variant = rows["variant"].str.rpartition("_")[2]
    level_of_baseline = rows["baseline"].str.rpartition("_")[2]
    is_interaction = rows["variant"].str.contains("−")
    return table(rows[(level_of_variant == level_of_baseline) & ~is_interaction])


def table(rows: pd.DataFrame) -> Iterator[str]:
    """A row for each difference: n, then size and verdict at each endpoint."""
    has_data = rows["data"].nunique() > 1
    names = [name_difference(row, has_data) for _, row in rows.iterrows()]
    heads = [f"{POINTS[point]} | verdict" for point in rows["point"].unique()]
    yield f"| difference | n | {' | '.join(heads)} |"
    yield f"|---|---:|{'---:|---|' * len(heads)}"
    for name, rows_of_name in rows.groupby(pd.Series(names, rows.index), sort=False):
        cells = [f"{size(row)} | {verdict(row)}" for _, row in rows_of_name.iterrows()]
        num_seeds = rows_of_name["n"].iloc[0]
        yield f"| {name} | {num_seeds} | {' | '.join(cells)} |"


def verdict(row: "pd.Series[Any]") -> str:
    """The verdict; a mean over data sets has none."""
    return tables.verdict_words(row) if isinstance(row.get("verdict"), str) else "–"


def name_difference(row: "pd.Series[Any]", has_data: bool) -> str:
    """`pe − none`, with its data set, and with its level where the names do not say it."""
    sides = tables.sides(row)
    parts = [sides]
    if row["within"] and row["within"] not in sides:
        parts.insert(0, row["within"])
    if has_data:
        parts.insert(0, row["data"])
    return ", ".join(parts)


def pieces() -> Iterator[str]:
    """What a model can be made of."""
    yield "| choice | what it is |"
    yield "|---|---|"
    for place in PLACES:
        for name, text in describe()[place].items():
            yield f"| `{place}={name}` | {text} |"


@dataclass
class Setting:
    """A row of the table of settings."""

    meaning: str = ""
    defaults: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)


def settings() -> Iterator[str]:
    """Every key: its default, its meaning with its bounds, and what it needs."""
    rows: dict[str, Setting] = {}
    for place in ("data", *PLACES):
        for option in groups()[place]:
            add_settings(rows, place, option)
    yield "| key | default | meaning and bounds | needs |"
    yield "|---|---|---|---|"
    for key, row in rows.items():
        defaults = " or ".join(dict.fromkeys(row.defaults))
        needs = ", ".join(dict.fromkeys(row.needs))
        yield f"| `{key}` | {defaults} | {row.meaning} | {needs} |"


def add_settings(rows: dict[str, Setting], place: str, option: str) -> None:
    """Add what a choice of an option has to the rows by key."""
    choice = f"{place}={option}"
    config = compose_choice(choice)
    about = meanings(config)
    for key, section, setting in walk(config):
        default = default_of(section, setting)
        if setting.name == "kind" or is_dataclass(default):
            continue
        row = rows.setdefault(key, Setting())
        choices = f"One of {', '.join(type(default))}" if isinstance(default, StrEnum) else ""
        sentences = [about[key].rstrip("."), bounds(setting.type), choices]
        row.meaning = ". ".join(filter(None, sentences))
        row.defaults.append(json.dumps(default).strip('"'))
        condition = setting.metadata.get("when")
        if condition is not None:
            row.needs.append(condition.description)
        elif isinstance(section, Piece) and key.startswith(f"{place}."):
            shared = {common.name for common in fields(section.base_spec or type(section))}
            if setting.name not in shared:
                row.needs.append(f"`{choice}`")


def default_of(section: Any, setting: "Field[Any]") -> Any:
    """The default of a setting; where the file of the option must give it, the value there."""
    if setting.default_factory is not MISSING:
        return setting.default_factory()
    if setting.default is MISSING or setting.default == "???":
        return getattr(section, setting.name)
    return setting.default


def bounds(annotation: Any) -> str:
    """The bounds that stand in a type: `Annotated[float, Ge(0), Lt(1)]` is At least 0, below 1."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    sentences = []
    for part in (annotation, *get_args(annotation)):
        for constraint in getattr(part, "__metadata__", ()):
            for name, value in getattr(constraint, "__dict__", {}).items():
                if name in words and value != 2**63:
                    sentences.append(f"{words[name]} {value}")
    return ", ".join(dict.fromkeys(sentences)).capitalize()


def compose_choice(words: str) -> RunConfig:
    """The config of a choice, with what it cannot do without."""
    needs = {"data=files": "data.path=reviews", "data=hub": "data.path=user/reviews"}
    try:
        return compose([*words.split(), *needs.get(words, "").split()])
    except UserError:  # what hides nothing by itself
        return compose([*words.split(), "mask.padding=true"])


def claims() -> Iterator[str]:
    """Every claim, from what is published."""
    yield "| id | from | claim | measured | n | verdict |"
    yield "|---|---|---|---|---:|---|"
    document = json.loads(run_command("attnexp claims --all --json"))
    for record in document["claims"]:
        cells = []
        for name in ("id", "source", "claim", "measured", "n", "verdict"):
            cell = str(record[name] or "")
            cells.append(cell.replace("|", r"\|"))
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
