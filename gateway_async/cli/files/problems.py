"""What is wrong with a file, named by line and column. Pure."""

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

SHOWN_PROBLEMS = 20
KEPT_PROBLEMS = 1000


@attrs.frozen(kw_only=True)
class Problem:
    """One thing that is wrong with a file.

    Attributes:
        line: The line of the file, counted from 1 as an editor does; of Parquet, the row.
        column: The name of the column, None where it is about the whole line.
        reason: What is wrong, and what would be right.
        unit: What `line` counts.
    """

    line: int
    column: str | None = None
    reason: str
    unit: str = "line"

    def __str__(self) -> str:
        place = f"{self.unit} {self.line}" + (f", column {self.column}" if self.column else "")
        return f"{place}: {self.reason}"


class TableError(Exception):
    """A file cannot be used; nothing of it was sent.

    Attributes:
        problems: What is wrong with it, by line; the first thousand.
        count: How many problems there are.
    """

    def __init__(self, problems: "Iterable[Problem]", count: int | None = None) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        self.count = len(self.problems) if count is None else count
        shown = [str(problem) for problem in self.problems[:SHOWN_PROBLEMS]]
        hidden = self.count - len(shown)
        total = f"{self.count} problem{'s' * (self.count != 1)}"
        more = [f"... and {hidden} more"] if hidden else []
        super().__init__("\n".join([f"{total}, nothing was sent", *shown, *more]))


class Problems:
    """Collects problems: counts all, keeps the first.

    Attributes:
        count: How many there are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[Problem] = []

    def add(self, problems: "Iterable[Problem]") -> None:
        """Take problems in."""
        for problem in problems:
            self.count += 1
            if len(self._kept) < KEPT_PROBLEMS:
                self._kept.append(problem)

    def raise_if_any(self) -> None:
        """Do nothing if there are none.

        Raises:
            TableError: Otherwise.
        """
        if self.count:
            raise TableError(self._kept, self.count)
