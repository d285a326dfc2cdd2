"""What the command line says names options as they are typed; what is not known is said in words."""

from __future__ import annotations

import argparse
import ast
import collections
import functools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import evalreg as er
from evalreg.cli.main import build_parser, main
from evalreg.cli.spelled import spelled
from evalreg.results import reporting

pytestmark = pytest.mark.filterwarnings(
    "ignore::evalreg.errors.FewClustersWarning", "ignore::evalreg.errors.ZeroVarianceWarning"
)
KEYWORDS = ("adjust=", "groups=", "`winner()`", "`icc`", "`key`", "`wild_test`", "tasks=")


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Two models that differ on few questions, whose notes name several options."""
    path = tmp_path_factory.mktemp("few") / "few.csv"
    er.datasets.paired(n_passages=12, seed=1).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def three(few):
    """The same with a third model, of which every score is a half."""
    log = pd.read_csv(few)
    path = few.with_name("three.csv")
    pd.concat([log, log.query("model == 'old'").assign(model="third", score=0.5)]).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    path = tmp_path_factory.mktemp("judged") / "judged.csv"
    er.datasets.judge_log(n_models=4, n_prompts=25, seed=1).to_csv(path, index=False)
    return path


def test_keywords_become_options_only_where_the_command_has_them():
    options = argparse.Namespace(groups=None, n_shards=None, wild=False, command="compare", file="x")
    assert spelled('Name it in `groups`, or groups="a + b".', options) == 'Name it in --groups, or --groups "a + b".'
    assert spelled("`n_shards`, `file` and a column `groups`", options) == "--n-shards, `file` and a column `groups`"
    assert spelled('adjust="holm" or questions="shared"', options) == (
        "--adjust holm of evalreg compare or --questions shared of evalreg mean"
    )
    assert spelled("by `er.mean(data, by=...)`, `win_rate` and `bradley_terry`", options) == (
        "by evalreg mean, evalreg leaderboard"
    )
    assert spelled('n_population={"a": 4, "b": 2}', options) == "--population a=4,b=2 of evalreg mean"
    assert spelled("`t_test` and results.pairwise()", options) == "`t_test` in Python and results.pairwise() in Python"
    twice = "`t_test`, er.read_log(file) and `er.mean`"
    assert spelled(spelled(twice, options), options) == spelled(twice, options)
    assert spelled('conf_int(method="a")', argparse.Namespace(method=None)) == 'conf_int(method="a") in Python'
    assert spelled("`icc` in `compare`", options) == "--icc of evalreg compare"
    assert spelled("`wild_test` checks", options) == "--wild checks"
    checks = "`wild_test` checks a result"
    assert spelled(checks, argparse.Namespace(kind="models")) == "--wild of evalreg compare checks differences"
    assert spelled(checks, argparse.Namespace(kind="scores")) == "`wild_test` in Python checks a result"
    assert spelled('the model "groups" and `groups`', options) == 'the model "groups" and --groups'
    assert "evalreg mean and leaderboard" in spelled("`winner()` corrects for it", options)
    # No command of scores takes comparisons of two models.
    board, said = argparse.Namespace(kind="pairs"), 'adjust="holm" or `winner()` or `key`'
    assert spelled(said, board) == (
        'adjust="holm" in Python or --best of evalreg leaderboard or --key of evalreg leaderboard'
    )
    assert spelled(spelled(said, board), board) == spelled(said, board)
    # Advice of errors: several values, numbers, what is left out, and files.
    known = argparse.Namespace(labels=None, alpha=0.05, groups=None, metric=None)
    assert spelled("Pass labels={'a b': 'left', 'no': None}, or alpha=0.1.", known, numbers=True) == (
        'Pass --labels "a b=left,no=", or --alpha 0.1.'
    )
    assert spelled("groups=None, metric='f1'; `path`", known, numbers=True) == "no --groups, --metric f1; FILE"
    assert spelled('Pass results.with_cov(groups="a + b", cov=None).', known, numbers=True) == (
        'Pass --groups "a + b", cov=None.'
    )
    read = 'Pass metric="f1", or er.read_log(path, metric="f1").'
    assert spelled(read, known) == 'Pass --metric f1, or er.read_log(path, metric="f1") in Python.'
    assert spelled("Leave it out, or pass alike=None.", argparse.Namespace(alike=None)) == "Leave it out."
    assert spelled("Pass levels=(treated, reference).", argparse.Namespace(levels=None)) == (
        "Pass --levels treated,reference."
    )


HOSTILE = (
    'groups="x"',
    "f(cov='CR1')",
    "`weights`",
    "er.mean(",
    'a, alpha={"x": 1}',
    "results.with_cov(dof=3)",
    "FILE=`path`",
)


def test_names_of_models_are_left_as_they_are_in_every_sentence(few, judged, tmp_path, call):
    scores, verdicts = pd.read_csv(few), pd.read_csv(judged)
    scores["score"] = scores["score"].where(scores["model"] == "old", 1.0)
    scores = pd.concat([scores, scores.query("model == 'old'").iloc[5:].assign(model="third")])  # lacks five questions
    models = [*verdicts["left"].unique(), *scores["model"].unique()]
    of_scores = ("--item", "question", "--groups", "passage")

    def said(added: Callable[[int], str]) -> list[str]:
        named = {model: f"{model} {added(place)}" for place, model in enumerate(models)}
        scores.replace({"model": named}).to_csv(tmp_path / "scores.csv", index=False)
        verdicts.replace(dict.fromkeys(("left", "right", "winner"), named)).to_csv(tmp_path / "judged.csv", index=False)
        roles = {"by": "model", "groups": "passage", "item": "question", "path": tmp_path / "sums.parquet"}
        er.summarise(scores.replace({"model": named}), **roles)
        texts = []
        for words in (
            ("mean", "scores.csv", "--by", "model", *of_scores),
            ("compare", "scores.csv", *of_scores),
            ("report", "scores.csv", *of_scores),
            ("mean", "sums.parquet", "--by", "model", "--groups", "passage"),
            ("leaderboard", "judged.csv", "--winner", "winner", "--groups", "prompt"),
        ):
            out = json.loads(call(words[0], tmp_path / words[1], *words[2:], "--format", "json")[1])
            texts += [*(note["text"] for note in out["notes"]), *out["summary"]["sentences"]]
        return texts

    plain, seen = said(lambda place: "plain"), collections.Counter()
    # The models of a log have names that differ, a sentence may hold several, and every name is had by a model of each.
    for shift in (0, 3, 5):
        found = said(lambda place, shift=shift: HOSTILE[(place + shift) % len(HOSTILE)])
        seen.update(name for name in HOSTILE for text in found if name in text)
        assert [
            functools.reduce(lambda said, name: said.replace(name, "plain"), HOSTILE, text) for text in found
        ] == plain
    assert all(seen[name] > 3 for name in HOSTILE), seen


def test_what_was_typed_and_what_data_hold_stays_as_it_is(tmp_path, call, capsys):
    log = er.datasets.paired(n_passages=12, seed=1)
    log["model"] = log["model"].map({"old": "merged-alpha=0.5", "new": "tuned (seed=1, groups=None)"})
    path = tmp_path / "log.csv"
    log.to_csv(path, index=False)
    for words, kept in (
        (("mean", path, "--where", 'model="a"'), '\n    model="a"\n         ^'),
        (("mean", path, "--where=`model` == groups"), "\n    `model` == groups\n               ^"),
        (("fit", "score ~ C(model, groups=3)", path), "\n    score ~ C(model, groups=3)\n"),
        (("mean", path, "--score", "alpha=3"), '--score names "alpha=3"'),
        (("mean", path, "--by", "model,alpha=3"), '"alpha=3"'),
        (("mean", 'groups="x", cov=3.csv'), 'there is no "groups="x", cov=3.csv"'),
        (
            ("mean", path, "--nothing", 'groups="x"'),
            'unrecognized arguments: --nothing groups="x". See: evalreg mean --help',
        ),
        (("components", path, "--facets", "model x question", "--design", "x"), '"item=400,judge=3"'),
    ):
        assert main([str(word) for word in words]) == 3
        assert kept in capsys.readouterr().err
    for form in ("text", "json"):
        for words in (("compare", path), ("mean", path, "--by", "model", "--ranks")):
            _, out, _ = call(*words, "--item", "question", "--groups", "passage", "--format", form)
            assert "merged-alpha=0.5" in out
            assert "--alpha" not in out
            assert "no --groups" not in out
            assert "--seed" not in out


PACKAGE = Path(er.__file__).parent
# What stands in errors only, which are told as the functions raise them; or in the code of a report.
OF_ERRORS = ("data/where", "hints", "estimators/choices", "logs/log", "estimators/shards", "noise/answer_tables")
OF_ERRORS += ("data/formula", "estimators/contest", "estimators/design", "logs/formats", "inference/posterior")
OF_ERRORS += ("planning/components", "suites/average", "results/reporting", "estimators/difference_report")
OF_ERRORS += ("data/shard_files",)
ONLY_PYTHON = re.compile(
    r"(?<!column )`\w+(\(\))?`(?! in Python)|\b\w+=[\"{]|\ber\.\w+(?!\S* in Python)|\b\w+\(\)(?!`? in Python)"
)

CALLED = re.compile(r"(?:\S+\([^()]*\)|\b\w+=(?:\"[^\"]*\"|\{[^}]*\}))`? in Python")
# What a module that has such texts holds outside its docstrings; the others need not be parsed.
HINTS = re.compile(r"`|'[^'\n]*\w+=\"|\ber\.\w|\w\(\)[^\n]*\"")


def sentences_of(path):
    """Texts of a module that are neither docstrings nor inside an error that is raised there."""
    source = path.read_text(encoding="utf-8")
    if not HINTS.search(re.sub(r'"{3}.*?"{3}', "", source, flags=re.DOTALL)):
        return
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    bodies = [node.body for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    passed = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
    called = (node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    errors = [node for node in called if node.func.id.endswith("Error")]
    errors += [node for node in nodes if isinstance(node, ast.Raise)]
    passed |= {id(inner) for node in errors for inner in ast.walk(node)}
    passed |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in passed:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_note_names_what_a_person_at_the_command_line_has():
    subparsers = next(action for action in build_parser()._actions if isinstance(action.choices, dict))
    known = {
        name: argparse.Namespace(command=name, **{action.dest: None for action in subparsers.choices[name]._actions})
        for name in ("mean", "compare", "fit", "leaderboard", "doctor")
    }
    paths = (path.relative_to(PACKAGE).with_suffix("").as_posix() for path in sorted(PACKAGE.rglob("*.py")))
    left = []
    for path in (path for path in paths if not path.startswith("cli/") and path not in OF_ERRORS):
        for text in sentences_of(PACKAGE / f"{path}.py"):
            if len(text.split()) < 4 or not ONLY_PYTHON.search(text):
                continue
            said = {name: CALLED.sub("", spelled(text, own)) for name, own in known.items()}
            left += [(path, name, one) for name, one in said.items() if ONLY_PYTHON.search(one)]
    assert not left


@pytest.mark.parametrize("form", ["text", "md", "html", "latex", "json"])
def test_no_sentence_of_a_command_names_what_only_python_has(form, three, judged, call, monkeypatch):
    monkeypatch.setattr(reporting, "_can_draw", lambda missing: False)  # the notes of figures are those of the tables
    for words in (
        ("compare", three, "--item", "question", "--groups", "passage"),
        ("mean", three, "--by", "model", "--item", "question", "--ranks"),
        ("leaderboard", judged, "--winner", "winner", "--groups", "prompt", "--tiers"),
        ("report", judged, "--winner", "winner", "--groups", "prompt"),
    ):
        if words[0] == "report" and form not in ("md", "html"):
            continue
        _, out, said = call(*words, "--format", form)
        if words[0] == "report":
            out = out.split("evalreg.win_rate")[0].split("<script")[0]
        # Verdicts are tested in Python only.
        out = re.sub(r"`wild_test` in Python", "", re.sub(r"\\(?=`)", "", out))
        if words[0] in ("report", "leaderboard"):
            assert "of evalreg compare" not in out
        for word in KEYWORDS:
            assert word not in said, (words, word, said)
            if not (words[0] == "report" and word in ("groups=", "adjust=")):  # the code to do it again has these
                assert word not in out, (words, word)


def test_the_document_of_a_report_names_options_as_they_are_typed(few, judged, call):
    of_scores = ("--item", "question", "--groups", "passage")
    said = []
    for words in ((few, *of_scores), (few, *of_scores, "--baseline", "old"), (judged, "--winner", "winner")):
        document = json.loads(call("report", *words, "--format", "json")[1])
        said += [note["text"] for note in document["notes"]] + document["summary"]["sentences"]
    assert not [text for text in said if any(word in text for word in KEYWORDS)]
    assert any("--icc of evalreg compare takes another value" in text for text in said)
    assert any("--best of evalreg leaderboard corrects for it" in text for text in said)


@pytest.mark.parametrize("asked", [("--best",), ("--tiers", "--best"), ("--tiers",)])
def test_the_luck_of_the_best_is_said_at_most_once_in_the_notes_of_json(asked, judged, call):
    out = json.loads(call("leaderboard", judged, "--winner", "winner", *asked, "--format", "json")[1])
    for said in ([note["text"] for note in out["notes"]], out["summary"]["sentences"]):
        lucky = [text for text in said if "was also lucky" in text]
        assert len(lucky) == ("--best" not in asked)
        assert all("--best corrects for it" in text for text in lucky)


def test_an_error_that_is_not_known_is_said_in_words(tmp_path, call):
    path = tmp_path / "constant.csv"
    rows = {"model": ["a"] * 4 + ["b"] * 4, "question": [1, 2, 3, 4] * 2}
    pd.DataFrame(rows | {"score": [2.5, 3.5, 4.5, 2.5, 1.5, 2.5, 3.5, 1.5]}).to_csv(path, index=False)
    for asked in ((), ("--wild", "--draws", "99"), ("--gate", "a - b > 0"), ("--format", "md")):
        _, out, _ = call("compare", path, "--item", "question", *asked)
        assert "not known" in out
        assert "nan" not in out.replace("t and p are NaN", "").lower()
    both = er.compare(pd.read_csv(path), item="question")
    assert "nan" not in str(er.join_evals({"one": both}).summary()).replace("t and p are NaN", "").lower()


def test_the_design_that_randomise_advises_is_one_that_runs(tmp_path, call):
    path = tmp_path / "log.csv"
    er.datasets.paired(n_passages=20, seed=1).to_csv(path, index=False)
    status, _, err = call("randomise", path, "--treatment", "model", "--groups", "passage")
    assert status == 3
    assert "no --groups with --strata passage is that design" in err
    assert call("randomise", path, "--treatment", "model", "--strata", "passage", "--draws", "99")[0] == 0
