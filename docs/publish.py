"""Copy what stands behind a study's tables to `outputs/published/`, which git keeps.

    python docs/publish.py outputs/blog

Results and settings of every run, and the study: 10 kB a run. Weights and predictions stay behind,
so what is computed from predictions (McNemar's test) is missing from a report on the copy.
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from attnexp.runs import manifest, store

PUBLISHED = Path(__file__).parents[1] / "outputs" / "published"
FILES = (store.RESULT, store.CONFIG)


def main(folders: list[str]) -> int:
    """Publish studies, each with the runs that have finished."""
    for folder in map(Path, folders):
        study = manifest.load(folder)
        if study is None:
            print(f"{folder} holds no study.", file=sys.stderr)
            return 2
        done = []
        for run in study.runs:
            source = store.run_dir(folder.parent, run.run_id)
            if store.has_finished(source):
                done.append(run)
                target = store.run_dir(PUBLISHED, run.run_id)
                target.mkdir(parents=True, exist_ok=True)
                for name in FILES:
                    shutil.copyfile(source / name, target / name)
        manifest.record(PUBLISHED / folder.name, replace(study, runs=done))
        print(f"{folder}: {len(done)} of {len(study.runs)} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
