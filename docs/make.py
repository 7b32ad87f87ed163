"""Write the parts of README.md and docs/ that a command makes: `make docs`.

A part stands between two comments. The first says how it is made, by a function below, with what
it is given, or by a command, whose output is then shown as it looks in a terminal of 80 columns:

    <!-- made by: settings -->
    <!-- made by: differences blog -->
    <!-- made by: $ attnexp report outputs/published/blog -->
    ...
    <!-- end -->
"""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from attnexp.analysis.comparison import Comparison, compare
from attnexp.analysis.differences import Difference
from attnexp.base.errors import UserError
from attnexp.config import schema
from attnexp.config.checks import format_bounds
from attnexp.config.compose import compose
from attnexp.config.options import describe, groups
from attnexp.config.pieces import Piece
from attnexp.config.schema import RunConfig, walk
from attnexp.report import verdicts
from attnexp.report.cells import format_difference, format_mean
from attnexp.report.differences import format_levels
from attnexp.runs import manifest
from attnexp.statistics.meta import meta
from attnexp.statistics.paired import Paired
from attnexp.statistics.verdict import POINTS

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
    ("blog", "final", "K's code, the last of five epochs, as he measured"),
    ("blog", "best", "K's code, the epoch that is best on average over seeds"),
    ("blog_unscaled_holdout", "chosen", "K's code, the epoch chosen on held-out data"),
    ("blog_scaled", "final", "scores divided by √d_k, the last epoch"),
    ("blog_scaled", "best", "scores divided by √d_k, the best epoch"),
    ("blog_holdout", "chosen", "scores divided by √d_k, the epoch chosen on held-out data"),
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
    yield "| with PE minus without | study | seeds | points | other texts too | verdict |"
    yield "|---|---|---:|---:|---:|---|"
    for study, point, words in ANSWERS:
        compared = _compared(study)
        n, rest = _format_difference(compared, "pe", point)
        size, verdict = rest.split(" | ")
        difference = compared.differences["pe"][point]
        texts = None if difference.sequential else difference.texts  # not anytime-valid
        wide = POINTS.interval(texts.low, texts.high).strip() if texts else "–"
        if point == "best":
            words += f" ({', '.join(f'{v.label} {v.best_epoch}' for v in compared.variants)})"
        yield f"| {words} | `{study}` | {n} | {size} | {wide} | {verdict} |"


def differences(study: str) -> Iterator[str]:
    """Accuracy of each variant of a published study, and minus the baseline's, at every point."""
    comparison = _compared(study)
    baseline = comparison.variants[0].label
    yield f"| variant | at | accuracy, % | n | minus {baseline}, points | verdict |"
    yield "|---|---|---:|---:|---:|---|"
    for variant in comparison.variants:
        for point in comparison.points:
            accuracy = variant.means[point]["accuracy"]
            shown, n, rest = format_mean(accuracy, POINTS.plain), accuracy.n, "– | –"
            if comparison.differences.get(variant.label):
                n, rest = _format_difference(comparison, variant.label, point)
            if n != accuracy.n:
                shown += f" (n = {accuracy.n})"
            at = verdicts.heading(comparison, "accuracy", point)
            yield f"| {variant.label} | {at} | {shown} | {n} | {rest} |"
    for interaction in comparison.interactions:
        one, two, three, four = interaction.variants
        for name, difference in interaction.points.items():
            n, size = _size(difference)
            said, _, _ = verdicts.format_interaction(interaction, difference).partition(":")
            yield f"| ({one} − {two}) − ({three} − {four}) | {name} | – | {n} | {size} | {said} |"
    yield f"\n{'. '.join(verdicts.endpoints(comparison))}."


def within_data(study: str, point: str) -> Iterator[str]:
    """Differences within levels on each data set of a published study, and their mean over data
    sets; a star where the 95 % interval for other seeds leaves out 0."""
    compared = compare(manifest.load_runs([PUBLISHED / study]))
    yield f"| {point} | {' | '.join(one.title for one in compared)} | mean over data sets |"
    yield f"|---|{'---:|' * (len(compared) + 1)}"
    by_levels: dict[str, list[Paired]] = {}
    for comparison in compared:
        for each in comparison.within:
            pair = each.points[point].metrics["accuracy"]
            by_levels.setdefault(", ".join(format_levels(each)), []).append(pair)
    for name, pairs in by_levels.items():
        cells = []
        for pair in pairs:
            assert pair.low is not None
            assert pair.high is not None
            star = "\\*" if pair.low > 0 or pair.high < 0 else ""
            cells.append(POINTS.signed(pair.difference.mean) + star)
        mean = meta([pair.difference.mean for pair in pairs], [pair.se for pair in pairs])
        cells.append(POINTS.signed(mean.mean) + POINTS.interval(mean.low, mean.high))
        yield f"| {name} | {' | '.join(cells)} |"


def _compared(study: str) -> Comparison:
    (comparison,) = compare(manifest.load_runs([PUBLISHED / study]))
    return comparison


def _format_difference(comparison: Comparison, label: str, point: str) -> tuple[int, str]:
    """Pairs; and in two cells the mean with its 95 % interval, if there are two or more, and the
    verdict. Both are anytime-valid where seeds were added because of the results."""
    difference = comparison.differences[label][point]
    n, size = _size(difference)
    said, _, _ = difference.verdict("accuracy").line.partition(":")
    if difference.sequential:
        return n, f"{size} | {said} (anytime-valid)"
    return n, f"{size} | {'–' if n == 1 else said}"  # one seed says nothing


def _size(difference: Difference) -> tuple[int, str]:
    """Pairs, and the mean with its 95 % interval if there are two or more."""
    return difference.metrics["accuracy"].difference.n, format_difference(difference)


def published() -> Iterator[str]:
    """Every study that is published: on what, how often, and the commit that made its runs, with
    `+` where that was changed."""
    yield "| study | data | protocol | variants | runs | commit |"
    yield "|---|---|---|---:|---:|---|"
    for folder in sorted(file.parent for file in PUBLISHED.glob(f"*/{manifest.FILE}")):
        runs = manifest.load_runs([folder])
        first = runs[0].result
        names = ", ".join(dict.fromkeys(run.result.data["name"] for run in runs))
        hashes = {str(run.result.provenance["commit"]) for run in runs}
        commits = ", ".join(sorted(f"{one[:7]}{one[40:]}" for one in hashes))
        yield (
            f"| `{folder.name}` | {names} | {first.config['train']['protocol']} | "
            f"{len({run.label for run in runs})} | {len(runs)} | {commits} |"
        )


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
    """Every key: its default and bounds, where it acts, and its meaning."""
    found: dict[str, tuple[str, str]] = {}
    acts: dict[str, list[str]] = {}
    options: dict[str, list[str]] = {"data": groups()["data"], **{p: groups()[p] for p in PLACES}}
    for place, names in options.items():
        for option in names:
            config = composed(f"{place}={option}")
            for key, section, f in walk(config):
                value = f.default_factory() if f.default_factory is not MISSING else f.default
                if f.name == "kind" or is_dataclass(value):
                    continue
                if value == "???":  # left to the file of the option
                    value = getattr(section, f.name)
                bounds = format_bounds(f.metadata.get("bounds", ()))
                about = [meaning(section, f), bounds.capitalize()]
                if isinstance(value, StrEnum):
                    about.append(f"One of {', '.join(type(value))}")
                found[key] = plain(value), ". ".join(filter(None, about))
                where = acts.setdefault(key, [])
                if (when := f.metadata.get("when")) is not None:
                    where.append(when.description)
                elif isinstance(section, Piece) and key.startswith(f"{place}."):
                    where += [f"`{place}={option}`"] * (f.name not in frame(section))
    yield "| key | default | meaning and bounds | acts with |"
    yield "|---|---|---|---|"
    for key, (value, text) in found.items():
        yield f"| `{key}` | {value} | {text} | {', '.join(dict.fromkeys(acts[key]))} |"


def plain(value: Any) -> str:
    """A default as one types it."""
    if value is None:
        return "–"
    return str(value).lower() if isinstance(value, bool) else str(value)


def frame(section: Piece) -> set[str]:
    """Settings that every choice in the place of a piece has."""
    (base, *_) = type(section).__bases__
    return {f.name for f in fields(base)}


def meaning(section: Any, f: Any) -> str:
    """What a field is for: with its annotation, or in the text below it."""
    if about := f.metadata.get("about"):
        return str(about).rstrip(".")
    for owner in type(section).__mro__:
        if owner.__module__ == schema.__name__ and (text := texts(owner.__name__).get(f.name)):
            return " ".join(text.split()).rstrip(".")
    return ""


def texts(owner: str) -> dict[str, str]:
    """The strings that stand below the fields of a class of `config.schema`."""
    (node,) = (
        node
        for node in ast.parse(inspect.getsource(schema)).body
        if isinstance(node, ast.ClassDef) and node.name == owner
    )
    return {
        field.target.id: text.value.value
        for field, text in zip(node.body, node.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }  # fmt: skip


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
