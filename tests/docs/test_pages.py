"""What the pages take from the code is what the code has now."""

import re
from importlib import import_module
from pathlib import Path

import gateway_async

DOCS = Path(__file__).parents[2] / "docs"
HOW_TO_MEND = "run `python docs/generate.py`, and commit what it writes"
SCRIPT = import_module("docs.generate")


def test_every_generated_part_is_as_the_code_has_it_and_shown_and_none_is_left_over() -> None:
    parts = dict(SCRIPT.parts())
    old = [name for name, text in parts.items() if (DOCS / name).read_text() != text]
    assert old == [], HOW_TO_MEND
    kept = {*(DOCS / "generated").iterdir(), *(DOCS / "reference" / "api").iterdir()}
    names = {str(path.relative_to(DOCS)) for path in kept}
    assert names == {*parts, "reference/api/index.md"}
    pages = [path.read_text() for path in DOCS.rglob("*.md") if path.parent.name != "generated"]
    shown = {name for page in pages for name in re.findall(r"\{include\} \.\./(.+)", page)}
    assert {name for name in parts if name.startswith("generated/")} <= shown


def test_the_api_has_every_public_name_once_and_the_page_every_module() -> None:
    listed = [name for _, names in SCRIPT.API.values() for name in names]
    assert sorted(listed) == sorted(vars(gateway_async)["__all__"])
    page = (DOCS / "reference" / "api" / "index.md").read_text()
    (tree,) = re.findall(r"```\{toctree\}\n(.*?)```", page, re.DOTALL)
    assert tree.split()[2:] == [*SCRIPT.API, *SCRIPT.MODULES]
