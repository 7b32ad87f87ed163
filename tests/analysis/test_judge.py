"""Results of other trainers: the same figures and verdicts as for runs of our own."""

import base64
import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import Command, Json, Refused
from samples import Parsed, answers, but, only, result, write_table

from attnexp.analysis.comparison import Comparison
from attnexp.analysis.other_results import RESULT, judge_results, read_results
from attnexp.analysis.results import Results

ACCURACIES = {
    "none": [0.79, 0.80, 0.78, 0.79, 0.80, 0.81, 0.79],
    "pe": [0.82, 0.83, 0.80, 0.82, 0.83, 0.83, 0.82],
    "rotary": [0.79, 0.81, 0.78, 0.78, 0.80, 0.82, 0.79],
}


def rows(accuracies: dict[str, list[float]] = ACCURACIES) -> list[dict[str, Any]]:
    """With a loss that is 1 less the accuracy."""
    return [
        {"variant": label, "seed": seed, "accuracy": value, "loss": round(1 - value, 4)}
        for label, values in accuracies.items()
        for seed, value in enumerate(values)
    ]


def judge_one(results: list[Results], **said: Any) -> Comparison:
    """The comparison of results on one data set."""
    (compared,) = judge_results(results, **said)
    return compared


def test_the_figures_are_those_of_runs_of_our_own(tmp_path: Path) -> None:
    file = write_table(tmp_path / "a.csv", rows())
    judged = judge_one(read_results(file, ["accuracy"]))
    runs = [
        result(label, seed, [value], "model.heads=4" if label == "none" else "model.heads=2")
        for label, values in ACCURACIES.items()
        for seed, value in enumerate(values)
    ]  # on 100 texts, of which the csv shows the steps
    compared = only([but(run, data={**run.result.data, "n_val": 100}) for run in runs])
    for label, found in compared.differences.items():
        ours, theirs = found["final"], judged.differences[label][RESULT]
        assert theirs.judgements == ours.judgements
        assert theirs.metrics["accuracy"] == ours.metrics["accuracy"]
    assert judged.differences["pe"][RESULT].judgements["accuracy"].verdict == "helps"


def contents(found: list[Results]) -> list[tuple[object, ...]]:
    """Rows without the name of their file, then which examples are right."""
    (results,) = found
    runs = dict.fromkeys((row.variant, row.seed) for row in results.rows)
    right = [(*run, *bits.tolist()) for run in runs for bits in results.right(*run).values()]
    return [*(row[1:] for row in results.rows), *right]


def accuracies(found: list[Results], variant: str) -> dict[str, float]:
    (results,) = found
    return results.metrics(variant, RESULT)["accuracy"]


def test_every_kind_of_table_is_read_as_csv_is(tmp_path: Path) -> None:
    expected = contents(read_results(write_table(tmp_path / "a.csv", rows())))
    frame = pd.DataFrame(rows())
    frame.to_csv(tmp_path / "b.csv", sep=";", index=False)
    frame.to_csv(tmp_path / "b.tsv.gz", sep="\t", index=False)
    frame.to_json(tmp_path / "b.json", orient="records")
    frame.to_json(tmp_path / "b.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "b.parquet")
    frame.to_csv(tmp_path / "results", index=False)
    found = [contents(read_results(file)) for file in sorted(tmp_path.iterdir())]
    assert len(found) == 7
    assert [contents(read_results(frame)), *found] == [expected] * 8


def test_a_pipe_is_read(tmp_path: Path) -> None:
    expected = contents(read_results(write_table(tmp_path / "a.csv", rows())))
    there, here = os.pipe()
    os.write(here, (tmp_path / "a.csv").read_bytes())
    os.close(here)
    assert contents(read_results(f"/dev/fd/{there}")) == expected
    os.close(there)


def test_answers_give_accuracies_and_mcnemar(here: Command, tmp_path: Path) -> None:
    found = answers()
    file = write_table(tmp_path / "answers.csv", found)
    results = read_results(file)
    assert accuracies(results, "pe") == dict.fromkeys("012345", 0.5) | {"6": 1.0}
    by_seed = judge_one(results).differences["pe"][RESULT].mcnemar
    assert (by_seed["0"].only_variant, by_seed["0"].only_baseline) == (1, 0)
    assert (by_seed["6"].only_variant, by_seed["6"].p) == (6, 2 / 2**6)
    said = here("judge", str(file)).stdout
    assert "McNemar p < 0.05 in 1 of 7 seeds" in " ".join(said.split())
    predicted = [{"prediction": "pos" if one.pop("correct") else "neg", "label": "pos", **one}
            for one in found]  # fmt: skip
    assert contents(read_results(write_table(file, predicted))) == contents(results)
    assert contents(read_results(pd.DataFrame(predicted))) == contents(results)


@pytest.mark.parametrize("right", [0, 1])
@pytest.mark.parametrize(
    ("num_texts", "verdict"), [(None, "inconclusive"), (10, "inconclusive"), (2000, "equivalent")]
)
def test_the_same_answers_are_as_certain_as_their_number(
    right: int, num_texts: int | None, verdict: str
) -> None:
    """All right or all wrong alike; without answers their number is unknown."""
    runs: list[dict[str, object]] = [
        {"variant": label, "seed": seed} for label in ("none", "pe") for seed in range(6)
    ]
    found = [run | {"accuracy": float(right)} for run in runs]
    if num_texts is not None:
        found = [run | {"example": i, "correct": right} for run in runs for i in range(num_texts)]
    assert verdicts(judge_one(read_results(pd.DataFrame(found)))) == {"pe": verdict}


def test_a_page_has_every_verdict_cell_and_figure(
    here: Command, refused: Refused, tmp_path: Path
) -> None:
    words = ["judge", str(write_table(tmp_path / "<b>.csv", rows())), "--lower", "loss"]
    words += ["--margin", "loss=0.01"]
    done = here(*words, "--html", "page.html")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Page: page.html\n")
    parsed = Parsed((tmp_path / "page.html").read_text("utf-8"))
    printed = here(*words).stdout
    assert "pe against none, accuracy: helps by at least 0.25 points: +2.71 points" in printed
    assert max(map(len, printed.splitlines()[:-4])) <= 80
    tables, plot, _ = printed.partition("\nAccuracy minus none")
    assert plot
    for line in tables.splitlines():
        for cell in re.split("  +", line.strip()):
            assert cell.strip("─") in parsed.text
    document = json.loads(here(*words, "--json").stdout)
    (comparison,) = document["comparisons"]
    for difference in comparison["differences"].values():
        for judgement in difference[RESULT]["judgements"].values():
            assert judgement["line"] in parsed.text
    (href,) = [value for value in parsed.values("href") if value.startswith("data:application")]
    assert json.loads(base64.b64decode(href.partition(",")[2])) == document
    assert not {"script", "iframe"} & set(parsed.tags)
    assert not [value for _, _, value in parsed.attributes if "://" in value]
    assert "cannot be written" in refused(*words, "--html", "nowhere/page.html")


def test_less_of_a_loss_helps_and_the_baseline_can_be_chosen(tmp_path: Path) -> None:
    results = read_results(write_table(tmp_path / "a.csv", rows()))
    said: dict[str, Any] = {"lower": ["loss"], "margins": ["loss=0.0025"]}
    judged = judge_one(results, **said)
    for label in ("pe", "rotary"):
        found = judged.differences[label][RESULT]
        one, other = found.judgements["accuracy"], found.judgements["loss"]
        assert one.verdict is other.verdict
        assert one.p_adjusted == pytest.approx(other.p_adjusted)
        assert found.metrics["accuracy"].difference.mean == pytest.approx(
            -found.metrics["loss"].difference.mean
        )
        assert "points" not in other.line
    swapped = judge_one(results, baseline="pe", **said)
    assert [variant.label for variant in swapped.variants] == ["pe", "none", "rotary"]
    assert verdicts(swapped)["none"] == "hurts"


def verdicts(judged: Comparison, metric: str = "accuracy") -> dict[str, str]:
    found = judged.differences.items()
    return {label: by_point[RESULT].judgements[metric].verdict for label, by_point in found}


def test_a_metric_of_any_scale_gets_the_same_verdicts(tmp_path: Path) -> None:
    """In per cent, or a millionfold: only how differences are written changes."""
    for scale in (100, 1e6):
        scaled = [row | {"accuracy": scale * row["accuracy"]} for row in rows()]
        judged = judge_one(
            read_results(write_table(tmp_path / "a.csv", scaled), ["accuracy"]),
            higher=["accuracy"],
            margins=[str(0.0025 * scale)],
        )
        shares = judge_one(read_results(write_table(tmp_path / "a.csv", rows()), ["accuracy"]))
        assert verdicts(judged) == verdicts(shares)


def test_until_decided_exits_with_0_or_says_what_to_run_next(
    here: Command, refused: Refused, tmp_path: Path
) -> None:
    until = ("--metric", "accuracy", "--until", "decided")

    def asked(*found: dict[str, Any]) -> tuple[int, str]:
        done = here("judge", str(write_table(tmp_path / "a.csv", [*found])), *until)
        assert "95 %, anytime" in done.stdout
        assert "added because of results" in done.stdout
        return done.returncode, done.stderr.strip()

    longer = {label: [*values, *values] for label, values in ACCURACIES.items()}
    clear = [row for row in rows(longer) if row["variant"] != "rotary"]
    assert asked(*clear) == (0, "")
    assert asked(*clear[:7], *clear[14:21]) == (1, "Next: seed 7 of none and pe.")
    assert asked(*clear[:7], *clear[14:20]) == (1, "Next: seed 6 of pe.")
    assert asked(*clear[:6], *clear[14:21]) == (1, "Next: seed 6 of none.")
    assert asked(*rows()) == (1, "Next: seed 7 of none, pe and rotary.")
    assert asked(*rows(longer)) == (1, "Next: seed 14 of none and rotary.")
    assert "Choose it before the first run: --metric accuracy" in refused(
        "judge", str(write_table(tmp_path / "a.csv", rows())), "--lower", "loss", "--margin",
        "loss=0.01", "--until", "decided",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "is_known"),
    [
        *((name, True) for name in ("accuracy", "val_acc", "macroF1", "AUC", "test/top1")),
        *((name, False) for name in ("score", "fpr", "loss_scale", "prescision", "-loss")),
        *((name, False) for name in ("1-accuracy", "not_correct", "wrong_precision", "1-loss")),
        *((name, False) for name in ("accuracy_cost", "-accuracy", "¬accuracy", "top5.top1")),
        *((name, False) for name in ("neg_mean_squared_error", "negative/loss")),
    ],
)
def test_which_way_is_better_is_asked_unless_the_name_says_it(metric: str, is_known: bool) -> None:
    frame = pd.DataFrame(rows()).rename(columns={"accuracy": metric})
    results = read_results(frame, [metric])
    if is_known:
        assert verdicts(judge_one(results), metric)["pe"] == "helps"
    else:
        with pytest.raises(ValueError, match=f"with --higher {metric}, or --lower {metric}"):
            judge_one(results)


@pytest.mark.parametrize(
    "metric", ["val_loss", "rmse", "valError", "test/error_rate", "recallError"]
)
def test_less_of_a_loss_helps_unless_more_is_said_to(metric: str) -> None:
    results = read_results(pd.DataFrame(rows()).rename(columns={"loss": metric}), [metric])
    margins = [f"{metric}=0.0025"]
    assert verdicts(judge_one(results, margins=margins), metric)["pe"] == "helps"
    more = judge_one(results, higher=[metric], margins=margins)
    assert verdicts(more, metric)["pe"] == "hurts"
    with pytest.raises(ValueError, match=f"Say the smallest difference .* --margin {metric}=0"):
        judge_one(results)


def test_accuracies_may_be_written_in_per_cent_and_counts_are_none(
    here: Command, tmp_path: Path
) -> None:
    scaled = [row | {"accuracy": 100 * row["accuracy"]} for row in rows()]
    shares, percent = (
        here("judge", str(write_table(tmp_path / "a.csv", found)), "--columns", "accuracy")
        for found in (rows(), scaled)
    )
    assert (percent.stdout, shares.stderr) == (shares.stdout, "")
    assert percent.stderr == "Read as per cent, since values are above 1: accuracy.\n"
    mixed = [row for row in scaled if row["variant"] != "pe"]
    mixed += [row for row in rows() if row["variant"] == "pe"]
    said = here("judge", str(write_table(tmp_path / "a.csv", mixed)), "--columns", "accuracy")
    assert "accuracy of pe is at most 1 %" in said.stderr
    counts = read_results(pd.DataFrame(scaled).rename(columns={"accuracy": "correct"}), ["correct"])
    with pytest.raises(ValueError, match="which direction is better, with --higher correct"):
        judge_one(counts)


@pytest.mark.usefixtures("without_pictures")
def test_each_data_set_is_judged_and_the_mean_over_them_is_shown(
    here: Command, here_json: Json, tmp_path: Path
) -> None:
    sets = {"imdb": 0.0, "trec": 0.01, "subj": -0.005}
    found = [
        row | {"dataset": name, "accuracy": row["accuracy"] + more * (row["variant"] == "pe")}
        for name, more in sets.items()
        for row in rows()
    ]
    words = ["judge", str(write_table(tmp_path / "a.csv", found)), "--margin", "loss=0.01"]
    document = here_json(*words)
    assert [one["data"] for one in document["comparisons"]] == [*sets]
    alone = [row for row in found if row["dataset"] == "trec"]
    (trec,) = judge_results(read_results(pd.DataFrame(alone)), margins=["loss=0.01"])
    assert document["comparisons"][1] == json.loads(json.dumps(asdict(trec)))
    printed = here(*words, "--html", "a.html").stdout + here(*words).stdout
    assert max(map(len, printed.splitlines())) <= 80
    assert "pe − none, accuracy, over 3 data sets" in printed
    assert "pe − none, loss, over 3 data sets" in printed
    mean = next(line for line in printed.splitlines() if line.startswith("mean "))
    assert "+2.88" in mean  # of +2.71, +3.71 and +2.21, equally certain
    page = Parsed((tmp_path / "a.html").read_text("utf-8")).text
    assert all(f"Accuracy on {name}" in page for name in sets)
    until = here(*words[:2], "--metric", "accuracy", "--until", "decided")
    assert until.returncode == 1
    decided = judge_results(read_results(pd.DataFrame(found), ["accuracy"]), sequential=True)
    for comparison in decided:  # the table over data sets has the intervals of the verdicts
        low, high = comparison.differences["pe"][RESULT].interval("accuracy")
        assert low is not None
        assert high is not None
        interval = re.escape(f"[{100 * low:+.2f}, {100 * high:+.2f}]")
        assert re.search(rf"^{comparison.data} +7 .*{interval}", until.stdout, flags=re.MULTILINE)
    assert "Next: seed 7 of none, pe and rotary on trec." in until.stderr
    lacking = [row for row in found if (row["dataset"], row["variant"]) != ("trec", "none")]
    with pytest.raises(ValueError, match=r"no variant 'none' on trec\. Here are pe, rotary"):
        judge_results(read_results(pd.DataFrame(lacking)), margins=["0.01"])


def test_columns_of_any_name_are_read(tmp_path: Path, refused: Refused) -> None:
    frame = pd.DataFrame(rows()).rename(columns={"variant": "model", "seed": "run"})
    frame["variant"], frame["note"] = "one", "-"
    names = {"variant_column": "model", "seed_column": "run"}
    found = read_results(frame, ["accuracy"], **names)
    assert contents(found) == contents(read_results(pd.DataFrame(rows()), ["accuracy"]))
    frame.to_csv(tmp_path / "a.csv", index=False)
    message = refused("judge", "a.csv", "--seed-column", "sede", "--columns", "accuracy,f1")
    assert "no column sede, no metric 'f1'; its columns are model, run, accuracy" in message


def test_classes_are_what_is_written_but_any_whole_number_is_one(tmp_path: Path) -> None:
    """A column of pandas with a gap anywhere turns 1 into 1.0. `01` is no `1`, nor is an Arabic
    one."""
    found = [{"prediction": one.pop("correct"), "label": 1.0, **one} for one in answers()]
    results = read_results(write_table(tmp_path / "answers.csv", found))
    assert accuracies(results, "pe") == dict.fromkeys("012345", 0.5) | {"6": 1.0}
    assert contents(read_results(pd.DataFrame(found))) == contents(results)
    labels = ("1", "01", "١", "1.0", "1\n1")
    rows = [{"prediction": "1", "label": label, "variant": variant, "seed": 0, "example": place}
            for variant in ("none", "pe") for place, label in enumerate(labels)]  # fmt: skip
    assert accuracies(read_results(write_table(tmp_path / "a.csv", rows)), "pe") == {"0": 0.4}


def test_seeds_pair_however_a_whole_number_is_written(here: Command, tmp_path: Path) -> None:
    """What does not pair is named beside the verdict."""
    seeds = {"none": ["0", "1", "2", "03", "4"], "pe": ["0.0", "1 ", " 2.", "3", "5"]}
    found = [
        {"variant": label, "seed": seed, "accuracy": 0.5 + 0.01 * place}
        for label, written in seeds.items()
        for place, seed in enumerate(written)
    ]
    file = write_table(tmp_path / "a.csv", found)
    assert list(accuracies(read_results(file), "pe")) == ["0", "1", "2", "3", "5"]
    alone = "without a pair: seed 3 of pe, seed 5 of pe, seed 03 of none, seed 4 of none"
    verdict = " ".join(here("judge", str(file)).stdout.split()).rpartition("accuracy: ")[2]
    assert verdict.endswith(f"; {alone}")
    assert here("judge", str(file), "--html", "page.html").returncode == 0
    assert alone in Parsed((tmp_path / "page.html").read_text("utf-8")).text


GOOD = "variant,seed,accuracy\na,0,0.5\nb,0,0.6\n"
ANSWERS = "variant,seed,example,correct\na,0,x,1\n"
WRONG = {
    "missing.csv": ("", "cannot be read"),
    "a.csv": ("", "no result"),
    "b.csv": ("variant,acc\na,0.5\n", "no column seed"),
    "c.csv": ("variant,seed\na,0\n", "has no metric"),
    "d.csv": (GOOD + "b,1,nan\n", "is 'nan', which is not a number"),
    "e.csv": (GOOD + "b,1\n", "3 columns, unlike row 2"),
    "t.csv": ("variant;seed;accuracy\na;0;0,5\n", "decimals have a point"),
    "u.csv": ("variant,seed,loss,loss\na,0,1,2\n", "more than one column loss"),
    "f.csv": (GOOD + "b,0,0.7\n", "b has two results of seed 0"),
    "g.csv": (GOOD + "b,1,0.7,0.8\n", "the first has 4: 'b,1,0.7,0.8'"),
    "h.csv": ("variant,seed,accuracy\na,0,0.5\n", "one variant"),
    "i.csv": ("variant,seed,size\na,0,1.5\nb,0,1.6\n", "--lower size"),
    "n.csv": (
        GOOD.replace("accuracy", "val_size"),
        "--higher val_size, or --lower val_size and --margin val_size=0.01",
    ),
    "j.json": ("{", "no JSON object such as .* in row 0"),
    "k.json": ('["a"]', "no JSON object"),
    "l.csv": (GOOD + ",1,0.5\n", "variant is empty"),
    "o.csv": ("variant,seed,example\na,0,x\n", "no column prediction, no column label"),
    "p.csv": (ANSWERS + "b,0,x,maybe\n", "correct is 'maybe'; write 1 or 0"),
    "q.csv": (ANSWERS + "a,0,x,0\n", "a has two answers to example x with seed 0"),
    "r.csv": (ANSWERS + "b,0,y,1\n", "answered different examples"),
    "s.csv": (ANSWERS + "b,0,,1\n", "example is empty"),
    "w.csv": ("variant,seed,accuracy\na,0,0.5\nb,1,0.6\n", "shares a seed with a.*b has 1"),
    "x.csv": (GOOD + "b,1,٠.٧\n", "is '٠.٧', which is not a number"),
    "m.csv": (GOOD + "b,1,1e999\n", "not a number"),
    "v.csv": (
        "variant,seed,example,prediction,label\na,0,x,True,1\nb,0,x,False,1\n",
        r"no prediction equals a label \(there are False, True under prediction and 1 ",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_cannot_be_judged_is_reported(tmp_path: Path, name: str) -> None:
    text, message = WRONG[name]
    if name != "missing.csv":
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        judge_one(read_results(tmp_path / name))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--baseline", "aa"], "Did you mean 'a'?"),
        (["--metric", "f1"], "no metric 'f1'"),
        (["--metric", "seed"], "no metric 'seed'"),
        (["--html", "."], "cannot be written"),
        (["--lower", "f1"], "no metric 'f1'"),
        (["--margin", "-1"], "a number above 0"),
        (["--margin", "f1=1"], "no metric 'f1'"),
        (["--lower", "accuracy", "--higher", "accuracy"], "contradict"),
    ],
)
def test_wrong_words_are_reported(
    refused: Refused, tmp_path: Path, words: list[str], message: str
) -> None:
    (tmp_path / "good.csv").write_text(GOOD)
    assert message in refused("judge", "good.csv", *words)
