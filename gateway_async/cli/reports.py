"""`--report`: what a command did, as one page of HTML, written when it is over.

Law: a report is made of what is recorded elsewhere; that it cannot be written at the end changes
nothing else.
"""

import contextlib
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from gateway_async.cli.files.formats import STDIO
from gateway_async.cli.runs import Tally
from gateway_async.errors import ConfigurationError
from gateway_async.report import Head, Report, render
from gateway_async.report.report import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway_async.cli.talk import Talk
    from gateway_async.reconciliation.summary import Summary
    from gateway_async.report import Latencies


@attrs.frozen(kw_only=True)
class About:
    """What a report is about.

    Attributes:
        command: The command.
        base_url: The gateway's address; None where none was asked.
        source: The input; None where it is a journal.
        out: Where every single outcome is written; None where they are printed.
        job: The name of the job, if it is one.
        journal: The file of its journal, if that is one.
    """

    command: str
    base_url: str | None = None
    source: Path | None = None
    out: Path | None = None
    job: str | None = None
    journal: Path | None = None


@attrs.define(kw_only=True)
class Reporting:
    """What a command tells its report.

    Attributes:
        report: Collects it; None where no report was asked for.
        tally: What the run adds up to.
        summary: What a reconciliation came to.
        next_lines: The commands to give next.
    """

    report: Report | None = None
    tally: Tally = attrs.field(factory=Tally)
    summary: "Summary | None" = None
    next_lines: list[str] = attrs.field(factory=list)

    @property
    def telemetry(self) -> "Latencies | None":
        """What the client tells how long its requests take."""
        return None if self.report is None else self.report.latencies

    @property
    def has_begun(self) -> bool:
        """Whether there is anything to report."""
        return self.summary is not None or self.tally.has_begun


@contextlib.contextmanager
def reporting(path: Path | None, about: About, talk: "Talk") -> "Iterator[Reporting]":
    """Begin a report; it is written when the block ends, however it ends.

    Args:
        path: The file; None for no report.
        about: What it is about.
        talk: Told if it cannot be written.

    Raises:
        ConfigurationError: If the file cannot be written; nothing was sent.
    """
    if path is None:
        yield Reporting()
        return
    beside = _begin_beside(path, about)
    started = datetime.now().astimezone()
    told = Reporting(report=Report(about.command.replace("-", "_"), job=about.job))
    try:
        yield told
    finally:
        if told.report is not None and told.has_begun:
            _write(beside, path, _render(told, told.report, about, started), talk)
        beside.unlink(missing_ok=True)


def _begin_beside(path: Path, about: About) -> Path:
    """Begin a file beside the report, so that nothing begins if it could not be written."""
    if path == STDIO or path.resolve() in _resolved(about.source, about.out, about.journal):
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
    return beside


def _resolved(*paths: Path | None) -> "set[Path]":
    return {path.resolve() for path in paths if path is not None}


def _may_be_replaced(path: Path) -> bool:
    """Say whether a file is empty, or a report."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        begin = file.read(len(BEGINNING.encode()))
    return begin in {b"", BEGINNING.encode()}


def _write(beside: Path, path: Path, page: str, talk: "Talk") -> None:
    try:
        beside.write_text(page, encoding="utf-8", errors="backslashreplace")
        if path.exists() and not _may_be_replaced(path):  # another command put it there meanwhile
            path = path.with_name(f"{path.name}.{os.getpid()}.html")
        beside.replace(path)
    except OSError as error:
        talk.warn(f"the report could not be written to {path}: {error.strerror or error}")
    else:
        talk.tell("report", f"report: {path}", path=str(path))


def _render(told: Reporting, report: Report, about: About, started: datetime) -> str:
    tally, summary = told.tally, told.summary
    head = Head(
        command=about.command,
        gateway=None if about.base_url is None else urlsplit(about.base_url).netloc,
        started_at=started,
        ended_at=datetime.now().astimezone(),
        source=None if about.source is None else _shown(about.source, "standard input"),
        out=None if about.out is None else _shown(about.out, "standard output"),
        job=about.job,
        next_lines=tuple(told.next_lines),
        failure=None if tally.failure is None else str(tally.failure),
        requests=tally.requests if summary is None else summary.requests,
        retries=tally.retries,
        unexpected=tally.unexpected if summary is None else summary.unexpected,
    )
    return render(report, head, summary)


def _shown(path: Path, stdio: str) -> str:
    return stdio if path == STDIO else str(path)
