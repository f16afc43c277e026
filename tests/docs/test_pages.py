"""The programs on the pages run, and do what the page says they print."""

import inspect
import re
from pathlib import Path

import pytest

from gateway_async.sandbox import faults

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


FAULT_ROWS = re.findall(
    r"^\| `([A-Z]\w+\(.*?\))` \| .+ \|$", (PAGES / "sandbox.md").read_text(), re.MULTILINE
)
OF_EVERY_FAULT = ("times", "probability")


def as_written(fault: type[faults.Fault]) -> str:
    """Write the call that makes a fault, with the defaults of its own arguments."""
    taken = inspect.signature(fault).parameters.values()
    own = [
        parameter.name if parameter.default is parameter.empty else f"{parameter.name}={shown}"
        for parameter in taken
        if (shown := repr(parameter.default)) and parameter.name not in OF_EVERY_FAULT
    ]
    return f"{fault.__name__}({', '.join(own)})"


def test_every_fault_is_listed_with_its_arguments() -> None:
    named = [getattr(faults, name) for name in faults.__all__]
    kinds = [kind for kind in named if isinstance(kind, type) and issubclass(kind, faults.Fault)]
    played = [kind for kind in kinds if not any(kind in other.__bases__ for other in kinds)]
    assert sorted(FAULT_ROWS) == sorted(map(as_written, played))


def test_every_program_is_found() -> None:
    announced = [(PAGES / page).read_text().count("It prints:") for page in NAMES]
    assert len(PROGRAMS) == sum(announced)


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_a_program_prints_what_the_page_says(
    program: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(program, "a page", "exec"), {"__name__": "__main__"})  # noqa: S102  # our own page
    assert capsys.readouterr().out == printed
