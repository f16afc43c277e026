"""What the command line says on standard error: lines for people, or one JSON object a line."""

import contextlib
import json
import logging
import sys
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


class _Unminding:
    """A stream that nobody may be reading any more: an outcome is not lost for a word that is.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever a stream has
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write what can be written."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what was not written yet, if that can be."""
        with contextlib.suppress(OSError):
            self._stream.flush()


def plain_console(file: TextIO, width: int | None = None) -> Console:
    """Return a console that shows texts as they are: what comes from files is no markup."""
    return Console(file=file, width=width, markup=False, emoji=False, highlight=False)


def _standard_error() -> Console:
    return plain_console(cast("TextIO", _Unminding(sys.stderr)))


def standard_output() -> Console:
    """Return a console for what a command is asked for; in a pipe, lines stay whole."""
    return plain_console(sys.stdout, None if sys.stdout.isatty() else _PIPE_COLUMNS)


def print_json(value: object) -> None:
    """Print what a command is asked for as JSON."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


@attrs.frozen(kw_only=True)
class Talk:
    """Says what happens.

    Attributes:
        is_json: Whether each line is a JSON object.
        console: Where it is said.
    """

    is_json: bool = False
    console: Console = attrs.field(factory=_standard_error)

    @property
    def has_bar(self) -> bool:
        """Whether a progress bar can be seen."""
        return self.console.is_terminal and not self.is_json

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to answer."""
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
    def passing_on_logs(self) -> "Iterator[None]":
        """Say what the library logs as warning or worse, and what it waits for."""
        handler = _Handler(self)
        logger = logging.getLogger(_LOGGER)
        waits = [(one, one.level) for one in map(logging.getLogger, _WAITS)]
        logger.addHandler(handler)
        for one, _ in waits:
            one.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            for one, before in waits:
                one.setLevel(before)

    @contextlib.contextmanager
    def passing_on_others(self, *names: str) -> "Iterator[None]":
        """Say what others log as warning or worse, by the names of their loggers."""
        handler = _Handler(self)
        loggers = [logging.getLogger(name) for name in names]
        for logger in loggers:
            logger.addHandler(handler)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeHandler(handler)


class _Handler(logging.Handler):
    def __init__(self, talk: Talk) -> None:
        super().__init__()
        self._talk = talk

    def emit(self, record: logging.LogRecord) -> None:
        self._talk.tell("log", record.getMessage(), level=record.levelname, logger=record.name)
