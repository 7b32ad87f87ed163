"""Sources: where a data set lies, on disk, in the Hugging Face cache, or on the hub."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from attnexp.base.errors import UserError, on_one_line
from attnexp.config.schema import DataConfig, DataName
from attnexp.data.read import FORMATS


class Source(NamedTuple):
    """Place of a data set."""

    title: str  # data.path, $ATTNEXP_IMDB, $ATTNEXP_DATA/cr, or the name of a data set of the hub
    path: str | None = None  # the file or folder to read; None on the hub

    def __str__(self) -> str:
        if self.path is None:
            return f"hub: {self.title}"
        return f"{self.title}: {self.path}"


def locate_source(data: DataConfig) -> Source:
    """The source that a config means: `data.path`, for IMDB `$ATTNEXP_IMDB`, or the folder of this
    name in `$ATTNEXP_DATA`; or else a data set of the hub."""
    if data.name is DataName.contrast:
        return Source("attnexp", "generated")
    if data.name is DataName.hub:
        return Source(data.path or "")
    if data.path is not None:
        return Source("data.path", data.path)
    imdb = os.environ.get("ATTNEXP_IMDB")
    if imdb and data.name is DataName.imdb:
        return Source("$ATTNEXP_IMDB", imdb)
    home = os.environ.get("ATTNEXP_DATA")
    if home:
        folder = Path(home, data.name).expanduser()
        if folder.exists():
            return Source(f"$ATTNEXP_DATA/{data.name}", str(folder))
    # The others are named sets of the hub: without a path, data=files is refused by the config.
    return Source("stanfordnlp/imdb" if data.name is DataName.imdb else data.hub or "")


def open_source(source: Source) -> tuple[Path, str]:
    """The file or folder of a source, and what result.json calls it: its variable, its path, or its
    name and commit. Raises `UserError`, which says what to do, where there is none."""
    if source.path is None:
        folder = download_snapshot(source.title)
        commit = folder.name[:12]
        return folder, f"hub: {source.title}@{commit}"
    path = Path(source.path).expanduser().absolute()
    if not path.exists():
        raise UserError(f"{source.title}={source.path} does not exist. Give {FORMATS}.")
    if source.title.startswith("$"):  # Results of two machines then name one source.
        return path, source.title
    return path, str(path)


def stamp_files(data: DataConfig) -> tuple[tuple[str, int], ...]:
    """Path and time of change of every file that may be read for a config; none for a data set of
    the hub, which its commit names, and for a generated one."""
    source = locate_source(data)
    if source.path is None or data.name is DataName.contrast:
        return ()
    path = Path(source.path).expanduser()
    files = [path]
    for pattern in ("*", "*/*", "*/*/*.txt", "aclImdb/*/*/*.txt"):  # all that `read` opens
        files += path.glob(pattern)
    return tuple((str(file), file.stat().st_mtime_ns) for file in files if file.exists())


def download_snapshot(name: str) -> Path:
    """Folder, named by its commit, of a data set of the hub: from its cache, else downloaded."""
    from huggingface_hub import HfApi, constants, snapshot_download

    with suppress(Exception):  # It is not in the cache, or no name that the hub could have.
        return Path(snapshot_download(name, repo_type="dataset", local_files_only=True))
    try:
        HfApi().dataset_info(name, timeout=5.0)  # The library's own retries take minutes.
        return Path(snapshot_download(name, repo_type="dataset"))
    except Exception as error:  # The errors of the hub's libraries have no base in common.
        raise UserError(
            f"Data set {name} is not in the Hugging Face cache and cannot be fetched from "
            f"{constants.ENDPOINT} ({on_one_line(error)[:300]}). Check its name, and try "
            f"again when online (HF_ENDPOINT names a mirror). Or give data.path=PATH, "
            f"$ATTNEXP_IMDB or $ATTNEXP_DATA/NAME: {FORMATS}. Or do without: data=contrast."
        ) from error
