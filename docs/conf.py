"""Settings of the documentation build: `sphinx-build -W docs <folder>`, or `python tests/check.py --only docs`."""

import contextlib
import doctest
import importlib.util
import io
import re
from importlib.metadata import version as installed_version
from pathlib import Path

project = "evalreg"
author = "The evalreg developers"
copyright = "2026, The evalreg developers"
release = version = installed_version("evalreg")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
]
# No intersphinx: the build must work without a network.
exclude_patterns = ["_build"]
templates_path = ["_templates"]

# In docstrings a word between single backticks is code, and quotes stay as they are typed.
default_role = "code"
smartquotes = False

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

# Types stand in the docstrings, where they can be said in words.
autodoc_typehints = "none"
autosummary_generate = True
# The class template lists the members; numpydoc would list them a second time.
numpydoc_show_class_members = False

# A reference to a name of evalreg has to lead somewhere; those to other packages cannot, without their inventories.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!evalreg\b).*")]

html_theme = "pydata_sphinx_theme"
html_title = "evalreg"
html_theme_options = {"show_prev_next": False, "secondary_sidebar_items": ["page-toc"]}
html_sidebars = {"index": [], "installation": [], "changelog": [], "contributing": []}
html_copy_source = False
html_show_sourcelink = False


def draw_figures(app):
    """The pictures of the page of figures, each by the examples above it: the last `ax` at that place."""
    import matplotlib

    matplotlib.use("Agg")
    page = Path(app.srcdir) / "guide" / "figures.md"
    # Prose, path, prose, path, ...
    parts = re.split(r"!\[[^]]*\]\((figures/\w+\.png)\)", page.read_text(encoding="utf-8"))
    names = {}
    for text, path in zip(parts[::2], parts[1::2], strict=False):
        with contextlib.redirect_stdout(io.StringIO()):
            for example in doctest.DocTestParser().get_examples(text):
                exec(compile(example.source, str(page), "exec"), names)
        target = page.parent / path
        target.parent.mkdir(exist_ok=True)
        names["ax"].figure.savefig(target, dpi=110)
    matplotlib.pyplot.close("all")


def show_commands(app, docname, source):
    """The options of the commands, where the page of the command line asks for them."""
    if docname == "command_line":
        path = Path(app.srcdir) / "commands.py"
        spec = importlib.util.spec_from_file_location("commands", path)
        commands = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(commands)
        source[0] = commands.page(source[0])


def setup(app):
    # Before pages are read, so that the pictures are there when a page asks for them.
    app.connect("builder-inited", draw_figures)
    app.connect("source-read", show_commands)
