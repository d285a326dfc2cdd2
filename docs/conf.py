"""Settings of the documentation build: `sphinx-build -W docs <folder>`."""

import contextlib
import doctest
import io
import re
import sys
import warnings
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import commands
import llms
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx

project = "evalreg"
author = "The evalreg developers"
copyright = "2026, The evalreg developers"
release = version = installed_version("evalreg")

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc", "myst_parser"]
# A button that copies code without its prompts and without what it prints. Pages are the same without it.
if find_spec("sphinx_copybutton"):
    extensions.append("sphinx_copybutton")
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_selector = "div.highlight-python pre, div.highlight-sh pre, div.highlight-toml pre"
# No intersphinx: the build must work without a network.
exclude_patterns = ["_build"]
templates_path = ["_templates"]

# In docstrings a word between single backticks is code, and quotes stay as they are typed.
default_role = "code"
smartquotes = False

myst_enable_extensions = ["attrs_inline", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Types stand in the docstrings, where they can be said in words.
autodoc_typehints = "none"
autosummary_generate = True
# Beside the page of a class its members stand without its name, which leaves no room for theirs.
toc_object_entries_show_parents = "hide"
# The class template lists the members; numpydoc would list them a second time.
numpydoc_show_class_members = False

# A reference to a name of evalreg has to lead somewhere; those to other packages cannot, without their inventories.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!evalreg\b).*")]

html_theme = "pydata_sphinx_theme"
html_title = "evalreg"
html_theme_options = {"show_prev_next": False, "secondary_sidebar_items": ["page-toc"]}
# Pages that stand alone have nothing to list beside them.
ALONE = (
    "index",
    "installation",
    "command_line",
    "faq",
    "glossary",
    "alternatives",
    "conventions",
    "coverage",
    "contributing",
)
html_sidebars = {name: [] for name in (*ALONE, "changelog")}
# Nobody looks at the pages of a check, where those of the guide have the same list beside them as those of the names.
if tags.has("check"):  # noqa: F821 - Sphinx puts it there
    html_sidebars["generated/*"] = []
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sourcelink = False


def draw_figures(app):
    """The pictures of the pages, each by the examples above it: the last `ax` at that place."""
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    for page in sorted((Path(app.srcdir) / "guide").glob("*.md")):
        draw_page(page)
        plt.close("all")


def draw_page(page):
    """The pictures of one page."""
    # Prose, path, prose, path, ...
    parts = re.split(r"^!\[[^]]*\]\((figures/\w+\.png)\)", page.read_text(encoding="utf-8"), flags=re.M)
    names = {}
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        for text, path in zip(parts[::2], parts[1::2], strict=False):
            for example in doctest.DocTestParser().get_examples(text):
                exec(compile(example.source, str(page), "exec"), names)
            target = page.parent / path
            target.parent.mkdir(exist_ok=True)
            names["ax"].figure.savefig(target, dpi=110)


def with_commands(name, text):
    """A page with the options of the commands where it asks for them, and no blank line at the end of a block."""
    text = re.sub(r"\n\n```$", "\n```", text, flags=re.M)
    return commands.page(text) if name == "command_line" else text


def show_commands(app, docname, source):
    source[0] = with_commands(docname, source[0])


def compile_template_once():
    """numpydoc makes an environment for each docstring, and compiles its template there: a tenth of the build."""
    kept = {}
    docscrape_sphinx.SandboxedEnvironment = lambda loader: kept.setdefault("one", SandboxedEnvironment(loader=loader))


def leave_search_out(app):
    """No index of words in the pages of a check."""
    if app.tags.has("check"):
        app.builder.search = False


def write_index(app, exception):
    """llms.txt and the pages as Markdown, for programs that read."""
    if exception is None and app.builder.format == "html":
        top = app.env.toctree_includes["index"]
        titles = {name: title.astext() for name, title in app.env.titles.items()}
        below = {name: app.env.toctree_includes.get(name, []) for name in top}
        chapters = {"Pages": [name for name in top if not below[name] and name != "reference"]}
        chapters |= {titles[name]: [name, *names] for name, names in below.items() if names and name != "reference"}
        llms.write(Path(app.srcdir), Path(app.outdir), chapters, titles, with_commands)


def setup(app):
    compile_template_once()
    # Before pages are read, so that the pictures are there when a page asks for them.
    app.connect("builder-inited", draw_figures)
    app.connect("builder-inited", leave_search_out)
    app.connect("source-read", show_commands)
    app.connect("build-finished", write_index)
