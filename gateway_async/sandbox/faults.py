"""Faults: what may go wrong between the gateway and its client, as data and pure functions.

A fault is added to an operation, or to all of them with `"*"`. A request is struck by every fault
that applies to it, but by one *ending* at most (a fault that decides what happens to the
connection): the first that was added and is not used up. The effect of a request is done as if the
fault were not there, unless its class says otherwise. This module performs nothing.
"""

import gzip
import itertools
import random
import re
import zlib
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from gateway_async.errors import ConfigurationError
from gateway_async.operations import CHECKOUT, OPERATIONS, PAY_APM, PAY_DIRECT, PAYOUT, Operation
from gateway_async.sandbox.ledger import to_amount
from gateway_async.sandbox.messages import HTML_TYPE, Answer, Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["AnswerFault", "ByteOrderMark", "ChangedAmount", "ChangedCurrency", "ChangedIdentity"]
__all__ += ["CutReply", "Doctype", "DoubledItems", "Drip", "DropReply", "EmptyLookUp", "Ending"]
__all__ += ["EntityBomb", "ExternalEntity", "ExtraItems", "Fault", "Faults", "GzipBomb"]
__all__ += ["GzipReply", "HtmlErrorPage", "HugeReply", "IgnoreSelection", "InvalidBody"]
__all__ += ["LateEffect", "LateNotification", "Latency", "LostNotification", "MissingItems"]
__all__ += ["NoReply", "NotificationFault", "NullList", "NumbersForText", "OvertakenNotification"]
__all__ += ["Plan", "Redirect", "ReorderedItems", "RepeatedNotification", "ReplyFault"]
__all__ += ["ResetAfterEffect", "ResetBeforeEffect", "ReturnStatus", "Status", "UnknownFields"]
__all__ += ["UnknownItemStatus", "WrongContentType"]

EVERY_OPERATION = "*"
_NOTIFIED = sorted(op.name for op in (PAY_DIRECT, PAY_APM, CHECKOUT, PAYOUT))
_AMOUNT_FIELDS = ("amount", "refund_amount", "payment_amount", "source_amount")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_PIECE_BYTES = 65_536
_GZIP_WINDOW = 31  # zlib's way to ask for a gzip header


def _one_or_more(_: object, attribute: "attrs.Attribute[Any]", value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{attribute.name}: expected None or 1 and more, got {value}")


def _probability(_: object, attribute: "attrs.Attribute[Any]", value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{attribute.name}: expected 0 to 1, got {value}")


@attrs.frozen
class Fault:
    """What every fault has.

    Attributes:
        times: How many requests it strikes; None is every one.
        probability: How likely it strikes a request, 0 to 1.
    """

    times: int | None = attrs.field(default=None, kw_only=True, validator=_one_or_more)
    probability: float = attrs.field(default=1.0, kw_only=True, validator=_probability)


@attrs.frozen
class Latency(Fault):
    """The gateway takes its time, before the effect.

    Attributes:
        seconds: How long.
        jitter: How many seconds more at most, drawn evenly.
    """

    seconds: float = 0.05
    jitter: float = 0.0


@attrs.frozen
class IgnoreSelection(Fault):
    """A look-up answers with the recent records, whatever it was asked for."""


# What becomes of the connection


@attrs.frozen
class Ending(Fault):
    """A fault that decides what becomes of the connection; one at most for a request."""


@attrs.frozen
class DropReply(Ending):
    """The effect is done, and the connection is closed without a reply."""


@attrs.frozen
class ResetBeforeEffect(Ending):
    """The connection is reset after the body was read; nothing is done."""


@attrs.frozen
class ResetAfterEffect(Ending):
    """The effect is done, and the connection is reset."""


@attrs.frozen
class LateEffect(Ending):
    """The connection is closed without a reply, and the effect lands later.

    Attributes:
        seconds: How much later.
    """

    seconds: float = 2.0


@attrs.frozen
class NoReply(Ending):
    """The connection stays open without a reply, until the client goes or the sandbox closes.

    Attributes:
        after_effect: Whether the effect is done.
    """

    after_effect: bool = True


@attrs.frozen
class CutReply(Ending):
    """The effect is done, and the connection is closed within the body.

    Attributes:
        at: How much of the body comes: bytes as an `int`, a part of it as a `float` below 1.
    """

    at: float = 0.5

    def sent(self, body: bytes) -> bytes:
        """Return what comes of the body."""
        return body[: self.at if isinstance(self.at, int) else int(len(body) * self.at)]


@attrs.frozen
class Drip(Ending):
    """The effect is done, and the reply comes in small pieces.

    Attributes:
        piece_bytes: The size of a piece.
        pause_seconds: The pause between two pieces.
    """

    piece_bytes: int = 1
    pause_seconds: float = 0.05


@attrs.frozen
class Instead(Ending):
    """A fault that sends another reply.

    Attributes:
        after_effect: Whether the effect is done.
    """

    after_effect: bool = attrs.field(default=False, kw_only=True)

    def reply(self) -> Reply:
        """Return the other reply."""
        return Reply(headers={}, body=b"")


@attrs.frozen
class Status(Instead):
    """Another HTTP status, with an empty body.

    Attributes:
        status: The status.
        retry_after: The Retry-After header, if there is to be one.
        after_effect: Whether the effect is done.
    """

    status: int = 503
    retry_after: str | None = None

    def reply(self) -> Reply:
        """Return the status alone."""
        headers = {"Retry-After": self.retry_after} if self.retry_after is not None else {}
        return Reply(status=self.status, headers=headers, body=b"")


@attrs.frozen
class HtmlErrorPage(Instead):
    """The error page of a proxy.

    Attributes:
        status: The HTTP status; a page with 200 looks like a reply.
        after_effect: Whether the effect is done.
    """

    status: int = 502
    after_effect: bool = attrs.field(default=True, kw_only=True)

    def reply(self) -> Reply:
        """Return the page."""
        body = b"<html><head><title>Error</title></head><body><h1>Error</h1></body></html>"
        return Reply(status=self.status, headers={"Content-Type": HTML_TYPE}, body=body)


@attrs.frozen
class Redirect(Instead):
    """The client is sent elsewhere.

    Attributes:
        location: Where to.
        status: The HTTP status.
        after_effect: Whether the effect is done.
    """

    location: str
    status: int = 307

    def reply(self) -> Reply:
        """Return the redirection."""
        return Reply(status=self.status, headers={"Location": self.location}, body=b"")


@attrs.frozen
class Streamed(Ending):
    """A fault whose reply is too large to be held; the effect is done.

    Attributes:
        size_bytes: The size of the reply, decompressed.
    """

    size_bytes: int = 64 * 1024 * 1024

    @property
    def headers(self) -> dict[str, str]:
        """The headers beside those of the reply."""
        return {}

    def pieces(self, body: bytes) -> "Iterator[bytes]":
        """Yield the right body and then white space, which no parser minds, up to the size."""
        yield body
        left = self.size_bytes - len(body)
        while left > 0:
            yield b" " * min(left, _PIECE_BYTES)
            left -= _PIECE_BYTES


@attrs.frozen
class HugeReply(Streamed):
    """A right reply that does not end for a long time."""


@attrs.frozen
class GzipBomb(Streamed):
    """A right reply that is small on the wire and huge when decompressed."""

    @property
    def headers(self) -> dict[str, str]:
        """The encoding."""
        return {"Content-Encoding": "gzip"}

    def pieces(self, body: bytes) -> "Iterator[bytes]":
        """Yield the same, compressed."""
        packer = zlib.compressobj(wbits=_GZIP_WINDOW)
        for piece in super().pieces(body):
            yield packer.compress(piece)
        yield packer.flush()


# What a reply says


@attrs.frozen
class AnswerFault(Fault):
    """A fault that changes what the gateway says; the reply is signed after it."""

    def distort(self, answer: Answer) -> Answer:
        """Return what is said instead."""
        return answer


def _changed(
    answer: Answer, count: int | None, change: "Callable[[dict[str, Any]], dict[str, Any]]"
) -> Answer:
    """Change the first `count` records, or all of them."""
    records = answer.records
    touched = len(records) if count is None else count
    return answer.with_records([*map(change, records[:touched]), *records[touched:]])


@attrs.frozen
class MissingItems(AnswerFault):
    """The first records are left out.

    Attributes:
        count: How many.
    """

    count: int = 1

    def distort(self, answer: Answer) -> Answer:
        """Leave them out."""
        return answer.with_list(answer.records[self.count :])


@attrs.frozen
class DoubledItems(AnswerFault):
    """The first records come twice, one behind the other.

    Attributes:
        count: How many.
        status: The status that the second of each pair has instead, if it is to contradict.
    """

    count: int = 1
    status: str | None = None

    def distort(self, answer: Answer) -> Answer:
        """Double them."""
        doubled = [
            one
            for record in answer.records[: self.count]
            for one in (record, _with_status(answer.operation, record, self.status))
        ]
        return answer.with_list([*doubled, *answer.records[self.count :]])


def _with_status(
    operation: Operation, record: dict[str, Any], status: str | None, text: str | None = None
) -> dict[str, Any]:
    names = (operation.status_field, "refund_status", "order_status")
    changed = {next((name for name in names if name in record), "status"): status}
    changed.update((n, text) for n in ("error_message", "refund_message") if n in record)
    return {**record, **{name: value for name, value in changed.items() if value is not None}}


@attrs.frozen
class ReorderedItems(AnswerFault):
    """The records come in the opposite order."""

    def distort(self, answer: Answer) -> Answer:
        """Turn them round."""
        return answer.with_list(answer.records[::-1])


@attrs.frozen
class ExtraItems(AnswerFault):
    """Records that were not asked for come before the others.

    Attributes:
        count: How many.
    """

    count: int = 1

    def distort(self, answer: Answer) -> Answer:
        """Put strangers in front."""
        like = next(iter(answer.records), {"amount": "1.00", "currency": "EUR"})
        strangers = [
            {**like, "transaction_id": f"{9 * 10**21 + number}", "order_no": f"stranger-{number}"}
            for number in range(1, self.count + 1)
        ]
        return answer.with_list([*strangers, *answer.records])


@attrs.frozen
class EmptyLookUp(AnswerFault):
    """The list is empty, and the request is accepted all the same."""

    def distort(self, answer: Answer) -> Answer:
        """Empty the list."""
        return answer.with_list([])


@attrs.frozen
class NullList(AnswerFault):
    """The list is null."""

    def distort(self, answer: Answer) -> Answer:
        """Set the list to null."""
        return answer.with_list(None)


@attrs.frozen
class UnknownItemStatus(AnswerFault):
    """The first records have a status that no dialect lists.

    Attributes:
        value: The status.
        text: What `error_message` or `refund_message` says beside it.
        count: How many; None is all.
    """

    value: str = "7"
    text: str = ""
    count: int | None = attrs.field(default=None, kw_only=True)

    def distort(self, answer: Answer) -> Answer:
        """Set status and text."""
        return _changed(
            answer,
            self.count,
            lambda record: _with_status(answer.operation, record, self.value, self.text),
        )


@attrs.frozen
class ChangedAmount(AnswerFault):
    """An amount is one unit more than it was.

    Attributes:
        field: Which amount.
        count: In how many records; None is all.
    """

    field: str = "amount"
    count: int | None = 1

    def distort(self, answer: Answer) -> Answer:
        """Add one unit, where the record has the field."""

        def change(record: dict[str, Any]) -> dict[str, Any]:
            amount = to_amount(record.get(self.field))
            return record if amount is None else {**record, self.field: str(amount + Decimal(1))}

        return _changed(answer, self.count, change)


@attrs.frozen
class ChangedCurrency(AnswerFault):
    """A currency is another one than it was.

    Attributes:
        value: The other one.
        count: In how many records; None is all.
    """

    value: str = "XXX"
    count: int | None = 1

    def distort(self, answer: Answer) -> Answer:
        """Set it."""
        return _changed(answer, self.count, lambda record: {**record, "currency": self.value})


@attrs.frozen
class ChangedIdentity(AnswerFault):
    """The first two records have each other's order number; a single one has a stranger's."""

    def distort(self, answer: Answer) -> Answer:
        """Exchange them."""
        pair = answer.records[:2]
        numbers = [record.get("order_no", "") for record in reversed(pair)]
        if len(pair) == 1:
            numbers = ["stranger-1"]
        changed = [{**r, "order_no": n} for r, n in zip(pair, numbers, strict=True)]
        return answer.with_records([*changed, *answer.records[2:]])


@attrs.frozen
class NumbersForText(AnswerFault):
    """Amounts, identifiers and statuses come as JSON numbers where they can."""

    def distort(self, answer: Answer) -> Answer:
        """Turn digits into whole numbers and amounts into floating point ones."""
        return _changed(attrs.evolve(answer, fields=_numbers(answer.fields)), None, _numbers)


def _numbers(record: dict[str, Any]) -> dict[str, Any]:
    return {name: _number(name, value) for name, value in record.items()}


def _number(name: str, value: Any) -> Any:  # noqa: ANN401  # any JSON value
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return value
    return float(value) if name in _AMOUNT_FIELDS or "." in value else int(value)


@attrs.frozen
class UnknownFields(AnswerFault):
    """Envelope and records have a field each that the interface does not list."""

    def distort(self, answer: Answer) -> Answer:
        """Add them."""
        marked = answer.with_fields({"sandbox_field": "envelope"})
        return _changed(marked, None, lambda record: {**record, "sandbox_field": "record"})


@attrs.frozen
class ReturnStatus(AnswerFault):
    """The overall result is another one.

    Attributes:
        code: `return_status`.
        message: `return_message`.
        listed: How many records the reply still holds; None is all.
        after_effect: Whether the effect is done; if not, the list is empty.
    """

    code: str = "0"
    message: str = "system error"
    listed: int | None = 0
    after_effect: bool = attrs.field(default=True, kw_only=True)

    def distort(self, answer: Answer) -> Answer:
        """Set both; a reply without a list stays."""
        if answer.operation.list_field is None:
            return answer
        kept = answer.with_records(answer.records[: self.listed])
        return kept.with_fields({"return_status": self.code, "return_message": self.message})


# The bytes of a reply


@attrs.frozen
class ReplyFault(Fault):
    """A fault that changes the bytes of a reply, or its headers."""

    def rewrite(self, reply: Reply) -> Reply:
        """Return what goes out instead."""
        return reply


@attrs.frozen
class InvalidBody(ReplyFault):
    """The second half of the body is missing, and the reply is complete as HTTP sees it."""

    def rewrite(self, reply: Reply) -> Reply:
        """Keep the first half."""
        return attrs.evolve(reply, body=reply.body[: len(reply.body) // 2])


@attrs.frozen
class WrongContentType(ReplyFault):
    """The right body under a wrong content type.

    Attributes:
        value: The content type.
    """

    value: str = "text/plain"

    def rewrite(self, reply: Reply) -> Reply:
        """Set the header."""
        return attrs.evolve(reply, headers={**reply.headers, "Content-Type": self.value})


@attrs.frozen
class ByteOrderMark(ReplyFault):
    """A byte order mark stands before the body."""

    def rewrite(self, reply: Reply) -> Reply:
        """Put it there."""
        return attrs.evolve(reply, body=b"\xef\xbb\xbf" + reply.body)


@attrs.frozen
class GzipReply(ReplyFault):
    """The body is compressed, and says so."""

    def rewrite(self, reply: Reply) -> Reply:
        """Compress it."""
        headers = {**reply.headers, "Content-Encoding": "gzip"}
        return attrs.evolve(reply, headers=headers, body=gzip.compress(reply.body))


@attrs.frozen
class _XmlFault(ReplyFault):
    """A document type stands in the XML of a payment reply; other replies stay."""

    @property
    def entities(self) -> str:
        """The entities that the document type declares; one is called `used`."""
        return ""

    def rewrite(self, reply: Reply) -> Reply:
        """Put the document type in, and an element that uses its entities."""
        if not reply.is_xml:
            return reply
        entities = self.entities
        declared = f" [{entities}]" if entities else ""
        element = "<custom>&used;</custom>" if entities else ""
        text = reply.body.decode().replace("<respon>", f"<!DOCTYPE respon{declared}><respon>", 1)
        text = text.replace("</respon>", f"{element}</respon>")
        return attrs.evolve(reply, body=text.encode())


@attrs.frozen
class Doctype(_XmlFault):
    """A harmless document type stands in the XML."""


@attrs.frozen
class EntityBomb(_XmlFault):
    """Entities that unfold to some gigabytes stand in the XML."""

    @property
    def entities(self) -> str:
        """Ten entities, each ten times the one before."""
        names = [*(f"e{level}" for level in range(9)), "used"]
        pairs = itertools.pairwise(names)
        unfolded = "".join(f'<!ENTITY {name} "{f"&{one};" * 10}">' for one, name in pairs)
        return f'<!ENTITY e0 "entity">{unfolded}'


@attrs.frozen
class ExternalEntity(_XmlFault):
    """An entity that is read from elsewhere stands in the XML.

    Attributes:
        address: From where.
    """

    address: str = "file:///etc/hostname"

    @property
    def entities(self) -> str:
        """The entity."""
        return f'<!ENTITY used SYSTEM "{self.address}">'


# What is sent to a `notify_url`


@attrs.frozen
class NotificationFault(Fault):
    """A fault that strikes notifications, and never a request.

    It is added to the operation whose result is notified: `sandbox.faults.add("checkout", ...)`.
    """


@attrs.frozen
class LostNotification(NotificationFault):
    """It is never sent."""


@attrs.frozen
class LateNotification(NotificationFault):
    """It is sent later.

    Attributes:
        seconds: How much later.
    """

    seconds: float = 2.0


@attrs.frozen
class OvertakenNotification(NotificationFault):
    """It is sent only after the next one, whatever that is about."""


@attrs.frozen
class RepeatedNotification(NotificationFault):
    """It is sent again, though it was taken.

    Attributes:
        copies: How often in all.
    """

    copies: int = 2


# Which fault strikes


F = TypeVar("F", bound=Fault)


@attrs.frozen(kw_only=True)
class Plan:
    """What strikes one request.

    Attributes:
        faults: All of it, in the order in which it was added.
        delay_seconds: How long to wait before the effect.
    """

    faults: tuple[Fault, ...] = ()
    delay_seconds: float = 0.0

    def of(self, kind: type[F]) -> list[F]:
        """Return the faults of a kind."""
        return [fault for fault in self.faults if isinstance(fault, kind)]

    @property
    def ending(self) -> Ending | None:
        """The fault that decides what becomes of the connection."""
        return next(iter(self.of(Ending)), None)

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
        random_seed: Makes probabilities and jitter repeatable.

    Attributes:
        struck: How often each kind of fault struck, by the name of its class.
    """

    def __init__(self, *, random_seed: int | None = None) -> None:
        self._random = random.Random(random_seed)  # noqa: S311  # repeatable, not secret
        self._rules: list[_Rule] = []
        self.struck: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Faults: {[rule.fault for rule in self._rules]}>"

    def add(self, operation: str, fault: Fault) -> None:
        """Let a fault strike an operation, by its name, or `"*"`: every operation.

        Raises:
            ConfigurationError: There is no such operation, the fault is none, or it strikes
                notifications and the operation has none.
        """
        if operation != EVERY_OPERATION and operation not in OPERATIONS:
            raise ConfigurationError(
                f"Faults.add: {operation!r} is no operation; "
                f"the operations are {', '.join(OPERATIONS)}, and '*' for all"
            )
        if not isinstance(fault, Fault):
            raise ConfigurationError(
                f"Faults.add: expected a fault such as DropReply(), got {fault!r}"
            )
        if isinstance(fault, NotificationFault) and operation not in (*_NOTIFIED, EVERY_OPERATION):
            raise ConfigurationError(
                f"Faults.add: no notification is sent for {operation!r}: {fault!r} cannot strike; "
                f"the operations with notifications are {', '.join(_NOTIFIED)}"
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
            if isinstance(rule.fault, NotificationFault) is not notifications:
                continue
            is_taken = isinstance(rule.fault, Ending) and any(isinstance(f, Ending) for f in chosen)
            if not is_taken and self._strikes(rule, operation):
                chosen.append(rule.fault)
        self._rules = [rule for rule in self._rules if rule.left != 0]
        plan = Plan(faults=tuple(chosen))
        self.struck.update(plan.names)
        delays = [f.seconds + self._random.uniform(0, f.jitter) for f in plan.of(Latency)]
        return attrs.evolve(plan, delay_seconds=sum(delays)) if delays else plan

    def _strikes(self, rule: _Rule, operation: str) -> bool:
        if rule.operation not in (EVERY_OPERATION, operation):
            return False
        if rule.fault.probability < 1 and self._random.random() >= rule.fault.probability:
            return False
        if rule.left is not None:
            rule.left -= 1
        return True
