"""How Sphinx builds this site: `nox -s docs`."""

import re
from importlib.metadata import version as version_of

from sphinx.application import Sphinx

project = "gateway_async"
author = "The gateway_async authors"
copyright = author  # noqa: A001  # the name that Sphinx has for it
release = version = version_of("gateway-async")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "generated", "**/README.md"]
default_role = "py:obj"  # names in docstrings link where they name something public
suppress_warnings = ["ref.python"]  # `Notification` names two classes, each in its module
nitpicky = False  # docstrings also name fields of the interface, which are no objects

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

# Kept in the repository, so that the site is built without the network.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", "inventories/python.txt"),
    "aiohttp": ("https://docs.aiohttp.org/en/stable", "inventories/aiohttp.txt"),
}
intersphinx_disabled_reftypes: list[str] = []

copybutton_exclude = ".linenos, .gp, .go"
copybutton_only_copy_prompt_lines = False

html_theme = "furo"
html_title = "gateway_async"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "tango"


def setup(app: Sphinx) -> None:
    """Leave out the lines that lead a reader of the repository to a part that the site includes."""

    def leave_out(_app: Sphinx, _page: str, source: list[str]) -> None:
        source[0] = re.sub(r"^In the repository, .*$", "", source[0], flags=re.MULTILINE)

    app.connect("source-read", leave_out)
