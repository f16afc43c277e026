"""Judges a reply: a verdict for each order of the chunk.

Each order gets exactly one verdict. Items are matched by identity, never by position; items that
fit no order are reported. This module is pure, and does not know how the reply came.
"""

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import (
    GatewayError,
    NotSentError,
    OutcomeUnknownError,
    RejectedError,
    ReplyUnreadableError,
)
from gateway_async.models.orders import ANY_MARKER, OutcomeStatus, status_codes
from gateway_async.models.values import WrongValueError, to_number
from gateway_async.wire.decode import MESSAGES, identifier, message, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gateway_async.dialect import Dialect
    from gateway_async.models.orders import OrderRef
    from gateway_async.operations import Operation

    Item = Mapping[str, Any]
    Verdict = tuple[OutcomeStatus, GatewayError | None]
    Overall = tuple[str | None, str | None]
    """Code and text of the overall result that a reply names."""

_CASELESS = frozenset({"currency", "payment_currency", "source_currency", "request_id"})
_TWO_NAMES = "an item names one order by transaction_id and another by order_no"
_NOT_LISTED = "the reply does not list this order"
_DONE_BEFORE = "the reply names a refund that was done before this request"
_OTHERS_MARKER = "the reply shows the marker of another refund"
_NOT_ACCEPTED = "the gateway does not say that it accepted the request"
_MAY_LACK_RECORDS = "the reply is full, and may lack records of this order"
_NO_MEANING = "which stands neither in Dialect.found_query_results nor in absent_query_results"
_NEVER_BLINDLY = "never send it again before you know"
SUCCEEDED: "Verdict" = (OutcomeStatus.SUCCEEDED, None)
_ABSENT: "Verdict" = (OutcomeStatus.ABSENT, None)


@attrs.frozen
class Judgement:
    """The verdicts of one reply.

    Attributes:
        verdicts: For each order of the chunk, in its order: status, and error or None.
        items: For each order, the items of the reply that are about it.
        unexpected: Items that are about no order of the chunk, as they came.
        truncated: The reply is full and may have been cut: ask for the orders in smaller chunks.
        all_echoed: Every order succeeded, and item n of the reply is the one about order n: so the
            bytes of the reply say all, and no verdict need be kept (`AnsweredChunk`).
    """

    verdicts: "list[Verdict]"
    items: "Sequence[tuple[Item, ...]]" = attrs.field(repr=False)
    unexpected: list[object] = attrs.field(repr=False)
    truncated: bool = False
    all_echoed: bool = False

    @property
    def statuses(self) -> bytes:
        """The status of each order, as a code."""
        return status_codes([status for status, _ in self.verdicts])


@attrs.frozen
class Judge:
    """Judges the replies to one operation, and keeps nothing of them.

    Attributes:
        operation: The operation.
        dialect: What the interface leaves open.
    """

    operation: "Operation"
    dialect: "Dialect"

    def judge_reply(
        self,
        orders: "Sequence[Any]",
        payload: "Item",
        references: "Mapping[str, Collection[str]]",
        markers: "Sequence[str]" = (),
    ) -> Judgement:
        """Judge a decoded reply, order by order.

        Args:
            orders: The orders of the chunk; no two of the same identity.
            payload: The reply's JSON object.
            references: By transaction, the references of its earlier refunds, where known.
            markers: The marker of each refund, where markers were sent.
        """
        if self.operation.is_look_up:
            return self._judge_look_up(orders, payload)
        if self.operation.is_keyed:
            return self._judge_result(orders[0], payload)
        return self._judge_money(orders, payload, references, markers)

    # Captures, cancels, reviews, refunds

    def _judge_money(
        self,
        orders: "Sequence[Any]",
        payload: "Item",
        references: "Mapping[str, Collection[str]]",
        markers: "Sequence[str]",
    ) -> Judgement:
        operation = self.operation
        listed = listed_items(operation, payload) or []
        found, conflicts, unexpected = _match_by_identity(orders, listed)
        denial = self._find_denial(payload)
        missing = self._judge_missing(payload, denial)
        pending = self.dialect.pending_statuses
        # An item that names no order, or two, may be about any that has none of its own.
        stray: list[Item] = [one for one in unexpected if isinstance(one, dict)]
        stray += [one for position in conflicts for one in found[position]]
        verdicts: list[Verdict] = []
        for position, (order, items) in enumerate(zip(orders, found, strict=True)):
            own = stray if position in conflicts or not items else items
            if pending and (waiting := self._find_pending(own)):  # whatever else they say
                verdicts.append(self._judge_status(waiting))
            elif items and markers and _shows_another(markers[position], items[0]):
                verdicts.append(_unreadable(_OTHERS_MARKER))
            elif position in conflicts:
                verdicts.append(_unreadable(_TWO_NAMES))
            elif not items:
                verdicts.append(missing)
            else:
                verdict = self._judge_items(items, order, denial)
                before = references.get(order.transaction_id, ())
                if (
                    verdict is SUCCEEDED
                    and identifier(items[0].get(operation.reference_field)) in before
                ):
                    verdict = _unreadable(_DONE_BEFORE)
                verdicts.append(verdict)
        return Judgement(
            verdicts,
            found,
            unexpected,
            all_echoed=payload.get(operation.list_field) is listed
            and len(listed) == len(orders)
            and all(verdict is SUCCEEDED for verdict in verdicts)
            and all(items[0] is item for items, item in zip(found, listed, strict=True)),
        )

    def _find_pending(self, items: "Sequence[Item]") -> "Item | None":
        """Return an item by which the gateway is not done, if there is one."""
        field, pending = self.operation.status_field, self.dialect.pending_statuses
        return next((one for one in items if message(one.get(field)) in pending), None)

    def _find_denial(self, payload: "Item") -> RejectedError | None:
        """Return the error of a reply whose overall result means that nothing was done, or None."""
        code, text = overall_of(payload)
        if code not in self.dialect.nothing_done_return_statuses:
            return None
        said = _shown_overall(payload)
        return RejectedError(f"the gateway did nothing: {said}", code=code or "", text=text or "")

    def _judge_missing(self, payload: "Item", denial: RejectedError | None) -> "Verdict":
        """Judge an order that the reply does not list."""
        if denial is not None:
            return OutcomeStatus.DECLINED, denial
        if overall_of(payload)[0] in self.dialect.done_return_statuses:
            return OutcomeStatus.UNKNOWN, ReplyUnreadableError(_NOT_LISTED)
        said = _shown_overall(payload)
        return _unreadable(
            f"{_NOT_ACCEPTED}, and does not list this order: {said}; if this code means that "
            "nothing was done, list it in Dialect.nothing_done_return_statuses"
        )

    def _judge_items(
        self, items: "tuple[Item, ...]", order: object, denial: RejectedError | None
    ) -> "Verdict":
        """Judge an order by its items; `denial` is what `_find_denial` returned."""
        first = items[0]
        if any(item != first for item in items[1:]):
            return _unreadable("the reply lists this order several times, and differently")
        contradiction = self.find_contradiction(first, order)
        if contradiction is not None:
            return _unreadable(contradiction)
        verdict = self._judge_status(first)
        if verdict is SUCCEEDED and denial is not None:
            field = self.operation.status_field
            return _unreadable(
                f"the reply contradicts itself: {field} {message(first.get(field))!r} means done, "
                f"and return_status {denial.code!r}, return_message {denial.text!r} is listed in "
                "Dialect.nothing_done_return_statuses"
            )
        return verdict

    def _judge_status(self, item: "Item") -> "Verdict":
        field = self.operation.status_field
        status = message(item.get(field))
        complaint = self._failure_message(item)
        done, declined, fields = self._meanings()
        if status in done and complaint is None:
            return SUCCEEDED
        praise = self._success_message(item)
        code, text = complaint or ("", praise)
        shown = f", code {code}: {text}" if code else f", {text!r}" if text else ""
        said = f"{field} {status!r}{shown}"
        code = code or status or ""
        if status in declined and not praise:
            error = RejectedError(f"the gateway declined: {said}", code=code, text=text)
            return OutcomeStatus.DECLINED, error
        if status in self.dialect.pending_statuses:
            pending = OutcomeUnknownError(f"the gateway is not done: {said}", code=code, text=text)
            pending.is_pending = True
            return OutcomeStatus.UNKNOWN, pending
        if status in done or status in declined:
            problem = f"{field} and text contradict each other: {said}"
        elif status is None:
            problem = f"the reply has no readable {field}{shown}; it should be one of {fields}"
        else:
            problem = (
                f"{said}: this status has no meaning in the Dialect; ask the gateway, and for "
                f"later replies list it in {fields}"
            )
        return _unreadable(problem, code=code, text=text)

    def _meanings(self) -> "tuple[Collection[str], Collection[str], str]":
        """Return the statuses of success and of refusal, and the names of their Dialect fields."""
        dialect = self.dialect
        if self.operation.is_keyed:
            done, declined = dialect.payout_done_statuses, dialect.payout_declined_statuses
            prefix = "payout_"
        else:
            done, declined, prefix = dialect.done_statuses, dialect.declined_statuses, ""
        fields = f"Dialect.{prefix}done_statuses, {prefix}declined_statuses or pending_statuses"
        return done, declined, fields

    def _failure_message(self, item: "Item") -> tuple[str, str] | None:
        """Return code and text of a message of failure; None where there is none."""
        for field in MESSAGES:
            value = item.get(field)
            if value is None or value == "":
                continue
            said = message(value) or ("" if isinstance(value, str) else "unreadable")
            if field == "refund_message" and said.startswith(self.dialect.done_message_prefixes):
                continue
            code, colon, text = said.partition(":")
            if said and field == "failure_reason":
                return message(item.get("failure_type")) or "", said
            if said:
                return (code, text.strip()) if colon and code.isalnum() else ("", said)
        return None

    def _success_message(self, item: "Item") -> str:
        """Return a message of success; empty text where there is none."""
        said = message(item.get("refund_message")) or ""
        return said if said.startswith(self.dialect.done_message_prefixes) else ""

    def find_contradiction(self, item: "Item", order: object) -> str | None:
        """Name the first field in which an item contradicts what was sent, with both values."""
        for field in self.dialect.echo_fields.get(self.operation.name, ()):
            value = item.get(field)
            if value is None or (isinstance(value, str) and not value.strip()):
                continue
            sent = getattr(order, field, None)
            if sent is None:
                continue
            if not _agree(field, sent, value):
                said = shown(value)
                return (
                    f"the reply contradicts the request: {field} was {sent}, the reply says {said}"
                )
        return None

    # The result of a single payment or payout

    def find_missing_result(self, result: "Item") -> RejectedError | ReplyUnreadableError | None:
        """Return an error for a reply without a result of the payment or payout; else None."""
        if any(result.get(name) for name in self.operation.result_fields):
            return None
        said = _shown_overall(result)
        return self._find_denial(result) or ReplyUnreadableError(
            f"the reply does not say whether it was done: {said}"
        )

    def _judge_result(self, order: object, payload: "Item") -> Judgement:
        """Judge a payout, which has a request of its own: the reply is its one item."""
        problem = self.find_missing_result(payload)
        if problem is None:
            items: tuple[Item, ...] = (payload,)
            verdict = self._judge_items(items, order, self._find_denial(payload))
        else:
            is_declined = isinstance(problem, RejectedError)
            status = OutcomeStatus.DECLINED if is_declined else OutcomeStatus.UNKNOWN
            items, verdict = (), (status, problem)
        self.explain(verdict[1], order)
        return Judgement([verdict], [items], [])

    def explain(self, error: GatewayError | None, sent: object) -> None:
        """Add to the error of a payment or payout its identity, and what to do."""
        if isinstance(error, NotSentError | OutcomeUnknownError):
            error.order_no = getattr(sent, "order_no", None)
            error.request_id = getattr(sent, "request_id", None)
        if isinstance(error, OutcomeUnknownError) and sent is not None:
            error.args = (f"{error}; {self._advice(error)}",)

    def _advice(self, error: OutcomeUnknownError) -> str:
        if not self.operation.is_keyed:
            return (
                f"the payment of order_no {error.order_no!r} may have been made: look it up with "
                f"query([OrderRef(order_no={error.order_no!r})]), and {_NEVER_BLINDLY}"
            )
        if self.dialect.payout_deduplicates:
            return (
                f"the payout {error.request_id!r} may have been made: send it again with this same "
                "request_id, on which the gateway deduplicates"
            )
        return (
            f"the payout {error.request_id!r} may have been made and cannot be looked up: ask the "
            f"gateway, and {_NEVER_BLINDLY} (unless it deduplicates on request_id: "
            "Dialect.payout_deduplicates)"
        )

    # Look-ups

    def _judge_look_up(self, refs: "Sequence[OrderRef]", payload: "Item") -> Judgement:
        listed = listed_items(self.operation, payload)
        kind = refs[0].kind
        positions = {ref.value: n for n, ref in enumerate(refs)}
        found: list[list[Item]] = [[] for _ in refs]
        unexpected: list[object] = []
        for item in listed or ():
            name = identifier(item.get(kind)) if isinstance(item, dict) else None
            position = positions.get(name or "")
            (unexpected if position is None else found[position]).append(item)
        missing = self._judge_unlisted(payload, listed=listed, strangers=bool(unexpected))
        verdicts = [self._judge_records(items) if items else missing for items in found]
        full = len(listed or ()) >= (self.operation.limit or 0)
        # A reply that lists other orders did not select: smaller chunks would bring the same.
        cut = full and not unexpected and any(len(items) != 1 for items in found)
        if full:
            verdicts = [
                verdict if len(items) == 1 or verdict[1] else _unreadable(_MAY_LACK_RECORDS)
                for verdict, items in zip(verdicts, found, strict=True)
            ]
        return Judgement(verdicts, [tuple(items) for items in found], unexpected, cut)

    def _judge_unlisted(
        self, payload: "Item", *, listed: list[Any] | None, strangers: bool
    ) -> "Verdict":
        """Judge an order that a look-up's reply does not list."""
        if overall_of(payload)[0] not in self.dialect.done_return_statuses:
            return _unreadable(f"{_NOT_ACCEPTED}: {_shown_overall(payload)}")
        if listed is None:
            return _unreadable("the reply has no list of records")
        if strangers:
            return _unreadable(f"{_NOT_LISTED}, but lists others: it did not honour the selection")
        return _ABSENT

    def _judge_records(self, items: "Sequence[Item]") -> "Verdict":
        """Judge an order by its records; a refund record has no status of its own."""
        field = self.operation.status_field
        results = {message(item.get(field)) for item in items} if field else set()
        dialect = self.dialect
        found, absent = {*dialect.found_query_results}, {*dialect.absent_query_results}
        if results <= found:
            return SUCCEEDED
        if results <= absent:
            return _ABSENT
        strange = results - found - absent
        shown = ", ".join(sorted(map(repr, strange or results)))
        if not strange:
            return _unreadable(f"its records contradict each other: {field} is {shown}")
        return _unreadable(f"{field} is {shown}, {_NO_MEANING}")


def listed_items(operation: "Operation", payload: "Item") -> list[Any] | None:
    """Return the reply's list; empty for null, None where there is none."""
    value = payload.get(operation.list_field, "missing")
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [value]
    return None if value else []


def echoed_judgement(listed: "Sequence[Item]") -> Judgement:
    """Return the judgement of a reply in which item n is about order n, and all succeeded."""
    return Judgement([SUCCEEDED] * len(listed), list(zip(listed)), [], all_echoed=True)


def _shows_another(marker: str, item: "Item") -> bool:
    """Return whether an item shows another marker than the one its order was sent with."""
    reason = str(item.get("refund_reason"))
    return marker not in reason and ANY_MARKER.search(reason) is not None


def overall_of(payload: "Item") -> "Overall":
    """Return `return_status` and `return_message` of a decoded reply."""
    code, text = message(payload.get("return_status")), message(payload.get("return_message"))
    return code, "OK" if text == "OK" else text  # one text for all of a kept result


def _shown_overall(payload: "Item") -> str:
    code, text = overall_of(payload)
    return f"return_status {code or ''!r}, return_message {text or ''!r}"


def _match_by_identity(
    orders: "Sequence[Any]", listed: list[Any]
) -> "tuple[list[tuple[Item, ...]], set[int], list[object]]":
    """Return each order's items, positions that one item names together, and items of no order."""
    by_transaction = {order.transaction_id: n for n, order in enumerate(orders)}
    numbers = Counter(order.order_no for order in orders)
    by_order_no = {o.order_no: n for n, o in enumerate(orders) if numbers[o.order_no] == 1}
    found: list[list[Item]] = [[] for _ in orders]
    conflicts: set[int] = set()
    unexpected: list[object] = []
    for item in listed:
        if not isinstance(item, dict):
            unexpected.append(item)
            continue
        transaction_id = identifier(item.get("transaction_id"))
        if transaction_id is None and not isinstance(item.get("transaction_id"), str | None):
            unexpected.append(item)  # it names a transaction, and no text or integer says which
            continue
        named = by_order_no.get(identifier(item.get("order_no")) or "")
        position = named if transaction_id is None else by_transaction.get(transaction_id)
        if position is None:
            unexpected.append(item)
            continue
        found[position].append(item)
        if named is not None and named != position:
            conflicts |= {position, named}
    return [tuple(items) for items in found], conflicts, unexpected


def _agree(field: str, sent: Decimal | str, value: object) -> bool:
    if isinstance(sent, Decimal):
        try:
            return to_number(str(value).strip()) == sent
        except WrongValueError:  # no text of a number
            return False
    if value == sent:
        return True
    text = identifier(value) or ""
    return text.casefold() == sent.casefold() if field in _CASELESS else text == sent


def _unreadable(problem: str, *, code: str = "", text: str = "") -> "Verdict":
    return OutcomeStatus.UNKNOWN, ReplyUnreadableError(problem, code=code, text=text)
