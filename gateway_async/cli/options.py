"""Options that several commands share, one class a group of them, as cyclopts reads them.

There is none for the secret: options show in process lists and in the history of a shell.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from gateway_async.cli.console import Console
from gateway_async.cli.settings import Settings, default_journal, read_settings
from gateway_async.cli.tables import Format
from gateway_async.errors import ConfigurationError
from gateway_async.journal import Journal
from gateway_async.journal.location import locate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import Token

_ABOUT_MESSAGES = frozenset({"log_format", "quiet", "verbose"})
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)?")
_SECONDS = {None: 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600}
_USER_AND_PASSWORD = re.compile(r"//[^:/@]*:[^@]*@|[?&][a-z]*password=", re.IGNORECASE)


def _to_seconds(kind: Any, tokens: "Sequence[Token]") -> float:  # noqa: ANN401  # as cyclopts calls it
    """Read a duration: `50ms`, `90`, `90s`, `15m` or `2h`.

    Raises:
        ValueError: For anything else.
    """
    del kind
    found = _DURATION.fullmatch(tokens[0].value)
    if found is None or not float(found[1]):
        raise ValueError(f"{tokens[0].value!r} is no duration; write 50ms, 90s, 15m or 2h")
    return float(found[1]) * _SECONDS[found[2]]


def _no_option(_: object, path: Path | None) -> None:
    """Refuse an option in the place of a file: `--out --dry-run` would send."""
    if path is not None and str(path).startswith("--"):
        raise ValueError(
            f"{path} is no option of this command, or stands where a file is expected; give a "
            "file that is called so with its whole path"
        )


Source = Annotated[Path, Parameter(allow_leading_hyphen=True, validator=_no_option)]
Out = Annotated[Path, Parameter(allow_leading_hyphen=True, validator=_no_option)]
Seconds = Annotated[float, Parameter(converter=_to_seconds, metavar="DURATION")]
_AtLeastOne = Parameter(validator=Number(gte=1))
ConsoleArgument = Annotated[Console, Parameter(parse=False)]
"""The console of a command: it is no option, `app.run` makes it of the options."""
NameArgument = Annotated[str, Parameter(parse=False)]
"""The name of the command, for a function that several commands share."""


def _as_given(options: Any, *, without: frozenset[str]) -> tuple[str, ...]:  # noqa: ANN401  # a group of options
    """Write options as they were given, all but some."""
    return tuple(
        text
        for name, value in attrs.asdict(options).items()
        if value and name not in without
        for text in (f"--{name.replace('_', '-')}", *(() if value is True else (_whole(value),)))
    )


def _whole(value: object) -> str:
    """Write a value so that it means the same in another directory."""
    return str(value.absolute()) if isinstance(value, Path) else str(value)


@Parameter(name="*", group="Gateway")
@attrs.frozen(kw_only=True)
class GatewayOptions:
    """Which gateway, and as whom.

    Attributes:
        config: The TOML file with settings (GATEWAY_CONFIG); by default
            ~/.config/gateway-async/config.toml, if there is one.
        profile: A part of that file, [profiles.NAME], which goes over the rest of it, and
            not over the environment (GATEWAY_PROFILE).
        base_url: The gateway's address (GATEWAY_BASE_URL).
        merchant_id: The merchant identifier (GATEWAY_MERCHANT_ID).
        account_id: The merchant account identifier (GATEWAY_ACCOUNT_ID).
        secret_file: The file that holds the signing secret (GATEWAY_SECRET_FILE); GATEWAY_SECRET
            holds the secret itself.
        keyring: The service under which the system's keyring holds the signing secret
            (GATEWAY_KEYRING).
        allow_http: Let plain http:// go to another machine, over a network that you trust
            (GATEWAY_ALLOW_HTTP=true).
        ca_file: The certificates, in PEM, of the authorities to trust in place of the system's
            (GATEWAY_CA_FILE).
        client_cert: The certificate, in PEM, that is shown to the gateway, with its key
            (GATEWAY_CLIENT_CERT).
        client_key: Its key, if that is in another file; without a password
            (GATEWAY_CLIENT_KEY).
        proxy: The proxy to go through, such as http://proxy.example:3128. A URL with a password
            goes into GATEWAY_PROXY or the TOML file.
        trust_env: Go through the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name
            (GATEWAY_TRUST_ENV=true).
        log_format: How everything on standard error is written: for people, or one JSON object a
            line.
        quiet: Say only how it ended, and what is wrong: no progress.
        verbose: Say also what is logged: each batch, request and retry, without any secret.
    """

    config: Path | None = None
    profile: str | None = None
    base_url: str | None = None
    merchant_id: str | None = None
    account_id: str | None = None
    secret_file: Path | None = None
    keyring: str | None = None
    allow_http: bool = False
    ca_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    proxy: str | None = None
    trust_env: bool = False
    log_format: Literal["text", "json"] = "text"
    quiet: Annotated[bool, Parameter(alias="-q")] = False
    verbose: Annotated[bool, Parameter(alias="-v")] = False

    @property
    def again(self) -> tuple[str, ...]:
        """The options that name this gateway, for a command that goes on at the same."""
        return _as_given(self, without=_ABOUT_MESSAGES)

    def console(self) -> Console:
        """Return what prints messages."""
        return Console(
            is_json=self.log_format == "json", is_quiet=self.quiet, is_verbose=self.verbose
        )

    def settings(self, **more: Any) -> Settings:  # noqa: ANN401  # settings by name
        """Read all settings; see `read_settings`.

        Args:
            more: What other options say.

        Raises:
            ConfigurationError: If one is wrong, or a proxy's password is in an option.
        """
        if self.proxy is not None and "@" in self.proxy:
            raise ConfigurationError(
                "--proxy: a password in an option shows in process lists; put the URL into "
                "GATEWAY_PROXY, or into the TOML file"
            )
        given = attrs.asdict(self, filter=lambda field, _: field.name not in _ABOUT_MESSAGES)
        return read_settings({**given, **more}, os.environ)


@Parameter(name="*", group="Pace")
@attrs.frozen(kw_only=True)
class PaceOptions:
    """How fast, and when to stop.

    Attributes:
        concurrency: Requests in flight at most.
        rate: Requests a second at most.
        deadline: How long the whole may take, such as 90s, 15m or 2h; then nothing more is sent.
        stop_after_unknown: After so many requests in a row without a readable reply, nothing more
            is sent.
        chunk_size: Orders in one request.
    """

    concurrency: Annotated[int | None, _AtLeastOne] = None
    rate: Annotated[float | None, Parameter(validator=Number(gt=0))] = None
    deadline: Seconds | None = None
    stop_after_unknown: Annotated[int | None, _AtLeastOne] = None
    chunk_size: Annotated[int | None, _AtLeastOne] = None

    @property
    def policy(self) -> dict[str, Any]:
        """The fields of `BatchPolicy` that were said."""
        said = {
            "concurrency": self.concurrency,
            "deadline_seconds": self.deadline,
            "stop_after_unknown": self.stop_after_unknown,
            "chunk_size": self.chunk_size,
        }
        return {name: value for name, value in said.items() if value is not None}


@Parameter(name="*", group="Files")
@attrs.frozen(kw_only=True)
class FormatOptions:
    """How files are read and written.

    Attributes:
        format: The format of standard input and output, where a file is `-`.
    """

    format: Literal["csv", "jsonl"] = "csv"

    @property
    def stdio(self) -> Format:
        """The format of standard input and output."""
        return Format(self.format)


@Parameter(name="*", group="Files")
@attrs.frozen(kw_only=True)
class FileOptions(FormatOptions):
    """How files are read and written, and what is reported of the run.

    Attributes:
        format: The format of standard input and output, where a file is `-`.
        report: The file for a report on the run, one page of HTML for a browser; an older report
            is replaced.
    """

    report: Path | None = None


@Parameter(name="*", group="Safety")
@attrs.frozen(kw_only=True)
class SafetyOptions:
    """What happens before anything is sent.

    Attributes:
        dry_run: Show what would be sent, and send nothing: nothing leaves this machine.
        yes: Do not ask before money is sent.
    """

    dry_run: bool = False
    yes: bool = False


@Parameter(name="*", group="Safety")
@attrs.frozen(kw_only=True)
class LookUpOptions:
    """What happens before anything is asked.

    Attributes:
        dry_run: Show what would be asked, and ask nothing: nothing leaves this machine.
    """

    dry_run: bool = False


@Parameter(name="*", group="Job")
@attrs.frozen(kw_only=True)
class JournalOptions:
    """Where jobs are kept.

    Attributes:
        journal: The journal: sqlite:////srv/refunds.db, or postgresql://user@host/database; by
            default gateway-async/journal.db below XDG_STATE_HOME (~/.local/state). A URL with a
            password goes into GATEWAY_JOURNAL or the TOML file.
    """

    journal: str | None = None

    @property
    def again(self) -> tuple[str, ...]:
        """The option, for a command on the same journal in any directory."""
        return () if self.journal is None else ("--journal", locate(self.journal).absolute_url)

    def checked(self) -> str | None:
        """Return the URL.

        Raises:
            ConfigurationError: If it holds a password, which others could see.
        """
        if self.journal is not None and _USER_AND_PASSWORD.search(self.journal):
            raise ConfigurationError(
                "--journal: a password in an option shows in process lists; put the URL into "
                "GATEWAY_JOURNAL, or the password into ~/.pgpass"
            )
        return self.journal


def open_journal(settings: Settings, *, create: bool = True) -> Journal:
    """Make the journal that the settings name; in messages, it has its whole path.

    Args:
        settings: The settings.
        create: Whether a journal is made where there is none; its file is for this user alone.

    Raises:
        ConfigurationError: If they name one that cannot be.
    """
    location = locate(settings.journal)
    if create and location.is_sqlite:
        path = Path(location.path).absolute()
        try:
            if settings.journal == default_journal(os.environ):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
        except OSError as error:
            raise ConfigurationError(
                f"--journal: {path} cannot be made: {error.strerror or error}"
            ) from None
    return Journal.open(
        location.absolute_url,
        lease_seconds=settings.journal_lease_seconds,
        create=create,
    )


def file_of(settings: Settings) -> Path | None:
    """Return the file of the journal that the settings name, if it is one."""
    location = locate(settings.journal)
    return Path(location.path) if location.is_sqlite else None
