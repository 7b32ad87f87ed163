"""What `attnexp data` shows: where each data set comes from, and what those hold that it reads."""

from typing import Any

import numpy as np

from attnexp.config import options
from attnexp.config.schema import PRESETS, DataConfig, DataName
from attnexp.data import encode, load
from attnexp.data.corpus import find_problems, some


def locate(config: DataConfig) -> str:
    """Where a data set would be read from. The hub is not asked."""
    if config.name is DataName.contrast:
        return "generated"
    place, setting = load.local_path(config)
    if place is not None:
        return f"{setting}: {place}"
    there = "in its cache" if load.cached(load.hub_name(config)) else "not on this machine"
    return f"hub: {load.hub_name(config)}, {there}"


def locate_all(*configs: DataConfig) -> dict[str, str]:
    """Places of the data sets of `configs` and of each named one, by name."""
    named = [options.read("data", name) for name in ("imdb", "contrast", *PRESETS)]
    known = [DataConfig(name=DataName(one["name"]), hub=one.get("hub")) for one in named]
    return {one.title: locate(one) for one in (*known, *configs)}


def describe(config: DataConfig) -> dict[str, Any]:
    """Read a data set, encode it into the cache, and describe it: sizes, problems, three texts."""
    corpus = encode.read_corpus(config)
    ranks, words = encode.rank_corpus(corpus, config)
    rows = corpus.rows
    sizes = rows.groupby(["label", "split"], sort=False).size().unstack(fill_value=0).sort_index()
    lengths = np.concatenate([np.diff(split.offsets) for split in ranks.values()])
    chosen = rows.iloc[[len(rows) * part // 6 for part in (1, 3, 5)]] if words else rows[:0]
    return {
        "name": config.title,
        "source": corpus.source,
        "fingerprint": encode.fingerprint(corpus, ranks, words),
        "texts": rows.split.value_counts(sort=False).to_dict(),
        "classes": dict(zip(corpus.classes, sizes.to_dict("records"), strict=True)),
        "quality": find_problems(corpus, ranks) if words else {},
        "tokens": {
            "median": float(np.median(lengths)),
            "95 %": float(np.quantile(lengths, 0.95)),
            "longest": int(lengths.max()),
        },
        # with the start token
        "cut": f"{np.mean(lengths + 1 > config.max_len):.1%} by data.max_len={config.max_len}",
        "samples": [
            f"{corpus.classes[row.label]}: {some([row.text])}" for row in chosen.itertuples()
        ],
    }


def format_description(described: dict[str, Any]) -> str:
    """A description, or the places of data sets, a line for each entry."""
    lines = []
    for name, value in described.items():
        if isinstance(value, dict):
            value = "; ".join(f"{some([key])} {held}" for key, held in value.items())
        ...
    return "\n".join(lines)
