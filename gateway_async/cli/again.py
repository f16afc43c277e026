"""The line that a command was given by, as it can be given again in any directory.

Law: only paths are rewritten: in another directory, a relative one is another file or journal.
"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from gateway_async.cli.files.formats import STDIO
from gateway_async.errors import ConfigurationError
from gateway_async.journal.location import locate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_JOURNAL = "--journal"
_PATHS = frozenset(
    {
        *("--out", "--report", "--config", "--secret-file"),
        *("--ca-file", "--client-cert", "--client-key"),
    }
)
_FLAGS = frozenset({"--yes", "--dry-run", "--allow-http", "--trust-env", "--"})


def line_again(words: "Iterable[str]", given: "Sequence[object]" = ()) -> str:
    """Write a command, with whole paths.

    Args:
        words: What stands behind the name of the program.
        given: What the last of its arguments that have no name were read as: paths, or others.
    """
    written = ["gateway-async"]
    unnamed: list[int] = []
    option = ""
    for word in words:
        name, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
        if option:
            written.append(_whole(option, word))
            option = ""
        elif sign:
            written.append(f"{name}={_whole(name, value)}")
        else:
            if not name:
                unnamed.append(len(written))
            written.append(word)
            option = "" if name in _FLAGS else name
    for at, argument in zip(unnamed[-len(given) :], given, strict=False):
        if isinstance(argument, Path):
            written[at] = _whole_path(written[at])
    return shlex.join(written)


def with_journal(line: str, url: str | None) -> str:
    """Return a line that names its journal, where that is another one in another directory.

    Args:
        line: The line.
        url: The journal, wherever it was named; None for none.
    """
    is_named = given_option(line, _JOURNAL) is not None
    whole = None if url is None or is_named else locate(url).absolute_url
    return line if whole is None or whole == url else f"{line} {shlex.join([_JOURNAL, whole])}"


def line_on_job(
    words: "Iterable[str]", line: str, gateway: "Iterable[str]", url: str | None
) -> str:
    """Write another command on the job that a line is about.

    Args:
        words: The command.
        line: The line that was given.
        gateway: Its options that name the gateway.
        url: The journal, wherever it was named; None for none.
    """
    named = given_option(line, _JOURNAL)
    journal = (_JOURNAL, named) if named else ()
    return with_journal(line_again([*words, *journal, *gateway]), url)


def given_option(line: str, option: str) -> str | None:
    """Return the value of an option as a line has it; None where it has none."""
    words = shlex.split(line)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, sign, value = word.partition("=")
        if name == option:
            return value if sign else following
    return None


def _whole(option: str, value: str) -> str:
    name = option.replace("_", "-")
    if name == _JOURNAL:
        try:
            return locate(value).absolute_url
        except ConfigurationError:
            return value
    return _whole_path(value) if name in _PATHS else value


def _whole_path(text: str) -> str:
    return text if Path(text) == STDIO else str(Path(text).absolute())
