"""Atomic writes and messages."""

from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Capture

from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, writing
from attnexp.base.progress import duration, note, track


def test_a_write_is_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    with atomic_write(file) as stream:
        stream.write(b"before")
    with suppress(KeyboardInterrupt), atomic_write(file) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert file.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_place_that_cannot_be_written_gives_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "no/such/folder", tmp_path / "file"):
        refused = pytest.raises(UserError, match=f"{place}.*out=DIR")
        with refused, writing(place), atomic_write(place / "x"):
            pass


def test_notes_are_plain_lines(capsys: Capture) -> None:
    note("[bold] stays :smile: \x1b[2J\u202e")
    assert capsys.readouterr().err == "[bold] stays :smile: \\x1b[2J\\u202e\n"
    assert [*track([1, 2], "x")] == [1, 2]
    assert [duration(s) for s in (45, 720, 12_000)] == ["45 s", "12 min", "3 h 20 min"]
