"""`--report`: what a command did, as one page of HTML, written when it is over.

A report is made of what is recorded elsewhere: if it cannot be written, nothing else changes.
"""

import contextlib
import os
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway_async.cli.tables import STDIO
from gateway_async.errors import ConfigurationError
from gateway_async.report import Head, Report, render
from gateway_async.report.report import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gateway_async.cli.console import Console
    from gateway_async.cli.run import RunSummary


@contextlib.contextmanager
def reporting(
    path: "Path | None", summary: "RunSummary", console: "Console", journal: "Path | None" = None
) -> "Iterator[None]":
    """Begin a report; it is written when the block ends, however it ends.

    Args:
        path: The file; None for no report.
        summary: What it is about.
        console: Where it is said if it cannot be written.
        journal: The file of the journal, if it is one.

    Raises:
        ConfigurationError: If the file cannot be written; nothing was sent.
    """
    if path is None:
        yield
        return
    others = (summary.source, summary.out, journal)
    if path == STDIO or path.resolve() in {one.resolve() for one in others if one is not None}:
        raise ConfigurationError(
            "--report: name a file of its own for the page, such as --report night.html"
        )
    if path.exists() and not _may_be_replaced(path):
        raise ConfigurationError(
            f"--report: {path} is there already and is no report, so it is not written over; name "
            "another file, such as --report night.html"
        )
    beside = path.with_name(f".{path.name}.{os.getpid()}.report")
    try:
        beside.touch(exist_ok=False)
    except OSError as error:
        raise ConfigurationError(f"--report: cannot write {path}: {error.strerror}") from None
    started = datetime.now().astimezone()
    report = summary.report = Report(summary.command.replace("-", "_"), job=summary.job)
    try:
        yield
    finally:
        if summary.has_begun:
            page = render(report, _head(summary, started), summary.books)
            try:
                beside.write_text(page, encoding="utf-8", errors="backslashreplace")
                if path.exists() and not _may_be_replaced(path):  # another command's, meanwhile
                    path = path.with_name(f"{path.name}.{os.getpid()}.html")
                beside.replace(path)
            except OSError as error:
                console.warn(
                    f"the report could not be written to {path}: {error.strerror or error}"
                )
            else:
                console.tell("report", f"report: {path}", path=str(path))
        beside.unlink(missing_ok=True)


def _may_be_replaced(path: "Path") -> bool:
    """Return whether a file is empty, or a report."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(BEGINNING.encode())) in {b"", BEGINNING.encode()}


def _head(summary: "RunSummary", started: datetime) -> Head:
    books = summary.books
    return Head(
        command=summary.command,
        gateway=None if summary.base_url is None else urlsplit(summary.base_url).netloc,
        started_at=started,
        ended_at=datetime.now().astimezone(),
        source=_shown(summary.source, "standard input"),
        out=_shown(summary.out, "standard output"),
        job=summary.job,
        next_lines=tuple(summary.next_lines),
        failure=None if summary.failure is None else str(summary.failure),
        requests=summary.requests if books is None else books.requests,
        retries=summary.retries,
        unexpected=summary.unexpected if books is None else books.unexpected,
    )


def _shown(path: "Path | None", stdio: str) -> str | None:
    return None if path is None else stdio if path == STDIO else str(path)
