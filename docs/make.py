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
from dataclasses import MISSING, fields, is_dataclass
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

    def renewed(part: re.Match[str]) -> str:
        return part[1] + made(part[2]) + part[4] if part[2] in names or not names else part[0]

    for page in PAGES:
        page.write_text(PART.sub(renewed, page.read_text()))
    return 0


def made(how: str) -> str:
    """The text of a part."""
    if how.startswith("$ "):
        return f"```\n{output(how[2:])}\n```\n"
    name, *given = how.split()
    makers = (answers, findings, differences, studies, means, pieces, settings, claims)
    maker = {function.__name__: function for function in makers}[name]
    return "\n".join(maker(*given)) + "\n"


def output(command: str) -> str:
    """What a command prints on stdout."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "PATH": path},
    )  # fmt: skip
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())


def answers() -> Iterator[str]:
    """The table of README: what positional encoding gives, by how one looks."""
    yield "| accuracy with PE minus without | seeds | points | so |"
    yield "|---|---:|---:|---|"
    for study, point, words in ANSWERS:
        found = contrasts.differences(*published(study))
        row = found[found["point"] == point].iloc[0]
        most = 100 * max(abs(row["low"]), abs(row["high"]))
        so = {HELPS: "PE helps", UNDECIDED: f"we cannot say yet; {most:.1f} points at most"}.get(
            row["verdict"],
            f"less than {tables.margin(row)} points on these texts",
        )
        yield f"| {words} | {row['n']} of each | {size(row)} | {so} |"


def findings() -> Iterator[str]:
    """The findings of README, a sentence or two each."""
    cells = {count["unlike"]: count for count in k_counts(*published("blog_cells"))}
    (k,), scaled = k_counts(*published("blog")), cells["model.score.scale=true",]
    mean = contrasts.across(published("blog_data", "blog")).set_index("point").loc
    rivals = contrasts.differences(*published("baselines")).set_index(["variant", "point"])
    probed = output("attnexp probe outputs/published/blog --do uniform --json")
    even = pd.DataFrame(json.loads(probed)["effects"]).set_index(["variant", "metric"])
    lines = (
        """**Over-fitting.** Both models over-fit after the first epochs, the one without PE more;
        that is what PE changes.""",
        f"""**Attention.** Put the same weight on every word of a trained model without PE, and it
        gets better: {size(even.loc[("no_pe", "accuracy")])} points. A model without attention,
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
    return (fill("- " + " ".join(line.split()), 120, subsequent_indent="  ") for line in lines)


def published(*studies: str) -> list[Group]:
    """The groups of published studies."""
    return load([PUBLISHED / study for study in studies])


def size(row: "pd.Series[Any]") -> str:
    """A mean with its interval: `+2.53 [+2.32, +2.73]`."""
    around = tables.interval(row["low"], row["high"], True)
    return f"{tables.number(row['mean'], True, '+')} {around}"


def differences(*studies: str) -> Iterator[str]:
    """Every variant minus the baseline, the interactions of two factors, and the mean over data
    sets where there are several."""
    found = published(*studies)
    corners = [
        rows[rows["within"] == ""] for group in found if len(rows := contrasts.within(group))
    ]
    means = [contrasts.across(found)] if len(found) > 1 else []
    return table(pd.concat([*map(contrasts.differences, found), *corners, *means]))


def studies(*names: str) -> Iterator[str]:
    """Differences of several studies, of two factors within each level of the second."""
    found = []
    for name in names:
        for group in published(name):
            within = contrasts.within(group)
            rows = within[within["within"] != ""] if len(within) else contrasts.differences(group)
            found += [rows.assign(data=f"`{name}`, {group.data}")]
    return table(pd.concat(found))


def means(study: str) -> Iterator[str]:
    """Means over data sets of the differences within each level of the second factor."""
    rows = contrasts.across(published(study))
    level = [rows[name].str.rpartition("_")[2] for name in ("variant", "baseline")]
    return table(rows[(level[0] == level[1]) & ~rows["variant"].str.contains("−")])


def table(rows: pd.DataFrame) -> Iterator[str]:
    """A row for each difference: n, then size and verdict at each endpoint."""
    rows["difference"] = [name_of(row, rows["data"].nunique() > 1) for _, row in rows.iterrows()]
    heads = [f"{POINTS[point]} | verdict" for point in rows["point"].unique()]
    yield f"| difference | n | {' | '.join(heads)} |"
    yield f"|---|---:|{'---:|---|' * len(heads)}"
    for name, own in rows.groupby("difference", sort=False):
        cells = [f"{size(row)} | {judged(row)}" for _, row in own.iterrows()]
        yield f"| {name} | {own['n'].iloc[0]} | {' | '.join(cells)} |"


def judged(row: "pd.Series[Any]") -> str:
    """The verdict; a mean over data sets has none."""
    return tables.verdict_words(row) if isinstance(row.get("verdict"), str) else "–"


def name_of(row: "pd.Series[Any]", has_data: bool) -> str:
    """`pe − none`, with its data set, and with its level where the names do not say it."""
    sides = tables.sides(row)
    where = [row["data"]] * has_data + [row["within"]] * (row["within"] not in sides)
    return ", ".join(filter(None, [*where, sides]))


def pieces() -> Iterator[str]:
    """What a model can be made of."""
    yield "| choice | what it is |"
    yield "|---|---|"
    for place in PLACES:
        for name, text in describe()[place].items():
            yield f"| `{place}={name}` | {text} |"


def settings() -> Iterator[str]:
    """Every key: its default, its meaning with its bounds, and what it needs."""
    meaning: dict[str, str] = {}
    defaults: dict[str, dict[str, None]] = {}
    needs: dict[str, dict[str, None]] = {}
    for place in ("data", *PLACES):
        for option in groups()[place]:
            config = composed(f"{place}={option}")
            about = meanings(config)
            for key, section, f in walk(config):
                value = f.default_factory() if f.default_factory is not MISSING else f.default
                if f.name == "kind" or is_dataclass(value):
                    continue
                if value is MISSING or value == "???":  # left to the file of the option
                    value = getattr(section, f.name)
                choices = f"One of {', '.join(type(value))}" if isinstance(value, StrEnum) else ""
                said = [about[key].rstrip("."), bounds(f.type), choices]
                meaning[key] = ". ".join(filter(None, said))
                defaults.setdefault(key, {})[json.dumps(value).strip('"')] = None
                where = needs.setdefault(key, {})
                if (when := f.metadata.get("when")) is not None:
                    where[when.description] = None
                elif isinstance(section, Piece) and key.startswith(f"{place}."):
                    shared = {one.name for one in fields(section.base_spec or type(section))}
                    where |= {} if f.name in shared else {f"`{place}={option}`": None}
    yield "| key | default | meaning and bounds | needs |"
    yield "|---|---|---|---|"
    for key, said in meaning.items():
        yield f"| `{key}` | {' or '.join(defaults[key])} | {said} | {', '.join(needs[key])} |"


def bounds(annotation: Any) -> str:
    """The bounds that stand in a type: `Annotated[float, Ge(0), Lt(1)]` is At least 0, below 1."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    given = [
        f"{words[name]} {value}"
        for part in (annotation, *get_args(annotation))
        for one in getattr(part, "__metadata__", ())
        for name, value in getattr(one, "__dict__", {}).items()
        if name in words and value != 2**63
    ]
    return ", ".join(dict.fromkeys(given)).capitalize()


def composed(words: str) -> RunConfig:
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
    for claim in json.loads(output("attnexp claims --all --json"))["claims"]:
        cells = (claim[name] for name in ("id", "source", "claim", "measured", "n", "verdict"))
        yield f"| {' | '.join(str(cell or '').replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
