"""What is wrong with a file, named by line and column. Pure."""

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

SHOWN_PROBLEMS = 20
KEPT_PROBLEMS = 1000


@attrs.frozen(kw_only=True)
class Problem:
    """One thing that is wrong with a file, in one line or in several.

    Attributes:
        line: The line of the file, counted from 1 as an editor does.
        column: The name of the column, None where it is about the whole line.
        reason: What is wrong, and what would be right.
        more: How many later lines have the same.
        last: The last of those.
    """

    line: int
    column: str | None = None
    reason: str
    more: int = 0
    last: int = attrs.field(default=attrs.Factory(lambda self: self.line, takes_self=True))

    @property
    def count(self) -> int:
        """In how many lines it is."""
        return 1 + self.more

    def also_in(self, line: int) -> "Problem":
        """Return the same problem, of a later line too."""
        return attrs.evolve(self, more=self.more + 1, last=line)

    def __str__(self) -> str:
        return f"{self._place}{f', column {self.column}' if self.column else ''}: {self.reason}"

    @property
    def _place(self) -> str:
        if not self.more:
            return f"line {self.line}"
        if self.last - self.line == self.more:
            return f"lines {self.line} to {self.last}"
        return f"line {self.line} and {self.more:,} more"


class TableError(Exception):
    """A file cannot be used; nothing of it was sent.

    Attributes:
        problems: What is wrong with it, by line; the first thousand.
        count: How many there are, each in each line.
    """

    def __init__(self, problems: "Iterable[Problem]", count: int | None = None) -> None:
        gathered = Problems()
        gathered.add(sorted(problems, key=lambda problem: problem.line))
        self.problems = gathered.kept
        self.count = gathered.count if count is None else count
        shown = self.problems[:SHOWN_PROBLEMS]
        hidden = self.count - sum(problem.count for problem in shown)
        total = f"{self.count:,} problem{'s' * (self.count != 1)}"
        more = [f"... and {hidden:,} more"] if hidden else []
        super().__init__("\n".join([f"{total}, nothing was sent", *map(str, shown), *more]))


class Problems:
    """Collects problems: counts all, keeps the first, and makes one of those that are the same.

    Attributes:
        count: How many there are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._kept: dict[tuple[str | None, str], Problem] = {}

    @property
    def kept(self) -> tuple[Problem, ...]:
        """Those that are kept."""
        return tuple(self._kept.values())

    def add(self, problems: "Iterable[Problem]") -> None:
        """Take problems in, by line."""
        for problem in problems:
            self.count += problem.count
            cause = problem.column, problem.reason
            same = self._kept.get(cause)
            if same is not None:
                self._kept[cause] = same.also_in(problem.line)
            elif len(self._kept) < KEPT_PROBLEMS:
                self._kept[cause] = problem

    def raise_if_any(self) -> None:
        """Do nothing if there are none.

        Raises:
            TableError: Otherwise.
        """
        if self.count:
            raise TableError(self.kept, self.count)
