"""The programs on the pages run, and do what the page says they print."""

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs"
NAMES = ("sandbox.md", "web.md", "testing.md")
_PROGRAM = re.compile(
    r"^```python\n((?:(?!```).*\n)*)```\n\nIt prints:\n\n```\n((?:(?!```).*\n)*)```$", re.MULTILINE
)
PROGRAMS = [
    pytest.param(*found.groups(), id=f"{page}-{number}")
    for page in NAMES
    for number, found in enumerate(_PROGRAM.finditer((PAGES / page).read_text()), start=1)
]


def test_every_program_is_found() -> None:
    announced = [(PAGES / page).read_text().count("It prints:") for page in NAMES]
    assert len(PROGRAMS) == sum(announced)


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_a_program_prints_what_the_page_says(
    program: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(program, "a page", "exec"), {"__name__": "__main__"})  # noqa: S102  # our own page
    assert capsys.readouterr().out == printed
