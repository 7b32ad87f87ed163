"""What is declared of a study whose seeds are added until it is decided, before its first run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from attnexp.base.errors import UserError
from attnexp.runs.points import figures
from attnexp.runs.result import Run
from attnexp.statistics.paired import difference_of
from attnexp.statistics.sequential import Design


@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration:
    """Part of `study.json`. It stays as it is, or the error rates would not hold."""

    design: Design
    metric: str
    """The point at which accuracy decides, such as `final`."""
    runs: dict[str, tuple[str, ...]]
    """By variant, the baseline first: the first parts of the ids of its runs (settings, seed and
    data, not the code), in the order in which the seeds count."""
    finished_before: int = field(default=0, compare=False)
    """Runs that had been there when it was made, and may have been looked at."""

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> "Declaration":
        """What `dataclasses.asdict` and JSON made of one."""
        given = tree["design"]
        design = {**given, "looks": tuple(given["looks"]), "levels": tuple(given["levels"])}
        runs = {label: tuple(ids) for label, ids in tree["runs"].items()}
        return cls(**{**tree, "design": Design(**design), "runs": runs})

    def expect(self, other: "Declaration") -> None:
        """Raise `UserError` where the other one is not the same."""
        if self == other and [*self.runs] == [*other.runs]:  # the first is the baseline
            return
        mine, others = self._in_words(), other._in_words()
        changed = [f"{name} {mine[name]}, not {others[name]}" for name in mine
                   if mine[name] != others[name]]  # fmt: skip
        told = "; ".join(changed) or "other settings or data for its runs"
        raise UserError(
            f"This study was declared with {told}, and that cannot change under way. Give the "
            f"same, or another place with out=DIR for a new study."
        )

    def differences(self, runs: Iterable[Run]) -> dict[str, list[float]]:
        """Accuracy of each variant minus the baseline's, in the order of the seeds.

        They end before the first seed that one of the two lacks, or that other code made than the
        seeds before. runs: with the labels of the study, any others too.
        """
        found = {(run.label, run.result.run_id.partition("-")[0]): run for run in runs}
        made_by: dict[str, str] = {}

        def accuracies(label: str) -> Iterator[float]:
            for run_id in self.runs[label]:
                run = found.get((label, run_id))
                if run is None:
                    return
                code = run.result.code.items()
                if any(made_by.setdefault(name, digest) != digest for name, digest in code):
                    return
                yield figures(run.result, self.metric)["accuracy"]

        first, *others = ((label, list(accuracies(label))) for label in self.runs)
        return {
            label: [difference_of(*pair) for pair in zip(own, first[1], strict=False)]
            for label, own in others
        }

    def _in_words(self) -> dict[str, str]:
        return {
            "variants": ", ".join(self.runs),
            "--max-seeds": str(self.design.looks[-1]),
            "--margin": f"{100 * self.design.margin:g}",
            "--metric": self.metric,
        }
