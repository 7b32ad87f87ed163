"""Data sets of the Hugging Face hub: from its cache if they are there, else over the network."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from attnexp.base import progress
from attnexp.base.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

DEADLINE = 5.0
"""Seconds the hub gets to answer a first request; the library's own retries take minutes."""


def cached(name: str, splits: Sequence[str] = ()) -> Path | None:
    """The folder of data set `name` in the cache, named by its commit; None if not there whole.

    splits: words that must occur in names of its files. Raises `UserError` if `name` cannot be the
    name of a data set of the hub.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, repo_type="dataset", local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    except HFValidationError:
        raise UserError(
            f"data.path={name} cannot be a hub data set's name, which reads like "
            f"stanfordnlp/imdb. A folder or file on disk is read with data=files."
        ) from None
    # The library knows what is missing after its own downloads, but not after those of others.
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
    numbered = [re.fullmatch(r"(.+)-\d+-of-0*(\d+)\..+", name) for name in names]
    parts = Counter(match.groups() for match in numbered if match)
    missing = any(found < int(wanted) for (_, wanted), found in parts.items())
    if missing or not all(any(split in name for name in names) for split in splits):
        return None
    return folder


def unreachable(name: str) -> str | None:
    """Reason why data set `name` cannot be fetched from the hub now; None if it can."""
    from huggingface_hub import HfApi, utils

    quiet(utils)
    try:
        HfApi().dataset_info(name, timeout=DEADLINE)
    except Exception as error:  # of two libraries, with no base in common
        return f"cannot be reached ({said(error)})"
    return None


def download(name: str, *, remedy: str) -> Path:
    """Fetch data set `name` into the cache, and return its folder there, named by its commit.

    Raises `UserError`, ending in `remedy`, when the hub cannot be reached or lacks the data set.
    """
    from huggingface_hub import HfApi, snapshot_download, utils
    from huggingface_hub.constants import ENDPOINT
    from huggingface_hub.errors import HfHubHTTPError

    quiet(utils)
    wanted = f"data set {name} at {ENDPOINT}"
    try:
        HfApi().dataset_info(name, timeout=DEADLINE)
        return Path(snapshot_download(name, repo_type="dataset"))
    except Exception as error:  # two libraries and what they stand on: no common base
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
        if status == 404:
            reason = f"There is no {wanted}. Check its spelling."
        elif status in (401, 403):
            reason = (
                f"The {wanted} is private, gated or not there ({status}). Check its spelling; ask "
                f"for access on its page, then log in with `hf auth login` or set HF_TOKEN."
            )
        else:
            reason = f"The {wanted} cannot be fetched ({said(error)}), and the cache lacks it."
        raise UserError(f"{reason}\n{remedy}") from None


def tables(
    folder: Path, config: str | None = None, train: str = "train", test: str | None = None
) -> dict[str, "pa.Table"]:
    """Tables of a data set's folder: train and, if there is one, test. Without splits all is train.

    The folder is one that `datasets` reads by its card, or that `save_to_disk` wrote. config,
    train, test: names of the configuration and the splits; None for the only configuration, and
    for the split `test` if it exists. Raises `UserError` if there is nothing of these names.
    """
    import datasets
    from huggingface_hub import utils

    quiet(datasets.utils, utils)
    with TemporaryDirectory() as scratch:
        try:
            if is_saved(folder):
                remedy = "Save it again."
                found = datasets.load_from_disk(str(folder), keep_in_memory=True)
            else:
                remedy = (
                    f"If it has several configurations, choose one: data.config=NAME. If its files "
                    f"are damaged, delete {folder.parents[1]}, to download it again."
                )
                found = datasets.load_dataset(
                    str(folder), config, cache_dir=scratch, keep_in_memory=True
                )
        except Exception as error:  # each file format has its own
            raise UserError(
                f"The data set in {folder} cannot be read ({said(error)}). {remedy}"
            ) from None
    if not isinstance(found, dict):
        found = {train: found}
    if missing := {train, test or train} - found.keys():
        raise UserError(
            f"The data set in {folder} has the splits {', '.join(found)}, but no "
            f"{' and '.join(sorted(missing))}. Choose two: data.train_split=NAME "
            f"data.test_split=NAME."
        )
    if test is None and "test" in found:
        test = "test"
    names = {"train": train} | ({"test": test} if test else {})
    if ignored := found.keys() - names.values():
        progress.note(f"Not read: the splits {', '.join(sorted(ignored))}.")
    return {split: found[name].with_format("arrow")[:] for split, name in names.items()}


def is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` of `datasets` wrote the folder."""
    return any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))


def quiet(*libraries: Any) -> None:
    """Silence a library's log, and its progress bars unless stderr is a terminal. Errors are
    reported once, by us."""
    for utils in libraries:
        utils.logging.set_verbosity(utils.logging.CRITICAL)
        if progress.console.quiet or not progress.console.is_terminal:
            utils.disable_progress_bars()


def said(error: Exception) -> str:
    """Type and message of a library's error, in one line."""
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {' '.join(str(cause).split())[:300]}"
