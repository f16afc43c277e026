"""Everything that a program might show or store of the library, collected and searched."""

import asyncio
import contextlib
import logging
import pickle
import pprint
import re
import sys
import traceback
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import NoneType
from typing import Any

import attrs
import pytest
from aiohttp import web
from rich.pretty import traverse
from rich.traceback import Traceback

from gateway_async import HmacSigner, Operation
from gateway_async.models.values import SensitiveText
from tests.support.examples import CARD, CAVV, COOKIE, SECURITY_CODE, TOKEN

SIGNER_SECRET = "whisper-of-the-signer-Zk81"
# The code stands alone: four digits also occur within addresses and fractions of a second.
_CODE = re.compile(rf"(?<![0-9A-Fa-f.x-]){SECURITY_CODE}(?![0-9A-Fa-f])")
_SPACED_CARD = re.compile(r"[ -]?".join(CARD))
_PLAIN = (CARD[:10], CARD[6:], SIGNER_SECRET, TOKEN[:24], COOKIE, CAVV)
_TESTS = str(Path(__file__).parents[1])
_PART = 16
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
        self.add("log", f"{record.getMessage()} {record.args!r}")
        if record.exc_info and record.exc_info[1] and not _is_of_a_server(record):
            self.catch("logged", record.exc_info[1])

    def add(self, label: str, text: str) -> None:
        self.texts.append((label, text))

    def on_loop_problem(self, _: object, context: dict[str, Any]) -> None:
        """Stand in for the event loop's exception handler."""
        self.add("event loop", f"{context!r} {[*map(str, context.values())]}")
        for value in context.values():
            if isinstance(value, BaseException):
                self.catch("event loop", value)

    def catch(self, label: str, value: object, *, deep: bool = True) -> None:
        """Show a value in every way, with `deep` all that is reached from it, and pickle it.

        Of an exception, take every one that hangs on it, with the local variables of its frames.
        """
        for link in links_of(value):
            name = f"{label}: {type(link).__name__}"
            for reached in _reach(link) if deep else (link,):
                if not isinstance(reached, _HARMLESS):
                    self._show(f"{name}: {type(reached).__name__}", reached)
            self._pickle(name, link)
            if isinstance(link, BaseException):
                self._catch_frames(name, link)

    @contextlib.contextmanager
    def raises(self, *kinds: type[BaseException], match: str | None = None) -> Iterator[None]:
        """Expect an error, and catch it without the first frames, of a test, which knows all."""
        with pytest.raises(kinds, match=match) as caught:
            yield
        trace = caught.value.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_TESTS):
            trace = trace.tb_next
        self.catch("raised", caught.value.with_traceback(trace))

    def _catch_frames(self, label: str, error: BaseException) -> None:
        self.add(f"{label} notes", repr(getattr(error, "__notes__", ())))
        # Of an unfinished `self`, Python 3.11 can show no traceback; rich can.
        with contextlib.suppress(AttributeError):
            shown = traceback.TracebackException.from_exception(error, capture_locals=True)
            self.add(f"{label} traceback", "".join(shown.format(chain=True)))
        # Whole texts: what a secret shows when it is cut short, its own slices show.
        extracted = Traceback.extract(
            *(type(error), error, error.__traceback__),
            show_locals=True,
            locals_max_string=sys.maxsize,
            locals_max_length=sys.maxsize,
        )
        for stack in extracted.stacks:
            self.add(f"{label} in rich", repr(stack.exc_value))
            for frame in stack.frames:
                for name, node in (frame.locals or {}).items():
                    place = f"{frame.name} in {frame.filename}: {name}"
                    self.add(f"{label} in rich, {place}", str(node))

    def _show(self, label: str, value: object) -> None:
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if type(value) is str:  # it shows itself, whatever shows it
            self.add(label, value)
            return
        shown = f"{value!r} {value!s} {format(value)} {pprint.pformat(value)}"
        self.add(label, f"{shown} {traverse(value, max_string=10, max_depth=3)}")

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
        parts = {part for one in self.signatures for part in (one[:_PART], one[-_PART:])}
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


def links_of(value: object) -> list[Any]:
    """Return a value, and of an exception all that hang on it, suppressed or not."""
    links = [value]
    for link in links:
        if isinstance(link, BaseException):
            more = [link.__cause__, link.__context__, getattr(link, "outcome", None)]
            more += link.exceptions if isinstance(link, BaseExceptionGroup) else ()
            links += [
                one
                for one in more
                if isinstance(one, BaseException) and not any(one is known for known in links)
            ]
    return links


def _reach(value: object) -> list[object]:
    """Return a value and what it is made of, as far as it is the library's or a container."""
    reached = {id(value): value}  # kept, so that no identity is used twice
    left = [value]
    for one in left:
        for part in _parts(one):
            if id(part) not in reached:
                reached[id(part)] = part
                left.append(part)
    return left


def _parts(value: Any) -> list[object]:
    match value:
        case SensitiveText() | HmacSigner() | Operation() | type() | str() | bytes():
            return []
        case dict():
            return [*value.keys(), *value.values()]
        case list() | tuple() | set() | frozenset():
            return list(value)
        case BaseException():
            return [*value.args, *vars(value).values()]
    if not type(value).__module__.startswith("gateway_async"):
        return []
    names = [field.name for field in attrs.fields(type(value))] if attrs.has(type(value)) else []
    parts = [getattr(value, name) for name in (*names, *getattr(value, "__dict__", ()))]
    outcomes = getattr(value, "__iter__", None)
    return [*parts, *(outcomes() if outcomes is not None else ())]
