"""Groups of runs on disk and of published studies."""

from collections.abc import Callable, Sequence
from pathlib import Path

from attnexp.analysis.group import Group
from attnexp.analysis.make_groups import make_groups
from attnexp.analysis.read_published import load_published
from attnexp.analysis.rows import RunRows, as_rows
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.runs import manifest, store
from attnexp.runs.manifest import Manifest


def load_groups(
    paths: Sequence[Path], left_out: Callable[[str], object] = progress.note
) -> list[Group]:
    """Groups of run folders, study folders and published files, with or without `.parquet`.
    left_out: gets a message on each that cannot be read. Raises `UserError` where nothing can."""
    runs: list[RunRows] = []
    studies: dict[str, Manifest] = {}
    messages: list[str] = []
    for path in dict.fromkeys(paths):
        file = Path(f"{str(path).removesuffix('.parquet')}.parquet")
        is_published = file.is_file()
        if not is_published:
            manifest.check_folder(path)
        read: list[RunRows] = []
        with store.leaving_out(path, messages.append):
            if is_published:
                read, studies[str(path)] = load_published(file, str(path))
            else:
                read = _load_folder(path, studies, messages)
        if not read:
            messages.append(f"There is no finished run in {path} that can be read.")
        runs += read
    if not runs:
        raise UserError("\n".join(messages))
    for message in messages:
        left_out(message)
    return make_groups(runs, studies)


def _load_folder(folder: Path, studies: dict[str, Manifest], messages: list[str]) -> list[RunRows]:
    """The runs of a folder, whose study, if any, is added to `studies`. Without one, no run has a
    label: those of several studies do not say in what their variants differ."""
    key = str(folder)
    study = manifest.load_manifest(folder)
    if study is not None:
        studies[key] = study
    runs = []
    for run in manifest.load_runs(folder, messages.append):
        with store.leaving_out(run.path, messages.append):
            runs.append(as_rows(run, key))
    return runs
