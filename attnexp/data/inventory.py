"""Inventory of data on this machine: the source of each set, and the cache."""

import textwrap
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from attnexp.base.errors import UserError
from attnexp.config import options
from attnexp.config.schema import PRESETS, DataConfig, DataName
from attnexp.data import encode, sources
from attnexp.data.cache import DAMAGED, cache_dir
from attnexp.data.quality import format_quality

SCHEMA = 1

NUM_SAMPLES = 3
"""Number of texts of a prepared set that are shown."""


def take(*configs: DataConfig) -> dict[str, Any]:
    """Sources of the data sets of `configs` and of each named one, and every cached encoding.

    Nothing is asked over the network; data that are not on this machine are listed as such.
    """
    presets = (options.read("data", name) for name in reversed(PRESETS))
    known = [DataConfig(**{**one, "name": DataName(one["name"])}) for one in presets]
    known += [DataConfig(name=DataName.contrast), DataConfig()]
    wanted = {str(one.name): one for one in (*known, *configs)}
    return {
        "schema": SCHEMA,
        "prepared": [],
        "sets": [_locate(one) for one in reversed(wanted.values())],
        "cache": str(cache_dir()),
        "files": [_describe(path) for path in sorted(cache_dir().glob("*.npz"))],
    }


def prepare(config: DataConfig) -> list[dict[str, Any]]:
    """Read and encode a data set into the cache. Returns its description in a list, which is empty
    for `contrast`, since that is generated."""
    dataset = encode.load(config)
    if config.name is DataName.contrast:
        return []
    path = encode.cache_path(sources.find(config), config)
    whole = encode.Ranked.load(path)
    (train, test), labels = whole.texts, whole.labels[0]
    lengths = np.diff(np.concatenate([train.offsets, train.offsets[-1] + test.offsets[1:]]))
    rows = [len(train) * (2 * i + 1) // (2 * NUM_SAMPLES) for i in range(NUM_SAMPLES)]
    texts = [*train]
    samples = [
        {
            "label": whole.classes[labels[row]],
            "text": " ".join(whole.words[rank - 1] for rank in texts[row] if rank),
        }
        for row in (rows if whole.words else ())
    ]
    described = {
        "name": config.title,
        "source": dataset.source,
        "file": path.name,
        "n_train": len(train),
        "n_test": len(test),
        "classes": len(whole.classes),
        "tokens_median": float(np.median(lengths)),
        "tokens_95": float(np.quantile(lengths, 0.95)),
        "tokens_longest": int(lengths.max()),
        "max_len": config.max_len,
        "share_cut": float((lengths + 1 > config.max_len).mean()),  # with the start token
        "samples": samples,
    }
    return [described]


def _locate(config: DataConfig) -> dict[str, Any]:
    found = {"name": str(config.name), "source": None, "missing": None, "encoded": None}
    if config.name is DataName.contrast:
        return found | {"source": "generated here; needs no file and no cache"}
    if sources.local_path(config)[0] is None:
        name = sources.hub_name(config)
        if not sources.cached(config):
            return found | {"missing": f"not here; from the hub: {name}"}
    try:
        source = sources.find(config)
    except UserError as error:
        return found | {"missing": str(error)}
    path = encode.cache_path(source, config)
    return found | {"source": source.description, "encoded": str(path) if path.exists() else None}


def show(inventory: dict[str, Any], console: Console) -> None:
    """Print the result of `take`; of what was prepared, if anything was."""
    for one in inventory["prepared"]:
        console.print(f"{one['name']}:", soft_wrap=True)
        _show_files([file for file in inventory["files"] if file["file"] == one["file"]], console)
        _show_prepared(one, console)
    if inventory["prepared"]:
        return
    for one in inventory["sets"]:
        encoded = "; encoded" if one["encoded"] else ""
        where = f"{one['source'] or one['missing']}{encoded}"
        console.print(f"{one['name']:14s}{where}", soft_wrap=True)
    console.print(f"\nCache: {inventory['cache']}", soft_wrap=True)
    _show_files(inventory["files"], console)
    if not inventory["files"]:
        console.print("  empty")


def _show_files(files: list[dict[str, Any]], console: Console) -> None:
    """Print cached encodings: size, origin, classes and what is questionable."""
    for file in files:
        size = f"{file['bytes'] / 1e6:.0f} MB"
        console.print(f"  {file['file']}  {size}, {file['made']}", soft_wrap=True)
        if "classes" in file:
            console.print(
                f"    {file['n_train']:,} + {file['n_test']:,} texts, {file['tokenizer']} "
                f"tokens, fingerprint {file['fingerprint']}\n    from {file['source']}",
                soft_wrap=True,
            )
            sizes = [
                f"{name} {train:,} + {test:,}" for name, (train, test) in file["classes"].items()
            ]
            told = f"{len(sizes)} classes: {'; '.join(sizes)}"
            console.print(textwrap.indent(textwrap.fill(told, 76, max_lines=5), "    "))
            if questions := format_quality(file["quality"]):
                console.print(textwrap.indent(textwrap.fill(questions, 76), "    "))
        else:
            console.print("    damaged or of another version; made again when needed")


def _show_prepared(one: dict[str, Any], console: Console) -> None:
    """Print the lengths of the texts of a prepared set, and some of them."""
    console.print(
        f"    tokens of a text: median {one['tokens_median']:.0f}, 95 % up to "
        f"{one['tokens_95']:.0f}, longest {one['tokens_longest']}\n"
        f"    data.max_len={one['max_len']} cuts {100 * one['share_cut']:.1f} % of the texts"
    )
    width = max((len(sample["label"]) for sample in one["samples"]), default=0)
    for sample in one["samples"]:
        line = f"{sample['label']:{width}s}  {sample['text']}"
        console.print(textwrap.indent(textwrap.fill(line, 74, max_lines=2), "    "), markup=False)


def _describe(path: Path) -> dict[str, Any]:
    stat = path.stat()
    made = datetime.fromtimestamp(stat.st_mtime).isoformat(sep=" ", timespec="minutes")
    described: dict[str, Any] = {"file": path.name, "bytes": stat.st_size, "made": made}
    try:
        return described | encode.describe(path)
    except DAMAGED:
        return described
