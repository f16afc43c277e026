"""Everything that a program might show or store of the library, collected and searched."""

import asyncio
import logging
import pickle
import pprint
import re
import sys
import traceback
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any

import attrs
from aiohttp import web
from rich.pretty import traverse
from rich.traceback import Traceback

from gateway_async import HmacSigner, Operation
from gateway_async.models.values import SensitiveText
from tests.secrets.data import CARD, CAVV, CODE, COOKIE, SIGNER_SECRET, TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

# The code stands alone: four digits also occur within addresses and fractions of a second.
_CODE = re.compile(rf"(?<![0-9A-Fa-f.x-]){CODE}(?![0-9A-Fa-f])")
_SPACED_CARD = re.compile(r"[ -]?".join(CARD))
_PLAIN = (CARD[:10], CARD[6:], SIGNER_SECRET, TOKEN[:24], COOKIE, CAVV)
_SIGNATURE_PART = 16
_HARMLESS = (NoneType, int, float, Decimal, Operation)
_UNPICKLABLE = (TypeError, pickle.PicklingError, AttributeError)


class Dragnet(logging.Handler):
    """Collects texts, and tells which of them hold a secret; shows none of them itself."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.texts: list[tuple[str, str]] = []
        self.signatures: set[str] = set()

    def __repr__(self) -> str:
        return "<Dragnet>"

    # What is collected

    def emit(self, record: logging.LogRecord) -> None:
        self.add("log", record.getMessage())
        self.add("log arguments", repr(record.args))
        if record.exc_info and record.exc_info[1] and not _is_of_a_server(record):
            self.catch_error("logged", record.exc_info[1])

    def add(self, label: str, text: str) -> None:
        self.texts.append((label, text))

    def on_loop_problem(self, _: object, context: dict[str, Any]) -> None:
        """Stand in for the event loop's exception handler."""
        self.add("event loop", repr(context))
        for value in context.values():
            if isinstance(value, BaseException):
                self.catch_error("event loop", value)
            else:
                self.add("event loop", f"{value}")

    def catch_object(self, label: str, value: object, *, deep: bool = False) -> None:
        """Show an object in every way; with `deep`, all that is reached from it, and pickle it."""
        for reached in _reach(value) if deep else (value,):
            if not isinstance(reached, _HARMLESS):
                self._show(f"{label}: {type(reached).__name__}", reached)
        self._pickle(label, value)

    def catch_error(self, label: str, error: BaseException) -> None:
        """Take every exception that hangs on this one, with the local variables of its frames."""
        for link in links_of(error):
            name = f"{label}: {type(link).__name__}"
            self.catch_object(name, link, deep=True)
            self.add(f"{name} notes", repr(getattr(link, "__notes__", ())))
            self._format(name, link)
            for longest in (sys.maxsize, 10):
                self._catch_locals(f"{name} in rich, at most {longest}", link, longest)

    def _format(self, label: str, error: BaseException) -> None:
        try:
            shown = traceback.TracebackException.from_exception(error, capture_locals=True)
        except AttributeError:  # of an unfinished `self`; Python 3.11 cannot show it, rich can
            return
        self.add(f"{label} traceback", "".join(shown.format(chain=True)))

    def _catch_locals(self, label: str, error: BaseException, longest: int) -> None:
        extracted = Traceback.extract(
            type(error),
            error,
            error.__traceback__,
            show_locals=True,
            locals_max_string=longest,
            locals_max_length=sys.maxsize,
        )
        for stack in extracted.stacks:
            self.add(label, repr(stack.exc_value))
            for frame in stack.frames:
                for name, node in (frame.locals or {}).items():
                    self.add(f"{label}, {frame.name} in {frame.filename}: {name}", str(node))

    def _show(self, label: str, value: object) -> None:
        if isinstance(value, bytes):
            self.add(label, value.decode("latin-1"))
        elif isinstance(value, str):
            shown = f"{value!r} {value!s} {value:s}"
            self.add(label, f"{shown} {traverse(value, max_string=10)}")
        else:
            self.add(label, f"{value!r} {value!s} {format(value)} {pprint.pformat(value)}")
            self.add(f"{label} in rich", str(traverse(value, max_string=10)))

    def _pickle(self, label: str, value: object) -> None:
        try:
            kept = pickle.dumps(value)
            copy = pickle.loads(kept)  # noqa: S301  # our own
        except _UNPICKLABLE as refusal:
            self.add(f"{label} refuses to be pickled", repr(refusal))
        else:
            self.add(f"{label} pickled", kept.decode("latin-1"))
            self._show(f"{label} unpickled", copy)

    # What is found

    def hits(self) -> list[str]:
        """Name each text that holds a secret."""
        parts = {signature[:_SIGNATURE_PART] for signature in self.signatures}
        parts |= {signature[-_SIGNATURE_PART:] for signature in self.signatures}
        plain = re.compile("|".join(map(re.escape, (*_PLAIN, *sorted(parts)))))
        return [
            f"{label}: ...{text[max(0, found.start() - 120) : found.end() + 20]}"
            for label, text in self.texts
            for pattern in (plain, _CODE, _SPACED_CARD)
            if (found := pattern.search(text))
        ]


def _is_of_a_server(record: logging.LogRecord) -> bool:
    """Say whether asyncio tells that the sandbox, in this same process, could not write a reply."""
    told = record.args if isinstance(record.args, tuple) else ()
    transports = [each for each in told if isinstance(each, asyncio.Transport)]
    return any(isinstance(each.get_protocol(), web.RequestHandler) for each in transports)


def links_of(error: BaseException) -> "Iterator[BaseException]":
    """Yield an exception and all that hang on it, suppressed or not."""
    seen: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        link = left.pop()
        if link is None or any(link is known for known in seen):
            continue
        seen.append(link)
        yield link
        left += [link.__cause__, link.__context__]
        left += link.exceptions if isinstance(link, BaseExceptionGroup) else ()
        outcome = getattr(link, "outcome", None)
        left += [outcome] if isinstance(outcome, BaseException) else ()


def _reach(value: object) -> "Iterator[object]":
    """Yield a value and what it is made of, as far as it is the library's or a container."""
    seen: set[int] = set()
    kept: list[object] = []  # so that no identity is used twice
    left = [value]
    while left:
        reached = left.pop()
        if id(reached) in seen:
            continue
        seen.add(id(reached))
        kept.append(reached)
        yield reached
        left += _parts(reached)


def _parts(value: object) -> list[object]:
    if isinstance(value, SensitiveText | HmacSigner | Operation | type | str | bytes):
        return []
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, BaseException):
        return [*value.args, *vars(value).values()]
    if not type(value).__module__.startswith("gateway_async"):
        return []
    kind: Any = type(value)
    names = [field.name for field in attrs.fields(kind)] if attrs.has(kind) else []
    parts = [getattr(value, name) for name in (*names, *getattr(value, "__dict__", ()))]
    outcomes = getattr(value, "__iter__", None)
    return [*parts, *(outcomes() if outcomes is not None else ())]
