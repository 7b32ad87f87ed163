"""Write the parts of README.md and docs/ that a command makes: `make docs`.

A part stands between two comments. The first names a function below, with its arguments, or a
command, whose output is shown as in a terminal of 80 columns:

    <!-- made by: differences blog -->
    <!-- made by: $ attnexp report outputs/published/blog -->
    ...
    <!-- end -->
"""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from attnexp import results
from attnexp.analysis.answer import Answer, compare
from attnexp.analysis.contrasts import NO_BOUNDS, Difference
from attnexp.analysis.families import differences_from
from attnexp.analysis.metrics import ACCURACY
from attnexp.analysis.read_runs import load_groups
from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.options import groups
from attnexp.config.pieces import Piece
from attnexp.config.schema import RunConfig, meanings, walk
from attnexp.report import cells
from attnexp.report.cells import format_size
from attnexp.statistics.intervals import t_factor, t_interval

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
    makers: dict[str, Callable[..., Iterator[str]]] = {
        "answers": answers,
        "quoted": quoted,
        "probe": probe,
        "differences": differences,
        "studies": studies,
        "means": means,
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
    yield "| when it is measured | seeds | points | verdict |"
    yield "|---|---:|---:|---|"
    for study, point, words in ANSWERS:
        row = find_difference(compare_published(study), point)
        size = format_size(row.interval, row.metric)
        yield f"| {words} | {row.interval.n} of each | {size} | {row.words} |"


def quoted() -> Iterator[str]:
    """Numbers that sentences of README.md and docs/results.md quote, beside those of tables."""
    yield "| number | value | of |"
    yield "|---|---:|---|"
    for make in MAKERS_OF_NUMBERS:
        for name, value, source in make():
            yield f"| {name} | {value} | `{source}` |"


Numbers = Iterator[tuple[str, str, str]]
"""What a number is, the number, and the published study that it is made of."""


def falls() -> Numbers:
    """What accuracy on the test set loses between the epoch best with PE and the last."""
    _, epochs = results(PUBLISHED / "blog")
    rows = epochs[epochs["metric"] == "val_accuracy"]
    accuracy = rows.pivot(index="seed", columns=["variant", "epoch"], values="value")
    fall = {name: accuracy[name][2] - accuracy[name][5] for name in ("no_pe", "pe")}
    for name, values in fall.items():
        yield f"fall of accuracy from epoch 2 to 5, {name}", f"{100 * values.mean():.2f}", "blog"
    interval = t_interval(fall["no_pe"] - fall["pe"])
    difference = format_size(interval, ACCURACY)
    yield "the same, no_pe minus pe", difference, "blog"


def probes_of_blog() -> Numbers:
    """What uniform attention and the removal of one head cost, seed by seed."""
    source = "blog.probe"
    probe = pd.read_parquet(PUBLISHED / f"{source}.parquet")
    keys = ["variant", "seed"]
    untouched = probe[probe["intervention"] == ""].set_index(keys)["accuracy"]
    probe = probe.join(untouched.rename("before"), on=keys)
    probe["loss"] = probe["before"] - probe["accuracy"]
    uniform = probe[(probe["intervention"] == "uniform") & (probe["variant"] == "pe")]
    share = uniform["loss"] / (uniform["before"] - 0.5)
    name = "share of accuracy above 50 % that uniform attention costs, pe"
    yield name, format_share(share), source
    heads = probe[probe["intervention"].str.startswith("no_head")]
    for margin in (0.0025, 0.005):
        name = f"heads that cost less than {100 * margin:g} points when removed alone, pe"
        is_small = heads["loss"] < margin
        small = is_small[heads["variant"] == "pe"].groupby(heads["seed"]).mean()
        yield name, format_share(small), source
    costly = heads[(heads["variant"] == "no_pe") & (heads["loss"] >= 0.0025)]
    num_removals = (heads["variant"] == "no_pe").sum()
    name = "removals of a head that cost 0.25 points or more, no_pe"
    yield name, f"{len(costly)} of {num_removals}", source


def shuffled_share() -> Numbers:
    """What shuffled positions give as a share of what sinusoidal ones give: the ratio of two paired
    means, with Fieller's interval."""
    endpoints, _ = results(PUBLISHED / "position")
    is_final = (endpoints["point"] == "final") & (endpoints["metric"] == "accuracy")
    accuracy = endpoints[is_final].pivot(index="seed", columns="variant", values="value")
    shuffled = accuracy["shuffled"] - accuracy["none"]
    sinusoidal = accuracy["sinusoidal"] - accuracy["none"]
    n = len(accuracy)
    error = t_factor(n) ** 2 * pd.DataFrame({"a": shuffled, "b": sinusoidal}).cov() / n
    square = sinusoidal.mean() ** 2 - error.loc["b", "b"]
    linear = shuffled.mean() * sinusoidal.mean() - error.loc["a", "b"]
    constant = shuffled.mean() ** 2 - error.loc["a", "a"]
    root = math.sqrt(linear**2 - square * constant)
    ratio = shuffled.mean() / sinusoidal.mean()
    bounds = f"[{(linear - root) / square:.2f}, {(linear + root) / square:.2f}]"
    yield (
        "what shuffled gives, over what sinusoidal gives, last epoch",
        f"{ratio:.2f} {bounds}",
        "position",
    )


def losses_by_scaling() -> Numbers:
    """How often √d_k makes what PE costs smaller, on seven data sets at two endpoints."""
    sizes = []
    for study in ("blog_data", "blog_scaled_data"):
        endpoints, _ = results(PUBLISHED / study)
        rows = endpoints[endpoints["metric"] == "accuracy"]
        keys = ["data", "point", "seed"]
        accuracy = rows.pivot(index=keys, columns="variant", values="value")
        sizes.append(accuracy["pe"] - accuracy["no_pe"])
    changes = [t_interval(rows) for _, rows in (sizes[1] - sizes[0]).groupby(["data", "point"])]
    num_smaller = sum(change.low > 0 for change in changes)
    name = "comparisons in which √d_k raises pe − no_pe, each interval by itself"
    yield name, f"{num_smaller} of {len(changes)}", "blog_data, blog_scaled_data"


def shuffled_and_order() -> Numbers:
    """What ordered positions give beyond shuffled ones of the same size, over data sets."""
    study = "shuffled_x_embedding"
    compared = []
    for group in load_groups([PUBLISHED / study]):
        family = differences_from("shuffled_plain", group.variants)
        compared.append(replace(group, families=[family]))
    for row in compare(compared, ACCURACY).means:
        if row.contrast.variant == "pe_plain":
            name = f"pe − shuffled, plain, {row.data} data sets, {TITLES[row.endpoint.name]}"
            yield name, format_size(row.interval, ACCURACY), study


def numbers_of_k() -> Numbers:
    """How many of K's 40 numbers one more seed of each version of his code would give."""
    (cells,) = compare_published("blog_cells").comparisons
    for agreement in cells.agreements:
        version = " ".join(agreement.unlike) or "as K ran it"
        value = f"{agreement.num_inside} of {agreement.num_values}"
        yield f"K's numbers inside, {version}", value, "blog_cells"


MAKERS_OF_NUMBERS = (
    falls,
    numbers_of_k,
    probes_of_blog,
    shuffled_share,
    losses_by_scaling,
    shuffled_and_order,
)


def format_share(values: "pd.Series[float]") -> str:
    """The mean of shares over seeds with its 95 % interval: `60 % [44, 76]`."""
    interval = t_interval(values)
    return f"{100 * interval.mean:.0f} % [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"


def compare_published(*studies: str) -> Answer:
    """The answer of published studies."""
    return compare(load_groups([PUBLISHED / study for study in studies]), ACCURACY)


def find_difference(answer: Answer, point: str, variant: str = "") -> Difference:
    """The first difference at an endpoint, or that of a variant."""
    rows = [row for row in answer.differences if row.endpoint.name == point]
    if variant:
        rows = [row for row in rows if row.contrast.variant == variant]
    return rows[0]


def differences(*studies: str) -> Iterator[str]:
    """All differences of studies, and the mean over data sets where there are several."""
    answer = compare_published(*studies)
    rows = []
    for row in answer.differences:
        place = "mean over data sets" if row.is_mean else row.data
        rows.append(row_of_difference(row, place))
    return table(rows)


def probe(interventions: str) -> Iterator[str]:
    """What interventions on the models of `blog` change."""
    words = f"attnexp probe outputs/published/blog --do {interventions}"
    printed = run_command(f"{words} --table differences --format markdown")
    return (line for line in printed.splitlines() if line.startswith("|"))


def studies(*names: str) -> Iterator[str]:
    """Differences of several studies, of two factors within each level of the second."""
    rows = []
    for name in names:
        for row in compare_published(name).differences:
            if len(row.contrast.weights) == 2:
                rows.append(row_of_difference(row, f"`{name}`, {row.data}"))
    return table(rows)


def means(study: str) -> Iterator[str]:
    """Means over data sets: a row for each difference, a column for each level of the second factor
    and each endpoint."""
    sizes: dict[str, dict[str, str]] = {}
    for row in compare_published(study).differences:
        if row.is_mean and row.contrast.within:
            name = f"{row.contrast.variant_level} − {row.contrast.baseline_level}"
            column = f"{row.contrast.within}, {TITLES[row.endpoint.name]}"
            sizes.setdefault(name, {})[column] = format_size(row.interval, row.metric)
    columns = list(dict.fromkeys(column for by_column in sizes.values() for column in by_column))
    yield f"| difference | {' | '.join(columns)} |"
    yield f"|---|{'---:|' * len(columns)}"
    for name, by_column in sizes.items():
        yield f"| {name} | {' | '.join(by_column[column] for column in columns)} |"


COLUMNS = {"size": "", "texts": "other texts too", "verdict": "verdict"}
"""Headings of the cells of an endpoint; the first is the endpoint's own name."""

TITLES = {"final": "last epoch", "best": "best epoch", "chosen": "chosen epoch"}
"""Headings of the endpoints."""

ALIGNMENT = {"size": "---:|", "texts": "---:|", "verdict": "---|"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A difference at an endpoint as the tables of docs/ show it."""

    place: str  # data set, or mean over several
    name: str
    n: int
    endpoint: str
    size: str
    texts: str  # interval for other texts too
    verdict: str


def row_of_difference(row: Difference, place: str) -> Row:
    """A difference, under the name of a data set or study."""
    return Row(
        place=place,
        name=row.contrast.name,
        n=row.interval.n,
        endpoint=TITLES[row.endpoint.name],
        size=format_size(row.interval, row.metric),
        texts=cells.format_interval(row.texts or NO_BOUNDS, row.metric),
        verdict=row.words,
    )


def table(rows: list[Row]) -> Iterator[str]:
    """A line for each difference: n, then size, interval for other texts and verdict at each
    endpoint. Columns without any of these are left out."""
    endpoints = list(dict.fromkeys(row.endpoint for row in rows))
    columns = [column for column in COLUMNS if has_values(rows, column)]
    heads = ["difference", "n"]
    for endpoint in endpoints:
        heads += [COLUMNS[column] or endpoint for column in columns]
    alignment = "".join(ALIGNMENT[column] for column in columns)
    yield f"| {' | '.join(heads)} |"
    yield f"|---|---:|{alignment * len(endpoints)}"
    for name, by_endpoint in rows_by_difference(rows).items():
        num_seeds = " or ".join(dict.fromkeys(str(row.n) for row in by_endpoint.values()))
        cells = [name, num_seeds]
        for endpoint in endpoints:
            at_endpoint = by_endpoint.get(endpoint)
            cells += [getattr(at_endpoint, column, "–") for column in columns]
        yield f"| {' | '.join(cells)} |"


def rows_by_difference(rows: list[Row]) -> dict[str, dict[str, Row]]:
    """The rows of each difference, by endpoint; names have the place where there are several."""
    has_places = len({row.place for row in rows}) > 1
    by_difference: dict[str, dict[str, Row]] = {}
    for row in rows:
        name = f"{row.place}, {row.name}" if has_places else row.name
        by_difference.setdefault(name, {})[row.endpoint] = row
    return by_difference


def has_values(rows: list[Row], column: str) -> bool:
    """Whether any row has more than a dash there."""
    return any(getattr(row, column) != "–" for row in rows)


@dataclass
class Setting:
    """A row of the table of settings."""

    meaning: str = ""
    defaults: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)


def settings() -> Iterator[str]:
    """Every key: its default, its meaning with its bounds, and what it needs; a row for keys that
    differ in name alone."""
    rows: dict[str, Setting] = {}
    for place in ("data", *PLACES):
        for option in groups()[place]:
            add_settings(rows, place, option)
    yield "| key | default | meaning and bounds | needs |"
    yield "|---|---|---|---|"
    keys: dict[str, list[str]] = {}
    for key, row in rows.items():
        defaults = " or ".join(dict.fromkeys(row.defaults))
        needs = ", ".join(dict.fromkeys(row.needs))
        keys.setdefault(f"{defaults} | {row.meaning} | {needs}", []).append(f"`{key}`")
    for about_key, same_keys in keys.items():
        yield f"| {', '.join(same_keys)} | {about_key} |"


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
    yield "| id | from | claim | refuted by | measured | n | verdict |"
    yield "|---|---|---|---|---|---:|---|"
    document = json.loads(run_command("attnexp claims --all --json"))
    for record in document["claims"]:
        if record["verdict"] == "by construction":
            continue
        cells = []
        for name in ("id", "source", "claim", "refuted_by", "measured", "n", "verdict"):
            cell = str(record[name] or "")
            cells.append(cell.replace("|", r"\|"))
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
