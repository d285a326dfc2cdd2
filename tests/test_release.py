"""What a release consists of says the same everywhere, and its workflows run what they name and hold no secret."""

from __future__ import annotations

import re
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture
def release():
    """The script as a module."""
    loader = SourceFileLoader("release", str(ROOT / ".ci" / "release"))
    module = module_from_spec(spec_from_loader("release", loader))
    loader.exec_module(module)
    return module


def test_the_version_is_the_same_everywhere(release) -> None:
    assert release.version_everywhere(None) == PROJECT["version"]


def test_a_tag_needs_its_version_and_a_date_in_the_changelog(release) -> None:
    with pytest.raises(SystemExit, match="the tag is v0"):
        release.version_everywhere("v0.0.0")
    if "(unreleased)" in (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8"):
        with pytest.raises(SystemExit, match="no date"):
            release.version_everywhere(f"v{PROJECT['version']}")


def test_the_recipe_asks_for_what_the_package_asks_for() -> None:
    text = (ROOT / ".conda" / "recipe.yaml").read_text(encoding="utf-8")
    asked = re.findall(r"^    - (\S+) (>=\S+)$", text.split("  run:\n")[1].split("\n\n")[0], re.MULTILINE)
    wanted = [("python", PROJECT["requires-python"])]
    wanted += [tuple(re.split(r"(?=>=)", requirement)) for requirement in PROJECT["dependencies"]]
    assert asked == wanted
    assert f"evalreg = {PROJECT['scripts']['evalreg']}" in text


def test_citations_name_the_licence_and_the_authors_of_the_package() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"license: {PROJECT['license']}\n" in text
    for author in PROJECT["authors"]:
        assert author["name"] in text
        assert author["name"] in (ROOT / "docs" / "evalreg.bib").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_scripts_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for used in re.findall(r"uses: (.*)", text):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used
    for script in re.findall(r"(?:python |run: )(\.ci/\w+|tests/\w+\.py)", text):
        assert (ROOT / script).is_file(), script
    assert "secrets." not in text
    # Nothing but what is asked for: reading, and the identity of the workflow where a release is published.
    assert re.search(r"^permissions:\n  contents: read\n", text, re.MULTILINE)
    assert ("id-token: write" in text) == (path.stem == "release")


def test_every_supported_python_is_tested() -> None:
    text = (ROOT / ".github" / "workflows" / "checks.yml").read_text(encoding="utf-8")
    tested = re.findall(r'"(3\.\d+)"', text.split("matrix:")[1].split("\n    steps")[0])
    named = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert tested == named
    assert tested[0] == PROJECT["requires-python"].removeprefix(">=")
