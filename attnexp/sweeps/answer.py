"""Answer of a sweep, from the runs that it has done."""

from dataclasses import replace

from attnexp.analysis.answer import Answer, compare
from attnexp.analysis.make_groups import make_groups
from attnexp.analysis.rows import as_rows
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import Entries, manifest_of_entries


def answer_of_sweep(sweep: Sweep, entries: Entries) -> Answer:
    """The answer of these runs of a sweep; those that failed are missing."""
    finished = [entry.run for entry in entries if entry.run]
    order = list(sweep.levels_by_label)
    finished.sort(key=lambda run: order.index(run.variant))
    manifest = manifest_of_entries(sweep, entries)
    rows = []
    for run in finished:
        of_sweep = replace(run, sequential=sweep.sequential)
        rows.append(as_rows(of_sweep, str(sweep.directory), manifest))
    return compare(make_groups(rows), sweep.metric)
