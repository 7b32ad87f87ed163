"""Fonts of a PDF or PNG for the characters that matplotlib's own font lacks.

SVG needs none: its text is text, and whoever shows it finds the fonts.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from attnexp.base.progress import note

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE = "DejaVu Sans"
"""Matplotlib's own font."""


def use_installed(figure: "Figure") -> None:
    """Give the texts of a figure installed fonts for the characters that `BASE` lacks.

    Tells the user which characters no installed font has; they are drawn as boxes.
    """
    from matplotlib.font_manager import findfont
    from matplotlib.text import Text

    texts = [artist for artist in figure.findobj(Text) if isinstance(artist, Text)]
    shown = {c for text in texts for c in text.get_text() if not c.isspace()}
    missing = shown - _characters(findfont(BASE))
    if not missing:
        return
    chosen = [BASE]
    installed = dict(_installed())
    while missing and installed:
        best = min(installed, key=lambda name: (-len(missing & installed[name]), name))
        if not (has := missing & installed.pop(best)):
            break
        chosen.append(best)
        missing -= has
    for text in texts:
        text.set_fontfamily(chosen)
    if missing:
        note(
            f"No installed font has {' '.join(sorted(missing))}; the figure shows boxes there. "
            f"Install one that has them, or write an .svg, whose text is text."
        )


def _installed() -> Iterator[tuple[str, set[str]]]:
    """Name and characters of every upright font of normal weight on this machine."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    installed = set(findSystemFonts())
    known = {font.fname for font in fontManager.ttflist}  # a list that matplotlib stores
    for path in sorted(installed - known):
        with suppress(OSError, RuntimeError, NotImplementedError):  # a bitmap font
            fontManager.addfont(path)
    for font in fontManager.ttflist:
        if font.fname in installed and (font.style, font.weight) == ("normal", 400):
            yield font.name, _characters(font.fname)


def _characters(path: str) -> set[str]:
    from matplotlib.ft2font import FT2Font

    return {chr(code) for code in FT2Font(path).get_charmap()}
