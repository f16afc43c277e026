"""What the command line says on standard error: lines for people, or one JSON object a line."""

import contextlib
import json
import logging
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO, cast

import attrs
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

_LOGGER = "gateway_async"
_WAITS = ("gateway_async.jobs", "gateway_async.recovery")
_PIPE_COLUMNS = 160


class _Forgiving:
    """A stream that may have lost its reader: no outcome is lost for a line that is."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever a stream has
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


def plain_console(file: TextIO, width: int | None = None) -> Console:
    """Return a console that shows texts as they are: what comes from files is no markup."""
    return Console(file=file, width=width, markup=False, emoji=False, highlight=False)


def standard_output() -> Console:
    """Return a console for what a command is asked for; in a pipe, lines stay whole."""
    return plain_console(sys.stdout, None if sys.stdout.isatty() else _PIPE_COLUMNS)


def print_json(value: object) -> None:
    """Print what a command is asked for as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


@attrs.frozen(kw_only=True)
class Talk:
    """Says what happens.

    Attributes:
        is_json: Whether each line is a JSON object.
        console: Where it is said.
    """

    is_json: bool = False
    console: Console = attrs.field(
        factory=lambda: plain_console(cast("TextIO", _Forgiving(sys.stderr)))
    )

    @property
    def has_bar(self) -> bool:
        """Whether a progress bar can be seen."""
        return self.console.is_terminal and not self.is_json

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        return self.console.is_terminal and sys.stdin.isatty()

    def tell(self, event: str, message: str, /, **fields: object) -> None:
        """Say one thing.

        Args:
            event: What kind of thing it is, for machines.
            message: The same in words.
            fields: Particulars, for machines.
        """
        if not self.is_json:
            self.console.print(message, markup=False, highlight=False, soft_wrap=True)
            return
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "event": event, "message": message, **fields}
        self.console.file.write(json.dumps(line, default=str) + "\n")
        self.console.file.flush()

    def warn(self, message: str) -> None:
        """Say that something is unwise."""
        self.tell("warning", f"warning: {message}")

    def refuse(self, message: str) -> None:
        """Say why the command does not run."""
        self.tell("error", f"gateway-async: {message}")

    def show(self, event: str, table: "Table", /, **fields: object) -> None:
        """Show a table; its particulars, for machines."""
        if self.is_json:
            self.tell(event, event, **fields)
        else:
            self.console.print(table)

    @contextlib.contextmanager
    def passing_on_logs(self, *others: str) -> "Iterator[None]":
        """Say what the library logs as warning or worse, and what it waits for; alike ones once.

        Args:
            others: Names of loggers whose warnings are passed on, too.
        """
        handler = _Handler(self)
        loggers = [logging.getLogger(name) for name in (_LOGGER, *others)]
        waits = [(one, one.level) for one in map(logging.getLogger, _WAITS)]
        for one in loggers:
            one.addHandler(handler)
        for one, _ in waits:
            one.setLevel(logging.INFO)
        try:
            yield
        finally:
            for one in loggers:
                one.removeHandler(handler)
            for one, before in waits:
                one.setLevel(before)
            handler.sum_up()


class _Handler(logging.Handler):
    """Passes on the first record of each kind, and counts the others."""

    def __init__(self, talk: Talk) -> None:
        super().__init__()
        self._talk = talk
        self._seen: Counter[tuple[str, str]] = Counter()
        self._last: dict[tuple[str, str], logging.LogRecord] = {}

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.name, str(record.msg)
        self._seen[kind] += record.levelno >= logging.WARNING
        if self._seen[kind] <= 1:
            self._tell(record, record.getMessage())
        else:
            self._last[kind] = record

    def sum_up(self) -> None:
        """Say how many more of each kind there were, with the last of them."""
        for kind, record in self._last.items():
            more = self._seen[kind] - 1
            text = f"{more:,} more of these, the last: " if more > 1 else ""
            self._tell(record, f"{text}{record.getMessage()}", count=more)

    def _tell(self, record: logging.LogRecord, text: str, **fields: object) -> None:
        self._talk.tell("log", text, level=record.levelname, logger=record.name, **fields)
