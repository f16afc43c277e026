"""Faults: what may go wrong between the gateway and its client, one class a fault.

A fault is added to an operation, or to all of them with `"*"`. A request is struck by every fault
that applies to it, but by one *ending* at most: the first that was added and is not used up. The
effect of a request is done as if the fault were not there, unless its class says otherwise.

This module is the table of faults: a class says what happens, and the reference of the sandbox is
made of its docstring. It changes answers and bytes, and performs nothing.
"""

import gzip
import random
import re
import zlib
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

import attrs
from attrs.validators import and_, ge, le, optional

from gateway_async.errors import ConfigurationError
from gateway_async.operations import OPERATIONS
from gateway_async.sandbox.ledger import to_amount
from gateway_async.sandbox.messages import HTML_TYPE, Answer, Fields, Record, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_OPERATION = "*"
_STATUSES = ("order_status", *(op.status_field for op in OPERATIONS.values() if op.status_field))
_AMOUNTS = ("amount", "refund_amount", "payment_amount", "source_amount")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_ERROR_PAGE = b"<html><head><title>Error</title></head><body><h1>Error</h1></body></html>"
_PIECE_BYTES = 65_536
_GZIP_WINDOW = 31  # zlib's way to ask for a gzip header

Connection = Literal["kept", "cut", "closed", "reset", "held"]
"""What becomes of it once an ending is through."""


@attrs.frozen
class Fault:
    """What every fault has.

    Attributes:
        times: How many requests it strikes; None is every one.
        probability: How likely it strikes a request, 0 to 1.
    """

    times: int | None = attrs.field(default=None, kw_only=True, validator=optional(ge(1)))
    probability: float = attrs.field(default=1.0, kw_only=True, validator=and_(ge(0), le(1)))


@attrs.frozen
class Latency(Fault):
    """The request waits for `seconds` before its effect."""

    seconds: float = 0.05


class IgnoreSelection(Fault):
    """A look-up answers with the recent records, whatever it was asked for."""


# What becomes of the connection


@attrs.frozen
class Ending(Fault):
    """It decides what becomes of the connection; one at most strikes a request.

    Attributes:
        after_effect: Whether the effect is done.
        pause_seconds: The pause behind each piece of the reply.
    """

    connection: ClassVar[Connection] = "kept"
    is_sized: ClassVar[bool] = True
    headers: ClassVar[Fields] = {}
    after_effect: bool = attrs.field(default=True, init=False, repr=False)
    pause_seconds: float = attrs.field(default=0.0, init=False, repr=False)

    @property
    def instead(self) -> Reply | None:
        """What is sent in place of the right reply; None where that is sent."""
        return None

    def pieces(self, body: bytes) -> "Iterator[bytes]":
        """Yield a body in the pieces in which it is sent."""
        yield body


class DropReply(Ending):
    """The effect is done, and the connection is closed without a reply."""

    connection: ClassVar[Connection] = "closed"


@attrs.frozen
class ResetBeforeEffect(Ending):
    """The connection is reset once the request was read; nothing is done."""

    connection: ClassVar[Connection] = "reset"
    after_effect: bool = attrs.field(default=False, init=False, repr=False)


class ResetAfterEffect(Ending):
    """The effect is done, and the connection is reset."""

    connection: ClassVar[Connection] = "reset"


@attrs.frozen
class LateEffect(Ending):
    """The connection is closed without a reply, and the effect lands `seconds` later."""

    connection: ClassVar[Connection] = "closed"
    seconds: float = 2.0
    after_effect: bool = attrs.field(default=False, init=False, repr=False)


@attrs.frozen
class NoReply(Ending):
    """The connection stays open without a reply; `after_effect=False`: nothing is done.

    It is held until the client goes or the sandbox closes.
    """

    connection: ClassVar[Connection] = "held"
    after_effect: bool = True


@attrs.frozen
class CutReply(Ending):
    """The effect is done, and the connection is closed within the body.

    `at` says where: a `float` below 1 is a part of the body, an `int` so many bytes.
    """

    connection: ClassVar[Connection] = "cut"
    at: float = 0.5

    def pieces(self, body: bytes) -> "Iterator[bytes]":
        """Yield the part."""
        yield body[: self.at if isinstance(self.at, int) else int(len(body) * self.at)]


@attrs.frozen
class Drip(Ending):
    """The effect is done, and the reply comes in pieces of `piece_bytes` bytes.

    Between two of them are `pause_seconds`.
    """

    piece_bytes: int = 1
    pause_seconds: float = 0.05

    def pieces(self, body: bytes) -> "Iterator[bytes]":
        """Yield small pieces."""
        for start in range(0, len(body), self.piece_bytes):
            yield body[start : start + self.piece_bytes]


@attrs.frozen
class Status(Ending):
    """Another HTTP status with an empty body, and a Retry-After header if you like.

    Nothing is done, unless `after_effect=True`.
    """

    status: int = 503
    retry_after: str | None = None
    after_effect: bool = attrs.field(default=False, kw_only=True)

    @property
    def instead(self) -> Reply:
        """The status alone."""
        headers = {"Retry-After": self.retry_after} if self.retry_after is not None else {}
        return Reply(status=self.status, headers=headers, body=b"")


@attrs.frozen
class HtmlErrorPage(Ending):
    """The effect is done, and the error page of a proxy comes; with 200 it looks like a reply.

    `after_effect=False`: nothing is done.
    """

    status: int = 502
    after_effect: bool = attrs.field(default=True, kw_only=True)

    @property
    def instead(self) -> Reply:
        """The page."""
        return Reply(status=self.status, headers={"Content-Type": HTML_TYPE}, body=_ERROR_PAGE)


@attrs.frozen
class Redirect(Ending):
    """The client is sent to another address; nothing is done, unless `after_effect=True`."""

    location: str
    status: int = 307
    after_effect: bool = attrs.field(default=False, kw_only=True)

    @property
    def instead(self) -> Reply:
        """The redirection."""
        return Reply(status=self.status, headers={"Location": self.location}, body=b"")


@attrs.frozen
class HugeReply(Ending):
    """The effect is done, and the right reply is followed by white space up to `size_bytes`."""

    is_sized: ClassVar[bool] = False
    size_bytes: int = 64 * 1024 * 1024

    def pieces(self, body: bytes) -> "Iterator[bytes]":
        """Yield the body, and white space."""
        yield body
        left = self.size_bytes - len(body)
        while left > 0:
            yield b" " * min(left, _PIECE_BYTES)
            left -= _PIECE_BYTES


class GzipBomb(HugeReply):
    """The same as `HugeReply`, small on the wire and of `size_bytes` when decompressed."""

    headers: ClassVar[Fields] = {"Content-Encoding": "gzip"}

    def pieces(self, body: bytes) -> "Iterator[bytes]":
        """Yield the same pieces, compressed."""
        packer = zlib.compressobj(wbits=_GZIP_WINDOW)
        yield from map(packer.compress, super().pieces(body))
        yield packer.flush()


# What a reply says


class AnswerFault(Fault):
    """The effect is done, and the reply says something else; it is signed after that."""

    def distort(self, answer: Answer) -> Answer:
        """Return what is said instead."""
        return answer.with_records(self._changed(answer.records))

    def _changed(self, records: list[Record]) -> list[Record] | None:
        return records


@attrs.frozen
class MissingItems(AnswerFault):
    """The first `count` records are left out."""

    count: int = 1

    def _changed(self, records: list[Record]) -> list[Record] | None:
        return records[self.count :]


@attrs.frozen
class DoubledItems(AnswerFault):
    """The first `count` records come twice, the second time with `status` if it is given."""

    count: int = 1
    status: str | None = None

    def _changed(self, records: list[Record]) -> list[Record] | None:
        first = records[: self.count]
        doubled = [one for record in first for one in (record, _with_status(record, self.status))]
        return [*doubled, *records[self.count :]]


class ReorderedItems(AnswerFault):
    """The records come in the opposite order."""

    def _changed(self, records: list[Record]) -> list[Record] | None:
        return records[::-1]


@attrs.frozen
class ExtraItems(AnswerFault):
    """Before the others come `count` records that were not asked for."""

    count: int = 1

    def _changed(self, records: list[Record]) -> list[Record] | None:
        like = next(iter(records), {"amount": "1.00", "currency": "EUR"})
        strangers = [
            {**like, "transaction_id": f"{9 * 10**21 + number}", "order_no": f"stranger-{number}"}
            for number in range(1, self.count + 1)
        ]
        return [*strangers, *records]


class EmptyLookUp(AnswerFault):
    """The list is empty, and the request is accepted all the same."""

    def _changed(self, records: list[Record]) -> list[Record]:
        return records[:0]


class NullList(AnswerFault):
    """The list is `null`."""

    def _changed(self, records: list[Record]) -> None:
        del records


@attrs.frozen
class ReturnStatus(AnswerFault):
    """Another `return_status`: `code`, with `message`, and `listed` of the records (None: all).

    `after_effect=False`: nothing is done, and the list is empty. A reply without a list stays.
    """

    code: str = "0"
    message: str = "system error"
    listed: int | None = 0
    after_effect: bool = attrs.field(default=True, kw_only=True)

    def distort(self, answer: Answer) -> Answer:
        """Return what is said instead."""
        if not answer.operation.list_field:
            return answer
        said = {"return_status": self.code, "return_message": self.message}
        return answer.with_records(answer.records[: self.listed], **said)


@attrs.frozen
class _RecordFault(AnswerFault):
    count: int | None = attrs.field(default=1, kw_only=True)

    def _changed(self, records: list[Record]) -> list[Record]:
        count = len(records) if self.count is None else self.count
        return [*map(self._change, records[:count]), *records[count:]]

    def _change(self, record: Record) -> Record:
        return record


@attrs.frozen
class UnknownItemStatus(_RecordFault):
    """The first `count` records (None: all) have the status `value` and the text `text`."""

    value: str = "7"
    text: str = ""
    count: int | None = attrs.field(default=None, kw_only=True)

    def _change(self, record: Record) -> Record:
        texts = {n: self.text for n in ("error_message", "refund_message") if n in record}
        return _with_status(record, self.value) | texts


@attrs.frozen
class ChangedAmount(_RecordFault):
    """The amount in `field` is one unit more, in the first `count` records (None: all)."""

    field: str = "amount"

    def _change(self, record: Record) -> Record:
        amount = to_amount(record.get(self.field))
        return record if amount is None else {**record, self.field: str(amount + Decimal(1))}


@attrs.frozen
class ChangedCurrency(_RecordFault):
    """The currency is `value`, in the first `count` records (None: all)."""

    value: str = "XXX"

    def _change(self, record: Record) -> Record:
        return {**record, "currency": self.value}


class ChangedIdentity(AnswerFault):
    """The first two records have each other's order number; a single one has a stranger's."""

    def _changed(self, records: list[Record]) -> list[Record]:
        pair = records[:2]
        numbers = [record.get("order_no", "") for record in reversed(pair)]
        if len(pair) == 1:
            numbers = ["stranger-1"]
        changed = [{**r, "order_no": n} for r, n in zip(pair, numbers, strict=True)]
        return [*changed, *records[2:]]


class NumbersForText(AnswerFault):
    """Amounts, identifiers and statuses come as JSON numbers where they can."""

    def distort(self, answer: Answer) -> Answer:
        """Return what is said instead."""
        records = list(map(_numbers, answer.records))
        return attrs.evolve(answer, fields=_numbers(answer.fields)).with_records(records)


class UnknownFields(AnswerFault):
    """Envelope and records have a field each that the interface does not list."""

    def distort(self, answer: Answer) -> Answer:
        """Return what is said instead."""
        records = [{**record, "sandbox_field": "record"} for record in answer.records]
        return answer.with_records(records, sandbox_field="envelope")


def _with_status(record: Record, status: str | None) -> Record:
    name = next((name for name in _STATUSES if name in record), "status")
    return record if status is None else {**record, name: status}


def _numbers(record: Record) -> Record:
    return {
        name: (float if name in _AMOUNTS or "." in value else int)(value)
        if isinstance(value, str) and _NUMBER.fullmatch(value)
        else value
        for name, value in record.items()
    }


# The bytes of a reply


class ReplyFault(Fault):
    """The effect is done, and the bytes of the reply or its headers are others."""

    def rewrite(self, reply: Reply) -> Reply:
        """Return what goes out instead."""
        return reply


class InvalidBody(ReplyFault):
    """The second half of the body is missing, and the reply is complete as HTTP sees it."""

    def rewrite(self, reply: Reply) -> Reply:
        """Return what goes out instead."""
        return attrs.evolve(reply, body=reply.body[: len(reply.body) // 2])


@attrs.frozen
class WrongContentType(ReplyFault):
    """The right body comes under the content type `value`."""

    value: str = "text/plain"

    def rewrite(self, reply: Reply) -> Reply:
        """Return what goes out instead."""
        return attrs.evolve(reply, headers={**reply.headers, "Content-Type": self.value})


class ByteOrderMark(ReplyFault):
    """A byte order mark stands before the body."""

    def rewrite(self, reply: Reply) -> Reply:
        """Return what goes out instead."""
        return attrs.evolve(reply, body=b"\xef\xbb\xbf" + reply.body)


class GzipReply(ReplyFault):
    """The body is compressed, and says so."""

    def rewrite(self, reply: Reply) -> Reply:
        """Return what goes out instead."""
        headers = {**reply.headers, "Content-Encoding": "gzip"}
        return attrs.evolve(reply, headers=headers, body=gzip.compress(reply.body))


class Doctype(ReplyFault):
    """A harmless document type stands in the XML of a payment; other replies stay."""

    def rewrite(self, reply: Reply) -> Reply:
        """Return what goes out instead."""
        entities = self._entities()
        doctype = f"<!DOCTYPE respon [{entities}]><respon>".encode()
        element = b"<custom>&used;</custom></respon>" if entities else b"</respon>"
        body = reply.body.replace(b"<respon>", doctype).replace(b"</respon>", element)
        return attrs.evolve(reply, body=body)

    def _entities(self) -> str:
        return ""


class EntityBomb(Doctype):
    """Entities that unfold to gigabytes stand in the XML of a payment."""

    def _entities(self) -> str:
        pairs = pairwise([*(f"e{level}" for level in range(9)), "used"])
        unfolded = "".join(f'<!ENTITY {name} "{f"&{one};" * 10}">' for one, name in pairs)
        return f'<!ENTITY e0 "entity">{unfolded}'


@attrs.frozen
class ExternalEntity(Doctype):
    """An entity that is read from `address` stands in the XML of a payment."""

    address: str = "file:///etc/hostname"

    def _entities(self) -> str:
        return f'<!ENTITY used SYSTEM "{self.address}">'


# What is sent to a `notify_url`


class NotificationFault(Fault):
    """It strikes notifications, and never a request.

    It is added to the operation whose result is notified: `sandbox.faults.add("checkout", ...)`.
    """


class LostNotification(NotificationFault):
    """It is never sent."""


@attrs.frozen
class LateNotification(NotificationFault):
    """It is sent `seconds` later, or when `deliver_notifications` is called."""

    seconds: float = 2.0


@attrs.frozen
class RepeatedNotification(NotificationFault):
    """It is sent `copies` times in all, though it was taken the first time."""

    copies: int = 2


# Which fault strikes


F = TypeVar("F", bound=Fault)


@attrs.frozen(kw_only=True)
class Plan:
    """What strikes one request.

    Attributes:
        faults: All of it, in the order in which it was added.
    """

    faults: tuple[Fault, ...] = ()

    def of(self, kind: type[F]) -> list[F]:
        """Return the faults of a kind."""
        return [fault for fault in self.faults if isinstance(fault, kind)]

    @property
    def refusal(self) -> str:
        """Why the request is refused though nothing is wrong with it; empty text where not."""
        refusing = (fault for fault in self.of(ReturnStatus) if not fault.after_effect)
        return next((fault.message or fault.code for fault in refusing), "")

    @property
    def names(self) -> tuple[str, ...]:
        """The faults by their classes."""
        return tuple(type(fault).__name__ for fault in self.faults)


@attrs.define
class _Rule:
    operation: str
    fault: Fault
    left: int | None


class Faults:
    """The faults of a sandbox.

    Args:
        random_seed: Makes probabilities repeatable.

    Attributes:
        struck: How often each kind of fault struck, by the name of its class.
    """

    def __init__(self, *, random_seed: int | None = None) -> None:
        self._random = random.Random(random_seed)  # noqa: S311  # repeatable, not secret
        self._rules: list[_Rule] = []
        self.struck: Counter[str] = Counter()

    def add(self, operation: str, fault: Fault) -> None:
        """Let a fault strike an operation, by its name, or `"*"`: every operation.

        Raises:
            ConfigurationError: If there is no such operation, or `fault` is no `Fault`.
        """
        if operation not in (*OPERATIONS, EVERY_OPERATION):
            raise ConfigurationError(
                f"Faults.add: {operation!r} is no operation; "
                f"the operations are {', '.join(OPERATIONS)}, and '*' for all"
            )
        if not isinstance(fault, Fault):
            raise ConfigurationError(
                f"Faults.add: expected a fault such as DropReply(), got {fault!r}"
            )
        self._rules.append(_Rule(operation, fault, fault.times))

    def clear(self) -> None:
        """Take all faults away; held connections stay held."""
        self._rules.clear()

    def plan(self, operation: str, *, notifications: bool = False) -> Plan:
        """Decide what strikes the next request of an operation, and count it.

        Args:
            operation: Its name.
            notifications: Whether the next notification about it is meant, and not a request.
        """
        chosen: list[Fault] = []
        for rule in self._rules:
            fault = rule.fault
            if (
                isinstance(fault, NotificationFault) is not notifications
                or rule.operation not in (EVERY_OPERATION, operation)
                or (isinstance(fault, Ending) and any(isinstance(f, Ending) for f in chosen))
                or (fault.probability < 1 and self._random.random() >= fault.probability)
            ):
                continue
            if rule.left is not None:
                rule.left -= 1
            chosen.append(fault)
        self._rules = [rule for rule in self._rules if rule.left != 0]
        plan = Plan(faults=tuple(chosen))
        self.struck.update(plan.names)
        return plan


__all__ = [
    name
    for name, one in list(globals().items())
    if isinstance(one, type) and (issubclass(one, Fault) or one in (Faults, Plan))
    if not name.startswith("_")
]
