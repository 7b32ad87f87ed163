"""What is needed to repeat the numbers of a page: configuration, data, code and machine."""

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attnexp.base.progress import duration
from attnexp.runs.identity import settings
from attnexp.runs.result import Run


def as_yaml(config: dict[str, Any]) -> str:
    """A config without its seeds and place."""
    import yaml

    kept = {key: value for key, value in config.items() if key not in ("seed", "seeds", "out")}
    text: str = yaml.safe_dump(kept, sort_keys=False, allow_unicode=True)
    return text


def differing(config: dict[str, Any], baseline: dict[str, Any]) -> list[str]:
    """Settings that a baseline does not have, or has otherwise, as `key: value`."""
    others = settings(baseline)
    return [
        f"{key}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in settings(config).items()
        if key not in others or value != others[key]
    ]


def provenance(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """What is needed to repeat the numbers: name and the distinct values among the runs."""
    results = [run.result for run in runs]

    def values(key: str) -> list[str]:
        return _distinct(result.provenance.get(key) for result in results)

    data = [result.data for result in results]
    started = sorted(values("started"))
    memory = max(result.peak_rss_bytes for result in results) / 2**20
    sizes = _distinct(
        ", ".join(f"{d[f'n_{split}']:,} {split}" for split in ("train", "val", "test"))
        for d in data
    )
    argv = (result.provenance.get("argv") for result in results)
    commands = (shlex.join([Path(words[0]).name, *words[1:]]) for words in argv if words)
    found = {
        "runs": [str(len(runs))],
        "data": _distinct(d.get("source") for d in data),
        "texts": sizes,
        "fingerprint": _distinct(d["fingerprint"] for d in data),
        "started": [" to ".join(dict.fromkeys([started[0], started[-1]]))] if started else [],
        "training time": [duration(sum(result.wall_seconds for result in results))],
        "peak memory": [f"{memory:,.0f} MiB"],
        "attnexp": values("version"),
        "commit": [_commit(commit) for commit in values("commit")],
        "python": values("python"),
        "torch": values("torch"),
        "platform": values("platform"),
        "device": values("device"),
        "threads": values("threads"),
        "commands": _distinct(commands),
    }
    return [(name, values) for name, values in found.items() if values]


def _distinct(values: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(str(value) for value in values if value is not None))


def _commit(commit: str) -> str:
    short = commit[:12]
    return f"{short}, with changes" if commit.endswith("+") else short
