"""Settings of the documentation build: `sphinx-build -W docs <folder>`, or `python tests/check.py --only docs`."""

from importlib.metadata import version as installed_version

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
