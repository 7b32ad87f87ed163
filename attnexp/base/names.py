"""Names that users and files give, such as those of variants: one line of printable text."""

import unicodedata

from attnexp.base.errors import UserError


def check_name(name: str, what: str) -> str:
    """Return the name. Raises `UserError` where it has a line break or a control character, which
    would break tables and reach the terminal. what: what it is called in the message."""
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        raise UserError(
            f"{what} is named {name!a}, with a line break or control character. Rename it."
        )
    return name
