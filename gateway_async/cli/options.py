"""The options of commands: those that a command shares with others are one parameter of it."""

import os
import re
import shlex
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
from cyclopts import Parameter, Token
from cyclopts.types import PositiveFloat, PositiveInt

from gateway_async.cli.console import Console
from gateway_async.cli.settings import Network, Settings, read_settings
from gateway_async.errors import ConfigurationError
from gateway_async.journal.engines import locate
from gateway_async.settings import BatchPolicy

_PASSWORD = re.compile(r"//[^:/@]*:[^@]*@|[?&][^=&]*password=", re.IGNORECASE)
_USUAL = BatchPolicy()
_NUMBERS = r"(?:(?P<{}>\d+(?:\.\d+)?){})?"
_UNITS = {"days": "d", "hours": "h", "minutes": "m", "seconds": "s", "milliseconds": "ms"}
_DURATION = re.compile("".join(_NUMBERS.format(*unit) for unit in _UNITS.items()))
_HOW_MUCH = {"quiet", "verbose", "log_format"}


def _no_option(_: object, path: Path | None) -> None:
    """Refuse an option in the place of a file: `--out --dry-run` would send."""
    if path is not None and str(path).startswith("--"):
        raise ValueError(f"{path} stands where a file is expected")


def _read_duration(_: object, tokens: Sequence[Token]) -> timedelta:
    """Read a duration, such as 50ms, 90s, 15m or 1h30m."""
    found = _DURATION.fullmatch(tokens[0].value)
    if found is None or not found[0]:
        raise ValueError("expected a duration such as 50ms, 90s, 15m or 1h30m")
    try:
        return timedelta(**{unit: float(one) for unit, one in found.groupdict("0").items()})
    except OverflowError:
        raise ValueError("expected a shorter duration") from None


def _read_index(_: object, tokens: Sequence[Token]) -> int:
    """Read the index of an order; cyclopts would round 17.5, and decide on another one."""
    if not (tokens[0].value.isascii() and tokens[0].value.isdigit()):
        raise ValueError(f"expected the index of an order, from 0, and not {tokens[0].value}")
    return int(tokens[0].value)


def _usually(field: str) -> Parameter:
    """Show the default of the policy, which the TOML file may change."""
    return Parameter(show_default=lambda _: str(getattr(_USUAL, field)))


def check_no_password(option: str, url: str | None) -> None:
    """Refuse a URL with a password in an option, where others could see it."""
    if _PASSWORD.search(url or ""):
        reason = "a password in an option shows in process lists; put the URL into"
        raise ConfigurationError(f"--{option}: {reason} GATEWAY_{option.upper()}")


_PATH = Parameter(allow_leading_hyphen=True, validator=_no_option)  # which lets `-` pass
Source = Annotated[Path, _PATH]
Target = Annotated[Path | None, _PATH]
Duration = Annotated[timedelta, Parameter(converter=_read_duration)]
Index = Annotated[int, Parameter(converter=_read_index)]
Shown = Annotated[Console, Parameter(parse=False)]
"""The console of a command: it is no option, `app.run` makes it of the options."""
Name = Annotated[str, Parameter(parse=False)]
"""The name of the command, for a function that several commands share."""
Duplicates = Annotated[Literal["reject", "serialize"] | None, _usually("duplicates")]
_FILES, _JOB = Parameter(group="Files"), Parameter(group="Job")
_PACE, _SAFETY = Parameter(group="Pace"), Parameter(group="Safety")


@Parameter(name="*")
@attrs.frozen(kw_only=True, slots=False)  # two with slots would have no common heir
class Config:
    """Where the settings are, and how much is said.

    Attributes:
        config: The TOML file with settings (GATEWAY_CONFIG); by default
            ~/.config/gateway-async/config.toml, if there is one.
        quiet: Say only how it ended, and what is wrong: no progress.
        verbose: Say also what is logged: each batch, request and retry, without any secret.
        log_format: How all of this is written to standard error: as text, or each thing as a line
            of JSON with time, level, logger and message.
    """

    config: Path | None = None
    quiet: Annotated[bool, Parameter(alias="-q")] = False
    verbose: Annotated[bool, Parameter(alias="-v")] = False
    log_format: Literal["text", "json"] = "text"

    def line(self, *words: str, taken: "type[Config] | None" = None) -> str:
        """Write a command to give next, in any directory, with the given settings that it takes.

        Args:
            words: The command.
            taken: The options of that command; by default those that name a journal.
        """
        found = ["gateway-async", *words]
        for name, value in self._given(taken or Stored).items():
            is_duration = isinstance(value, timedelta)
            text = f"{value.total_seconds():f}s" if is_duration else str(value)
            found += [f"--{name.replace('_', '-')}", *([] if value is True else [text])]
        return shlex.join(found)

    def settings(self) -> Settings:
        """Read all settings; see `read_settings`.

        Raises:
            ConfigurationError: If one is wrong, or an option holds a password.
        """
        for name in ("proxy", "journal"):
            check_no_password(name, getattr(self, name, None))
        policy = self._given(BatchPolicy)
        if (deadline := getattr(self, "deadline", None)) is not None:
            policy["deadline_seconds"] = deadline.total_seconds()
        given = {**self._given(Config), **self._given(Settings), "policy": policy}
        return read_settings(given, os.environ)

    def _given(self, taken: type[Any]) -> dict[str, Any]:
        """Return the given settings that a class has, as they mean the same in any directory."""
        names = [name for name in attrs.fields_dict(taken) if name not in _HOW_MUCH]
        said = {name: getattr(self, name, None) for name in names}
        given = {name: value for name, value in said.items() if value not in (None, False)}
        if "journal" in given:
            given["journal"] = locate(given["journal"]).absolute_url
        return {n: one.absolute() if isinstance(one, Path) else one for n, one in given.items()}


@attrs.frozen(kw_only=True, slots=False)
class Stored(Config):
    """Where jobs are kept, for commands that look at them and ask no gateway.

    Attributes:
        journal: The journal: sqlite:////srv/refunds.db, or postgresql://user@host/database; by
            default gateway-async/journal.db below XDG_STATE_HOME (~/.local/state). A URL with a
            password goes into GATEWAY_JOURNAL or the TOML file.
    """

    journal: Annotated[str | None, _JOB] = None


@Parameter(name="*", group="Gateway")
@attrs.frozen(kw_only=True, slots=False)
class Gateway(Config, Network):
    """Which gateway, and as whom."""


@attrs.frozen(kw_only=True, slots=False)
class Journaled(Stored, Gateway):
    """Which gateway, as whom, and where jobs are kept."""


@attrs.frozen(kw_only=True, slots=False)
class Files(Config):
    """Where the results go.

    Attributes:
        out: The file for the results, in the order of the input: CSV, or JSON Lines by a name
            that ends in .jsonl; - for standard output, in the format of the input. Required.
        report: The file for a report on the run, one page of HTML for a browser.
        json: Print one JSON object at the end: counts, amounts, job, files and the next commands;
            it needs --out with a file.
    """

    out: Annotated[Target, _FILES] = None
    report: Annotated[Path | None, _FILES] = None
    json: Annotated[bool, _FILES] = False


@attrs.frozen(kw_only=True, slots=False)
class Pace(Gateway):
    """How fast, and when to stop.

    Attributes:
        concurrency: Requests in flight at most.
        rate: Requests a second at most; by default as many as it takes.
        deadline: After so long, such as 90s, 15m or 1h30m, nothing more is sent; what is in flight
            gets `drain_seconds` (30) more.
        stop_after_unknown: After so many requests in a row without a readable reply, nothing more
            is sent.
        chunk_size: Orders in one request; by default as many as the gateway takes: 50 or 100, of
            payouts one.
    """

    concurrency: Annotated[PositiveInt | None, _usually("concurrency"), _PACE] = None
    rate: Annotated[PositiveFloat | None, _PACE] = None
    deadline: Annotated[Duration | None, _PACE] = None
    stop_after_unknown: Annotated[PositiveInt | None, _usually("stop_after_unknown"), _PACE] = None
    chunk_size: Annotated[PositiveInt | None, _PACE] = None


@attrs.frozen(kw_only=True, slots=False)
class Written(Files, Stored):
    """The options of a command that writes what a journal has."""


@attrs.frozen(kw_only=True, slots=False)
class Asking(Files, Pace):
    """The options of a command that asks the gateway."""


@attrs.frozen(kw_only=True, slots=False)
class Running(Pace, Journaled):
    """The options of a command that runs jobs."""


@attrs.frozen(kw_only=True, slots=False)
class Resuming(Files, Running):
    """The options of a command that runs one job.

    Attributes:
        yes: Do not ask before money leaves, or before orders are sent again.
    """

    yes: Annotated[bool, _SAFETY] = False


@attrs.frozen(kw_only=True, slots=False)
class Sending(Resuming):
    """The options of a command that sends the orders of a file.

    Attributes:
        job: A name for the job, in place of the one that is made of the operation, the merchant,
            the gateway and the orders.
        again: Make a job that is done once more: all of its orders are sent again. What was done
            before is shown, refunds alike are not held, and payouts that other jobs have are paid
            again. A job with held orders is not done. After a kill, the next run holds what is
            left: `jobs resolve NAME not_sent --state held` lets it go on.
        duplicates: What to do with several rows of one transaction: refuse the file, or send
            them one after the other. No request_id may stand in a file twice.
        dry_run: Show what would be sent, and send nothing: nothing leaves this machine. It needs
            no --out.
    """

    job: Annotated[str | None, _JOB] = None
    again: Annotated[bool, _JOB] = False
    duplicates: Annotated[Duplicates, _JOB] = None
    dry_run: Annotated[bool, _SAFETY] = False
