"""Copy what stands behind a study's tables to `outputs/published/`, which git keeps.

    python docs/publish.py outputs/blog outputs/data/blog=blog_data

The second is published under another name. Of every run its `result.json` and, a bit a text, which
texts it had right: 5 kB a run on IMDB, from which `attnexp report` makes the same tables. What
`attnexp probe` stored is copied too, except how much each token counted. Its figures are those of
the run, and the checksums beside them of what is published. Absolute paths are cut to their last
name. A study that was published before is replaced, and runs that no study names any more are
removed.
"""

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from attnexp.analysis.results import correct
from attnexp.analysis.variants import by_variant, comparison_groups
from attnexp.base.errors import UserError
from attnexp.runs import manifest, predictions, probed, store
from attnexp.runs.points import best_epoch
from attnexp.runs.result import Run, RunResult

PUBLISHED = Path(__file__).parents[1] / "outputs" / "published"


def main(folders: list[str]) -> int:
    """Publish studies, each with the runs that have finished."""
    try:
        for folder, _, name in (given.partition("=") for given in folders):
            print(publish(Path(folder), name or Path(folder).name))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    studies = filter(None, map(manifest.load, PUBLISHED.iterdir()))
    runs = {store.run_dir(PUBLISHED, entry.run_id) for study in studies for entry in study.runs}
    kept = runs | {store.shared_file(run) for run in runs}
    for path in set((PUBLISHED / store.RUNS).iterdir()) - kept:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return 0


def publish(folder: Path, name: str) -> str:
    """Publish one study under a name; returns how many of its runs. Raises `UserError` for a folder
    without a study."""
    study = manifest.load(folder)
    if study is None:
        raise UserError(f"{folder} holds no study.")
    done, runs = [], []
    for entry in study.runs:
        path = store.run_dir(folder.parent, entry.run_id)
        if store.has_finished(path):
            done.append(entry)
            runs.append(Run(path=path, result=store.load(path), label=entry.variant))
    for group in comparison_groups(runs):
        for variant in by_variant(group).values():
            best = best_epoch([run.result for run in variant])
            for run in variant:
                copy(run, best, store.run_dir(PUBLISHED, run.result.run_id))
    shutil.rmtree(PUBLISHED / name, ignore_errors=True)
    commands = [without_folders(command) for command in study.commands]
    manifest.record(PUBLISHED / name, replace(study, runs=done, commands=commands))
    return f"{folder}: {len(done)} of {len(study.runs)} runs"


def copy(run: Run, best: int, target: Path) -> None:
    """Write what is published of a run, with the epochs that another study has published of it.

    best: the `best_epoch` of its variant.
    """
    names = {"best": str(best), "final": str(run.result.final.epoch)}  # by the number of the epoch
    packed = {
        predictions.CORRECT + names.get(point, point): predictions.pack(bits)
        for point, bits in correct(run, best).items()
    }
    if store.has_finished(target):
        packed = predictions.load(Run(path=target, result=store.load(target))) | packed
    found = probed.load(target) | probed.load(run.path)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    predictions.save(target, packed)
    result = RunResult.from_json(json.loads(without_folders(json.dumps(run.result.to_json()))))
    store.save(target, replace(result, files=store.digests(target)), brief=True)
    if found:
        probed.save(target, {id: one | {"counts": {}} for id, one in found.items()})


def without_folders(text: str) -> str:
    """Text whose absolute paths are cut to their last name: `data.path=/home/me/imdb` becomes
    `data.path=imdb`."""
    return re.sub(r"(?<![\w.])/(?:[^/\s\"']+/)*(?=[^/\s\"'])", "", text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
