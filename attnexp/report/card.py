"""A folder with a finished run for a model hub: what `attnexp predict` needs, and a model card."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import yaml

from attnexp.analysis.comparison import compare
from attnexp.base.files import writing
from attnexp.config.compose import foreign_code
from attnexp.config.options import name_of
from attnexp.report import formats, tables
from attnexp.runs import manifest, store
from attnexp.runs.arrays import WEIGHTS
from attnexp.runs.identity import default_label
from attnexp.runs.result import Run

CARD = "README.md"
FILES = (WEIGHTS, store.VOCABULARY, store.CONFIG, store.OVERRIDES, store.METRICS)
"""Files of a run that are copied beside the card and `result.json`; predictions and log are not."""


def write(run: Run, folder: Path) -> None:
    """Write the card and the run's files. Raises `UserError` if a file of the run is damaged."""
    files = {name: run.read(name) for name in FILES}
    files[store.RESULT] = (run.path / store.RESULT).read_bytes()
    files[CARD] = card(run).encode()
    with writing(folder, "--into DIR"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)


def card(run: Run) -> str:
    """The model card: metadata, test metrics, verdicts of the run's studies, commands."""
    result, name = run.result, f"attnexp-{run.result.run_id}"
    test, config = result.test, result.config
    foreign = foreign_code(config)
    words = yaml.safe_load(run.read(store.OVERRIDES))  # none if it was trained from Python
    warning = [
        "",
        f"The model needs {', '.join(foreign)}, code that is neither attnexp's nor in this "
        f"repository. `--trust-code` runs it: read it first.",
    ] * bool(foreign)
    chosen = (
        "The weights are those of the last epoch. The test set was evaluated after every epoch, as "
        "in the published run that attnexp reproduces; no epoch was chosen by it."
        if config["train"]["protocol"] == "blog"
        else "The epoch was chosen on held-out training data; the test set was used once."
    )
    lines = [
        "---",
        _metadata(run, name),
        "---",
        "",
        f"# {name}",
        "",
        f"Classifies texts as {', '.join(result.classes)}. {default_label(config)}, "
        f"{result.parameters:,} parameters, trained on {result.data['n_train']:,} texts and "
        f"measured with attnexp. {chosen}",
        "",
        f"| on {test.n:,} texts of the test set | one run, seed {result.seed} |",
        "|---|---:|",
        f"| accuracy | {100 * test.accuracy:.2f} % |",
        f"| loss (nats) | {test.loss:.4f} |",
        f"| Brier score | {test.brier:.4f} |",
        f"| expected calibration error | {100 * test.ece:.2f} % |",
        "",
        *_studies(run),
        "## Use",
        "",
        "```sh",
        "hf download USER/REPO --local-dir model  # the name of this repository",
        f'attnexp predict model "a text"{" --trust-code" if foreign else ""}',
        "```",
        *warning,
        "",
        "## Reproduce",
        "",
        *(
            ["```sh", shlex.join(["attnexp", "train", *words]), "```"]
            if words
            else ["All settings are in `config.yaml`."]
        ),
        "",
        f"attnexp {result.provenance['version']}, commit {result.provenance['commit']}; data "
        f"{result.data['fingerprint']}.",
    ]
    return "\n".join(lines) + "\n"


def _metadata(run: Run, name: str) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    config, data = run.result.config, run.result.data["name"]
    source = config["data"]["name"]  # the title of data=hub and data=files is a path's
    dataset = {"imdb": "stanfordnlp/imdb", "hub": config["data"].get("path")}.get(source)
    accuracy = EvalResult(
        task_type="text-classification",
        dataset_type=dataset or data,
        dataset_name=data,
        dataset_split="test",
        metric_type="accuracy",
        metric_value=run.result.test.accuracy,
    )
    kinds = (config[key]["kind"] for key in ("model", "position", "mask") if key in config)
    return ModelCardData(
        library_name="attnexp",
        pipeline_tag="text-classification",
        language="en" if source in ("imdb", "contrast") else None,
        datasets=[dataset] if dataset else None,
        metrics=["accuracy"],
        tags=["attnexp", *(name_of(kind) for kind in kinds if kind)],
        model_name=name,
        eval_results=[accuracy],
    ).to_yaml()


def _studies(run: Run) -> Iterator[str]:
    """One section for each study of this output folder that the run belongs to."""
    for file in sorted(run.path.absolute().parent.parent.glob(f"*/{manifest.FILE}")):
        study = manifest.load(file.parent)
        labels = [] if study is None else study.runs
        for label in [entry.variant for entry in labels if entry.run_id == run.result.run_id]:
            yield f"## In the study {file.parent.name}: {label}"
            yield ""
            for comparison in compare(manifest.load_runs([file.parent])):
                yield formats.markdown_table(tables.summary(comparison))
                yield ""
                yield formats.markdown_verdicts(comparison)
                yield ""
