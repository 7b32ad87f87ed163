"""A run with user code: its copies, its process, the check after it, and what its folder keeps."""

import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import Patch, Refused
from small import examples, fit, without_clock

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import ExecutorConfig, RunConfig
from attnexp.network.build import build_model
from attnexp.runs import store
from attnexp.runs.identity import load_config
from attnexp.runs.result import Run
from attnexp.sweeps import executors
from attnexp.sweeps.plan import Job
from attnexp.sweeps.schedule import open_executor
from attnexp.training.evaluate import evaluate_run
from attnexp.training.run import load_data, train_run

MODULE = """
import numpy, torch, torch.nn.functional as F
from torch import Tensor, nn
from attnexp.model.seams import Baseline, JoinedPosition
from {0}_helper import SCALE
DRAWN = numpy.random.default_rng().random()
class Scaled(JoinedPosition):
    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.d_output = d_model
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + SCALE * positions.mul_(2)[:, None]
class Kept(Scaled):
    table = None
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        Kept.table = torch.randn(x.shape[1:]) if Kept.table is None else Kept.table
        return x + Kept.table
class Drawn(Scaled):
    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__(max_len, d_model)
        self.start = nn.Parameter(torch.tensor(DRAWN))
class Counted(Scaled):
    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__(max_len, d_model)
        self.steps = 0
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        if self.training:
            self.steps += 1
        return x * (1.0 + (self.steps > 2))
class Signs(Baseline):
    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(vocab_size))
    def fit(self, ids: Tensor, labels: Tensor) -> None:
        labels[labels == 0] = -1
        counts = torch.zeros(len(ids), len(self.w)).scatter_(1, ids.long(), 1.0)
        with torch.no_grad():
            self.w.copy_(counts.T @ labels)
    def forward(self, ids: Tensor) -> Tensor:
        ids %= len(self.w)
        return self.w[ids.long()].sum(-1)
class Refitted(Signs):
    times = []
    def fit(self, ids: Tensor, labels: Tensor) -> None:
        self.times.append(ids)
        self.w.data += len(self.times)
def smoothed(logits: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(-logits, 0.9 * labels)
def in_place(logits: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits.mul_(-1), labels.mul_(0.9))
"""
Make = Callable[..., RunConfig]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: Patch) -> Make:
    name = f"{tmp_path.name}_code"
    (tmp_path / f"{name}.py").write_text(MODULE.format(name))
    (tmp_path / f"{name}_helper.py").write_text("SCALE = 0.01")
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(*words: str) -> RunConfig:
        own_words = [word.replace("own:", f"{name}:") for word in words]
        few = ["data=contrast", "data.limit_train=64", "data.limit_test=64", "train.threads=1"]
        return compose([*few, f"out={tmp_path}/out", *own_words])

    return make


def test_a_baseline_is_fitted_and_what_it_changes_in_place_is_its_own(own: Make) -> None:
    config = own("model=own:Signs")
    data = load_data(config.data)
    arrays = [data.train.ids, data.train.labels, data.test.ids]
    copies = [array.copy() for array in arrays]
    path, result = train_run(config)
    assert evaluate_run(path, trust_code=True) == (result.test, result.test)
    assert (len(result.epochs), result.parameters) == (1, 4 + len(data.words))
    assert all((array == copy).all() for array, copy in zip(arrays, copies, strict=True))
    assert result.final.train_accuracy > 0.5  # labels are 0 and 1, not -1


def test_a_loss_that_changes_logits_and_labels_gives_the_same_run(own: Make) -> None:
    """Positions, too, are changed in place in both trainings."""
    plain = ["data.max_len=6", "model.dropout=0"]
    rows = []
    for loss in ("smoothed", "in_place"):
        config = own("position=own:Scaled", f"train.loss=own:{loss}", *plain)
        rows.append([*fit(build_model(config), examples(32), config.train)])
    assert without_clock(rows[0]) == without_clock(rows[1])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("position=own:Counted train.lr=0.1", "keeps state outside its parameters and buffers"),
        ("position=own:Kept train.lr=0.1", "other logits in a process of its own"),
        ("position=own:Drawn", "does not start from its seed"),
        ("model=own:Refitted", "built or fitted twice, its w differs"),
    ],
)
def test_what_only_training_shows_is_refused_after_it(words: str, said: str, own: Make) -> None:
    config = own("data.max_len=40", *words.split())
    with pytest.raises(UserError, match=said):
        train_run(config)
    assert not [*Path(config.out).rglob("result.json")]


def test_a_run_of_changed_source_is_not_loaded(own: Make, tmp_path: Path, refused: Refused) -> None:
    path, result = train_run(own("position=own:Scaled"))
    run = Run(path=path, result=result)
    name = f"{tmp_path.name}_code"
    files = {f"code/{name}.py", f"code/{name}_helper.py"}
    assert {file.relative_to(path).as_posix() for file in path.rglob("code/**/*.py")} == files
    assert (path / f"code/{name}.py").read_text() == MODULE.format(name)
    assert "commit_of_user" in result.provenance
    load_config(run, trust_code=True, any_code=False)
    tree = json.loads((path / store.RESULT).read_text())
    key = next(key for key in tree["read_files"] if key.endswith("_helper.py"))
    tree["read_files"][key] = "0123456789abcdef"  # as of another text
    (path / store.RESULT).write_text(json.dumps(tree))
    for command in ("predict {} text", "evaluate {}", "probe {}"):
        words = command.format(path).split()
        said = refused(*words, "--trust-code")
        assert f"{name}_helper.py changed since {path} was trained" in said
        assert "--any-code" in said
    evaluate_run(path, trust_code=True, any_code=True)


def test_a_job_with_user_code_has_a_process_of_its_own(own: Make, monkeypatch: Patch) -> None:
    """Also where one job runs at a time; other jobs go on sharing one."""
    finished = Future[str]()
    finished.set_result("done")
    pools = [Mock(**{"submit.return_value": finished}) for _ in range(3)]
    monkeypatch.setattr(executors, "ProcessPoolExecutor", Mock(side_effect=pools))
    theirs = Job(config=own("position=own:Scaled"), label="theirs", parts=(), factors={})
    ours = Job(config=own(), label="ours", parts=(), factors={})
    executor = open_executor(ExecutorConfig(workers=1), [theirs, ours], [theirs, ours])
    for job in (ours, ours, theirs, theirs, ours):
        executor.submit([job])
    executor.close()
    assert [pool.submit.call_count for pool in pools] == [3, 1, 1]
    assert isinstance(open_executor(ExecutorConfig(workers=1), [ours], [ours]), executors.OneByOne)
