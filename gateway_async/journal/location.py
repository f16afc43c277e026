"""Where a journal is: its URL and its file, checked before anything is opened.

A password is in no message and in no repr.
"""

import contextlib
import re
from pathlib import Path

import attrs

from gateway_async.errors import ConfigurationError

_EXPECTED = (
    "expected sqlite:////path/to/file.db, with four slashes before an absolute path and no "
    "parameters, or postgresql://user@host/database; in a user, a password or a parameter, write @ "
    "as %40 and / as %2F"
)
_SQLITE = re.compile(r"sqlite:///(?P<path>[^?]+)", re.IGNORECASE)
# A colon before a host's port alone: elsewhere, a password may follow it.
_POSTGRES = re.compile(
    r"postgres(?:ql|ql\+psycopg)?://(?:(?P<user>[^:@/?#]*)(?::[^@/?#]*)?@)?"
    r"(?P<place>(?:[\w.,%-]|:\d+(?=[,/])|\[[\w:.%]+\])*/+[^/@?#][^@?#]*)(?:\?[^@]*)?",
    re.IGNORECASE,
)


@attrs.frozen
class Location:
    """Where a journal is.

    Attributes:
        url: The URL as it was given; it may hold a password.
        shown: What may be shown of it.
        path: The path of the file; empty for PostgreSQL.
    """

    url: str = attrs.field(repr=False)
    shown: str
    path: str = ""

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file."""
        return bool(self.path)

    @property
    def absolute_url(self) -> str:
        """The URL with the whole path of the file, from the working directory as it is now."""
        return f"sqlite:///{Path(self.path).absolute()}" if self.path else self.url

    def check_absolute(self) -> None:
        """Refuse a file whose path is relative.

        Raises:
            ConfigurationError: With the URL that names the file in every working directory.
        """
        if self.is_sqlite and not Path(self.path).is_absolute():
            raise ConfigurationError(
                f"journal URL: {self.shown} depends on the working directory: started elsewhere, a "
                "job would begin anew and send every order again; write the whole path: "
                f"{self.absolute_url}"
            )

    def make_file(self) -> None:
        """Make a file that is not there, for this user alone."""
        if self.is_sqlite and not Path(self.path).exists():
            with contextlib.suppress(OSError):  # the database then says what is wrong
                Path(self.path).touch(mode=0o600)


def locate(url: object) -> Location:
    """Read the URL of a journal.

    Raises:
        ConfigurationError: For anything but the URL of a SQLite file or a PostgreSQL database.
    """
    if isinstance(url, str):
        if found := _SQLITE.fullmatch(url):
            return Location(url, url, found["path"])
        if found := _POSTGRES.fullmatch(url):
            user = f"{found['user']}@" if found["user"] else ""
            # Without its password and its parameters, which may hold one too.
            return Location(url, f"postgresql://{user}{found['place']}")
    raise ConfigurationError(f"journal URL: {_EXPECTED}")  # what is given may hold a password
