"""What a report says of the run as a whole."""

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from datetime import datetime


@attrs.frozen(kw_only=True)
class Head:
    """The run that a report is about.

    Attributes:
        command: What was run, such as ``"refund"``.
        started_at: When it began.
        ended_at: When it ended.
        gateway: The gateway's host; None where none was asked.
        source: Where the orders came from, such as the name of a file.
        out: Where every single outcome is written.
        job: The name of the job, if it was one.
        next_lines: The lines to give next: they resume, recover, or send the rest.
        failure: Why it ended early, if it did.
        requests: Requests of which something was sent; None where nobody counted.
        retries: Attempts beyond the first; None where nobody counted.
        unexpected: Records that came back and belong to no order.
    """

    command: str
    started_at: "datetime"
    ended_at: "datetime"
    gateway: str | None = None
    source: str | None = None
    out: str | None = None
    job: str | None = None
    next_lines: tuple[str, ...] = ()
    failure: str | None = None
    requests: int | None = None
    retries: int | None = None
    unexpected: int = 0
