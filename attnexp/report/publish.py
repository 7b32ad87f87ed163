"""A finished run for the Hugging Face hub: what `attnexp predict` needs, figures, and a card."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attnexp.analysis.comparison import compare
from attnexp.base.errors import UserError
from attnexp.config.options import name_of
from attnexp.data import hub, sources
from attnexp.report import formats, tables
from attnexp.runs import manifest, store
from attnexp.runs.identity import default_label
from attnexp.runs.result import Run
from attnexp.runs.weights import WEIGHTS

CARD = "README.md"
FILES = (WEIGHTS, store.VOCABULARY, store.CONFIG, store.OVERRIDES, store.METRICS)
"""Besides the card and `result.json`. Predictions and the log stay behind."""


def bundle(run_dir: Path, repo: str) -> dict[str, bytes]:
    """What is sent, by name. Raises `UserError` for a name that no repository can have, and where
    a file of the run is not what it wrote."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        raise UserError(f"{repo} cannot be a repository's name, which reads like user/my-model.")
    run = Run(path=run_dir, result=store.load(run_dir))
    files = {name: run.read(name) for name in FILES}
    files[store.RESULT] = (run_dir / store.RESULT).read_bytes()
    return {CARD: card(run, repo).encode(), **files}


def card(run: Run, repo: str) -> str:
    """The model card: metadata, figures with their n, verdicts of the studies, commands."""
    result = run.result
    test, config = result.test, result.config
    chosen = (
        "The weights are those of the last epoch. The test set was looked at after every epoch, as "
        "in the published run that attnexp reproduces; no epoch was chosen by it."
        if config["train"]["protocol"] == "blog"
        else "The epoch was chosen on held-out training data; the test set was touched once."
    )
    lines = [
        "---",
        _metadata(run, repo),
        "---",
        "",
        f"# {repo.partition('/')[2]}",
        "",
        f"Sorts texts into {', '.join(result.classes)}. {default_label(config)}, "
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
        "## Use it",
        "",
        "```sh",
        f"hf download {repo} --local-dir {repo.partition('/')[2]}",
        f'attnexp predict {repo.partition("/")[2]} "a text"',
        "```",
        "",
        "## Make it again",
        "",
        "```sh",
        _command(run),
        "```",
        "",
        f"attnexp {result.provenance['version']}, commit {result.provenance['commit']}; data "
        f"{result.data['fingerprint']}.",
    ]
    return "\n".join(lines) + "\n"


def send(files: dict[str, bytes], repo: str, *, private: bool) -> str:
    """Upload to the hub at $HF_ENDPOINT, in one commit; return the page's address.

    private: of a repository that is made for it. Raises `UserError` where the hub does not take it.
    """
    from huggingface_hub import HfApi, get_token, utils
    from huggingface_hub.constants import ENDPOINT
    from huggingface_hub.errors import HfHubHTTPError

    login = "Log in with `hf auth login`, or set HF_TOKEN."
    if get_token() is None:
        raise UserError(f"Nobody is logged in to the hub at {ENDPOINT}. {login}")
    hub.quiet(utils)
    api = HfApi(library_name="attnexp")
    try:
        with TemporaryDirectory() as folder:
            for name, content in files.items():
                (Path(folder) / name).write_bytes(content)
            address = api.create_repo(repo, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=repo, folder_path=folder, commit_message="Publish a run of attnexp"
            )
    except Exception as error:  # two libraries and what they stand on: no common base
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
        if status in (401, 403):
            raise UserError(
                f"The hub at {ENDPOINT} does not let you write to {repo} ({status}). {login} The "
                f"token must be allowed to write there."
            ) from None
        raise UserError(
            f"{repo} cannot be written to the hub at {ENDPOINT} ({hub.said(error)})."
        ) from None
    return str(address)


def _metadata(run: Run, repo: str) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    config, name = run.result.config, run.result.data["name"]
    dataset = {"imdb": sources.IMDB, "hub": config["data"].get("path")}.get(name)
    accuracy = EvalResult(
        task_type="text-classification",
        dataset_type=dataset or name,
        dataset_name=name,
        dataset_split="test",
        metric_type="accuracy",
        metric_value=run.result.test.accuracy,
    )
    kinds = (config[key]["kind"] for key in ("model", "position", "mask") if key in config)
    return ModelCardData(
        library_name="attnexp",
        pipeline_tag="text-classification",
        language="en" if name in ("imdb", "contrast") else None,
        datasets=[dataset] if dataset else None,
        metrics=["accuracy"],
        tags=["attnexp", *(name_of(kind) for kind in kinds if kind)],
        model_name=repo.partition("/")[2],
        eval_results=[accuracy],
    ).to_yaml()


def _studies(run: Run) -> Iterator[str]:
    """A section for each study beside the run that it belongs to."""
    for file in sorted(run.path.absolute().parents[1].glob(f"*/{manifest.FILE}")):
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


def _command(run: Run) -> str:
    import yaml

    words: Any = yaml.safe_load(run.read(store.OVERRIDES))
    return shlex.join(["attnexp", "train", *words])
