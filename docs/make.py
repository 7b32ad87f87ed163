"""Write the parts of README.md and docs/ that a command makes: `make docs`.

A part stands between two comments. The first says how it is made, by a function below, with what
it is given, or by a command, whose output is then shown as it looks in a terminal of 80 columns:

    <!-- made by: settings -->
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
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from attnexp.analysis.contrasts import across
from attnexp.analysis.contrasts import differences as differences_of
from attnexp.analysis.contrasts import within as within_of
from attnexp.analysis.frames import Group, load
from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.options import describe, groups
from attnexp.config.pieces import Piece
from attnexp.config.schema import RunConfig, meanings, walk
from attnexp.report import tables
from attnexp.statistics.verdict import HELPS, ON_THESE_TEXTS, UNDECIDED

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "outputs" / "published"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PART = re.compile(r"(<!-- made by: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

PLACES = ("model", "model.before", "position", "mask", "model.score", "model.pooling")
"""Groups whose options are pieces of the model."""
ALIKE = ("model.output_projection=true", "model.residual=true", "model.norm=post",
         "model.feed_forward=128", "model.layers=2", "model.hidden=20",
         "position=sinusoidal position.combine=concat")  # fmt: skip
"""Settings that change what a model costs."""

ANSWERS = (
    ("blog", "final", "after five epochs, as K measured"),
    ("blog", "best", "at the best epoch of each"),
    ("blog_unscaled_holdout", "chosen", "at the epoch that held-out data choose"),
)
"""What the first page tells: published studies, where in their runs, and in words."""


def main(words: list[str]) -> int:
    """Write the pages anew; with names, only the parts of them. `--print NAME` prints one."""
    if words[:1] == ["--print"]:
        print(made(words[1]), end="")
        return 0
    for page in PAGES:
        old = page.read_text()
        new = PART.sub(
            lambda part: (
                part[1] + made(part[2]) + part[4] if not words or part[2] in words else part[0]
            ),
            old,
        )
        if new != old:
            page.write_text(new)
            print(f"{page.relative_to(ROOT)} is new")
    return 0


def made(how: str) -> str:
    """The text of a part."""
    if how.startswith("$ "):
        return f"\n```\n{shown(how[2:])}\n```\n\n"
    name, *given = how.split()
    makers = (answers, differences, within_data, published, pieces, settings, claims)
    maker: Callable[..., Iterator[str]] = {one.__name__: one for one in makers}[name]
    return "\n" + "\n".join(maker(*given)) + "\n\n"


def shown(command: str) -> str:
    """What a command prints on stdout."""
    bin = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "PATH": bin},
    )  # fmt: skip
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())


def answers() -> Iterator[str]:
    """What positional encoding gives, by how one looks."""
    yield "| with PE minus without | seeds | points | so |"
    yield "|---|---:|---:|---|"
    for study, point, words in ANSWERS:
        found = differences_of(_group(study))
        row = found[found["point"] == point].iloc[0]
        most = max(abs(row["low"]), abs(row["high"]))
        said = {
            HELPS: "PE helps",
            UNDECIDED: f"we cannot say yet; {100 * most:.1f} points at most",
            ON_THESE_TEXTS: "no difference of 0.25 points on these texts; on others it may be more",
        }.get(row["verdict"], "no difference that matters (0.25 points or more)")
        size = f"{tables.number(row['mean'], True, '+')} {_bounds(row)}"
        yield f"| {words} | {row['n']} of each | {size} | {said} |"


def differences(study: str) -> Iterator[str]:
    """Accuracy of each variant of a published study, and minus the baseline's, at every point."""
    group = _group(study)
    interactions = within_of(group)
    interactions = interactions[interactions["within"] == ""] if len(interactions) else interactions
    rows = pd.concat([differences_of(group), interactions])
    base = group.variants[0]
    yield f"| variant | at | accuracy, % | n | minus {base}, points | other texts too | verdict |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for name in group.variants:
        for point in group.points:
            values = group.values(point, "accuracy")[name].dropna()
            cells = [name, point, tables.mean_and_sd(values, True), str(len(values))]
            own = rows[(rows["variant"] == name) & (rows["point"] == point)]
            yield f"| {' | '.join([*cells, *(_cells(own.iloc[0]) if len(own) else '–––')])} |"
    for _, row in interactions.iterrows():
        cells = [f"({row['variant']}) − ({row['baseline']})", row["point"], "–", str(row["n"])]
        yield f"| {' | '.join([*cells, *_cells(row)])} |"
    if epochs := group.epochs_of("best"):
        yield f"\nbest: {', '.join(f'{name} {epoch}' for name, epoch in epochs.items())}."
    if (m := rows.iloc[0]["m"]) > 1:
        yield f"\nAll {m} intervals of an endpoint hold together (Bonferroni)."


def _cells(row: "pd.Series") -> list[str]:
    """The difference with its interval, that for other texts, and the verdict."""
    size = f"{tables.number(row['mean'], True, '+')} {_bounds(row)}"
    said = tables.verdict_words(row) + (" (anytime-valid)" if row["anytime"] else "")
    return [size, _bounds(row, "texts_"), said]


def _bounds(row: "pd.Series", prefix: str = "") -> str:
    return tables.interval(row[f"{prefix}low"], row[f"{prefix}high"], True)


def within_data(study: str, point: str) -> Iterator[str]:
    """Differences within levels on each data set of a published study, and their mean over data
    sets; a star where the interval for other seeds leaves out 0."""
    groups = load([PUBLISHED / study])
    rows = pd.concat([within_of(group) for group in groups])
    rows = rows[(rows["point"] == point) & (rows["within"] != "")]
    means = across(groups)
    means = means[means["point"] == point].set_index(["variant", "baseline"])
    yield f"| {point} | {' | '.join(group.data for group in groups)} | mean over data sets |"
    yield f"|---|{'---:|' * (len(groups) + 1)}"
    for (variant, baseline), own in rows.groupby(["variant", "baseline"], sort=False):
        signs = own["low"].gt(0) | own["high"].lt(0)
        cells = [
            tables.number(mean, True, "+") + "\\*" * star
            for mean, star in zip(own["mean"], signs, strict=True)
        ]
        mean = means.loc[(variant, baseline)]
        cells.append(f"{tables.number(mean['mean'], True, '+')} {_bounds(mean)}")
        yield f"| {variant} − {baseline} | {' | '.join(cells)} |"


def _group(study: str) -> Group:
    (group,) = load([PUBLISHED / study])
    return group


def published() -> Iterator[str]:
    """Every study that is published: on what, and how often."""
    yield "| study | data | protocol | variants | runs |"
    yield "|---|---|---|---:|---:|"
    for file in sorted(PUBLISHED.glob("*.parquet")):
        if ".probe" not in file.name:
            groups = load([file])
            names = ", ".join(group.data for group in groups)
            runs = sum(len(group.runs) for group in groups)
            variants = len({name for group in groups for name in group.variants})
            yield f"| `{file.stem}` | {names} | {groups[0].protocol} | {variants} | {runs} |"


def pieces() -> Iterator[str]:
    """What a model can be made of, and what it then costs."""
    from attnexp.model.classifier import cost_of

    yield "| choice | what it is | parameters | FLOPs |"
    yield "|---|---|---:|---:|"
    about = describe()
    named = {f"{place}={name}": text for place in PLACES for name, text in about[place].items()}
    for words, text in {**named, **dict.fromkeys(ALIKE, "")}.items():
        cost = cost_of(composed(words))
        yield (
            f"| `{words}` | {text} | {cost['parameters']:,} | "
            f"{cost['flops_per_example'] / 1e6:.1f} M |"
        )


def settings() -> Iterator[str]:
    """Every key: its default, where it acts, and its meaning with its bounds."""
    found: dict[str, tuple[str, str]] = {}
    acts: dict[str, list[str]] = {}
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
                text = [about[key].rstrip("."), bounds(f.type)]
                if isinstance(value, StrEnum):
                    text.append(f"One of {', '.join(type(value))}")
                found[key] = plain(value), ". ".join(filter(None, text))
                where = acts.setdefault(key, [])
                if (when := f.metadata.get("when")) is not None:
                    where.append(when.description)
                elif isinstance(section, Piece) and key.startswith(f"{place}."):
                    where += [f"`{place}={option}`"] * (f.name not in frame(section))
    yield "| key | default | meaning and bounds | acts with |"
    yield "|---|---|---|---|"
    for key, (value, words) in found.items():
        yield f"| `{key}` | {value} | {words} | {', '.join(dict.fromkeys(acts[key]))} |"


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


def plain(value: Any) -> str:
    """A default as one types it."""
    if value is None:
        return "–"
    return str(value).lower() if isinstance(value, bool) else str(value)


def frame(section: Piece) -> set[str]:
    """Settings that every choice in the place of a piece has."""
    return {f.name for f in fields(section.frame or type(section))}


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
    for claim in json.loads(shown("attnexp claims --all --out outputs/published --json"))["claims"]:
        cells = (claim[name] for name in ("id", "source", "claim", "measured", "n", "verdict"))
        yield f"| {' | '.join(str(cell or '').replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
