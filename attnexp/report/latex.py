"""Tables as LaTeX, with numbers in math mode."""

import re
from collections.abc import Iterable, Sequence

from attnexp.report.cells import Table

PACKAGES = "% \\usepackage{booktabs}, and XeLaTeX, LuaLaTeX or \\usepackage[utf8]{inputenc}."
"""First line of a LaTeX document's part."""


def latex_tables(found: Iterable[Table]) -> str:
    r"""Tables for `\usepackage{booktabs}`, one `table` environment each."""
    return "\n\n".join([PACKAGES, *map(latex_table, found)])


def latex_table(table: Table) -> str:
    """A `table` environment, with title and notes as its caption."""
    caption = " ".join(f"{line.rstrip('.')}." for line in [table.title, *table.notes])
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escaped(caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\toprule",
            _row(table.columns),
            r"\midrule",
            *(_row(row) for row in table.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def escaped(text: str) -> str:
    """The text with its special characters escaped, and signed numbers, intervals and means with
    their deviation in math mode. Numbers within words, such as `seed-1` or `lr=-1`, are text."""
    done, end = "", 0
    for found in _MATH.finditer(text):
        math = re.sub(r"e([+-]?)0*(\d+)", _power, found[0].replace("±", r"\pm"))
        done += f"{text[end : found.start()].translate(_ESCAPES)}${math}$"
        end = found.end()
    return done + text[end:].translate(_ESCAPES)


def _row(cells: Sequence[str]) -> str:
    return " & ".join(f"${c}$" if _PLAIN.fullmatch(c) else escaped(c) for c in cells) + r" \\"


def _power(exponent: re.Match[str]) -> str:
    return rf" \times 10^{{{exponent[1].strip('+')}{exponent[2]}}}"


_PLAIN = re.compile(r"\d*\.?\d+")
"""A number without a sign."""

_NUMBER = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)"

_MATH = re.compile(
    rf"(?<![\w.,=/-])(?:\[{_NUMBER}, {_NUMBER}\]|{_NUMBER} ± {_NUMBER}|±{_NUMBER}"
    rf"|{_NUMBER}e[+-]?\d+|[+-]{_NUMBER})(?![\w-])"
)
"""What stands in math mode."""

_ESCAPES = str.maketrans(
    {character: "\\" + character for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"[": "{[}", "*": "{*}"}  # after a line break, these would belong to it
    | {"±": r"$\pm$", "≤": r"$\leq$", "Δ": r"$\Delta$", "×": r"$\times$"}
    | {"−": "$-$", "<": "$<$", ">": "$>$", "–": "--"}
)
