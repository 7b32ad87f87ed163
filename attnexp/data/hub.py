"""Data sets of the Hugging Face hub: in its cache if they are there, else over the network.

A cached data set is found and read without importing `datasets` and without any request. Before a
download one short request asks whether the hub answers at all, because the libraries' own retries
take minutes to give up.
"""

import json
import logging
import os
import queue
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attnexp.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

DEADLINE = 5.0
"""Seconds the hub gets to answer the first request, name resolution included."""


def remote(name: str, *, remedy: str) -> tuple[Path, Callable[[], None]]:
    """Where data set `name` will be in the cache, and what downloads it there, whole or not at all.

    Raises `UserError`, ending in `remedy`, when the hub cannot be reached or lacks the data set;
    so does the download.
    """
    with _friendly(name, remedy), _quiet():
        commit = _commit(name)
        import datasets

        # The scheme keeps a local folder of the same name out of it. A fixed commit spares the
        # request to the data set viewer, which mirrors lack.
        builder = datasets.load_dataset_builder(f"hf://datasets/{name}", revision=commit)

    def fetch() -> None:
        with _friendly(name, remedy), _quiet():
            builder.download_and_prepare()

    return Path(builder.cache_dir), fetch


def cached(name: str) -> Path | None:
    """The newest folder that `datasets` filled for `name`: `<name>/<config>/<version>/<commit>`.

    None when several configurations are there: which is the default, only the hub knows.
    """
    from huggingface_hub.constants import HF_HOME

    root = Path(os.environ.get("HF_DATASETS_CACHE", f"{HF_HOME}/datasets")).expanduser()
    *namespace, last = name.split("/")
    infos = (root / "___".join([*namespace, _snake_case(last)])).glob("*/*/*/dataset_info.json")
    folders = [info.parent for info in infos if not info.parent.name.endswith(".incomplete")]
    # Loading with options of one's own (data_files=...) gives the folder a longer name than the
    # configuration's: not the whole data set.
    whole = [folder for folder in folders if _config_name(folder) == folder.parts[-3]]
    if len({folder.parts[-3] for folder in whole}) != 1:
        return None
    return max(whole, key=lambda folder: folder.stat().st_mtime)


def snapshot(name: str) -> Path | None:
    """The repository's parquet files as `hf download` leaves them in the cache; None if not there.

    Raises `UserError` if no data set of the hub can be called `name`.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    wanted = ["*train-*.parquet", "*test-*.parquet"]
    try:
        folder = snapshot_download(
            name, repo_type="dataset", local_files_only=True, allow_patterns=wanted
        )
    except LocalEntryNotFoundError:
        return None
    except HFValidationError:
        raise UserError(
            f"data.path={name} cannot be a hub data set's name, which reads like "
            f"stanfordnlp/imdb. A folder or file on disk is read with data=files."
        ) from None
    return Path(folder)


def tables(folder: Path) -> dict[str, "pa.Table"]:
    """The train and test tables of a filled cache folder.

    Raises `UserError` if the data set has no such splits or the folder is not whole.
    """
    import pyarrow as pa

    splits = json.loads((folder / "dataset_info.json").read_text("utf-8"))["splits"]
    if not {"train", "test"} <= splits.keys():
        raise UserError(
            f"The data set in {folder} has the splits {', '.join(splits)}; train and test are "
            f"needed. Choose another, or save the two as parquet and use data=files."
        )
    found = {}
    for split in ("train", "test"):
        shard = re.compile(rf".+-{split}(-\d+-of-\d+)?\.arrow")
        paths = sorted(path for path in folder.iterdir() if shard.fullmatch(path.name))
        parts = [pa.ipc.open_stream(pa.memory_map(str(path))).read_all() for path in paths]
        if sum(part.num_rows for part in parts) != splits[split]["num_examples"]:
            raise UserError(
                f"{folder} lacks rows of {split}. Delete this folder, to download it again."
            )
        found[split] = pa.concat_tables(parts)
    return found


def _config_name(folder: Path) -> object:
    return json.loads((folder / "dataset_info.json").read_text("utf-8")).get("config_name")


def _snake_case(name: str) -> str:
    """As `datasets` names its cache folders."""
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z\d])([A-Z])", r"\1_\2", name).lower()


def _commit(name: str) -> str:
    """The commit of the data set's main branch, asked of the hub within `DEADLINE`."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    answer: queue.SimpleQueue[str | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer.put(HfApi().dataset_info(name, timeout=DEADLINE).sha or "main")
        except Exception as error:
            answer.put(error)

    # In a thread, because no timeout of the library covers name resolution.
    threading.Thread(target=ask, daemon=True).start()
    try:
        result = answer.get(timeout=DEADLINE)
    except queue.Empty:
        raise ConnectionError(f"no answer within {DEADLINE:.0f} seconds") from None
    if isinstance(result, HfHubHTTPError):
        raise result
    if isinstance(result, Exception):
        raise ConnectionError(f"{type(result).__name__}: {result}")
    return result


@contextmanager
def _friendly(name: str, remedy: str) -> Iterator[None]:
    """Turn whatever the libraries raise into a `UserError`."""
    try:
        yield
    except Exception as error:  # two libraries and what they stand on: no common base
        raise UserError(f"{_reason(name, error)}\n{remedy}") from None


def _reason(name: str, error: Exception) -> str:
    from huggingface_hub.constants import ENDPOINT
    from huggingface_hub.errors import HfHubHTTPError

    status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
    at_hub = f"data set {name} at {ENDPOINT}"
    if status == 404:
        return f"There is no {at_hub}. Check its spelling."
    if status in (401, 403):
        return (
            f"The {at_hub} is private, gated or not there ({status}). Check its spelling; ask for "
            f"access on its page, then log in with `hf auth login` or set HF_TOKEN."
        )
    cause = error.__cause__ or error
    told = " ".join(str(cause).split())[:300]
    if isinstance(error, ConnectionError):
        return f"{ENDPOINT} cannot be reached ({told}), and {name} is not in the cache."
    return f"The {at_hub} cannot be loaded ({type(cause).__name__}: {told})."


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' warnings and progress bars off the terminal."""
    import datasets.utils
    import huggingface_hub.utils

    loggers = [logging.getLogger("datasets"), logging.getLogger("huggingface_hub")]
    levels = [logger.level for logger in loggers]
    libraries = [datasets.utils, huggingface_hub.utils]
    barred = [library for library in libraries if not library.are_progress_bars_disabled()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        for library in barred:
            library.disable_progress_bars()
        try:
            yield
        finally:
            for library in barred:
                library.enable_progress_bars()
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
