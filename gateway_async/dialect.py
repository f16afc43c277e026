"""What the interface leaves open, one documented field a choice.

The interface marks many facts "not shown". Each such fact is a field here, with a default that
guesses as little as possible. This module knows no model, no reply and no network.
"""

# ruff: noqa: RUF009  # the calls declare fields; attrs makes no default of them

import re
from collections.abc import Mapping, Sequence, Set as AbstractSet  # cattrs resolves types
from enum import StrEnum
from itertools import chain, combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import ConfigurationError
from gateway_async.operations import ADDED_FIELDS, OPERATIONS, BodyFormat, Operation, OperationClass
from gateway_async.settings import (
    FLAG,
    TEXT,
    are_texts,
    check,
    is_count,
    is_list,
    one_of,
    to_plain,
    to_set,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class PaymentState(StrEnum):
    """What a `payment_status` value may be declared to mean."""

    AUTHORISED = "authorised"
    """Reserved; neither captured nor cancelled."""

    CAPTURED = "captured"
    """Captured, whether or not refunded since."""

    CANCELLED = "cancelled"
    """Cancelled before capture."""


_MEDIA_TYPE = re.compile(r"[!-~]+/[!-:<-~]+(?: *; *[!-~]+)*")
_SELECTION_FIELDS = {"order_no": "order_no", "transaction_id": "transaction_id"}
_NOTIFICATION_FIELDS = {
    "order_no": ("order_no", "orderNo"),
    "transaction_id": ("transaction_id",),
    "request_id": ("request_id",),
}
_OPPOSITES = (
    ("done_statuses", "declined_statuses", "pending_statuses"),
    ("payout_done_statuses", "payout_declined_statuses", "pending_statuses"),
    ("done_return_statuses", "nothing_done_return_statuses"),
)
"""Fields of which no two in a row may hold the same value."""

_ECHO_FIELDS = {name: row.echo_fields for name, row in OPERATIONS.items() if row.echo_fields}


def _are_statuses(value: object) -> bool:
    return isinstance(value, frozenset) and all(map(is_count, value)) and 200 not in value  # noqa: PLR2004  # HTTP OK


def _are_full_texts(values: "Iterable[object]") -> bool:
    return all(isinstance(one, str) and one for one in values)


def _are_names(value: "Mapping[str, str]") -> bool:
    names = list(value.values())
    is_free = _are_full_texts(names) and not ADDED_FIELDS & {*names, *value}
    return is_free and len({*names}) == len(names)


# What cannot be converted is passed on as it is: the validators refuse it and explain why.


def _text_tuple(value: "Iterable[str]") -> "tuple[str, ...] | Iterable[str]":
    return tuple(value) if is_list(value) else value


def _field(
    default: Any,  # noqa: ANN401  # of the field
    accepts: "Callable[[Any], bool]",
    expected: str,
    convert: "Callable[[Any], Any] | None" = None,
) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a field."""
    return attrs.field(default=default, converter=convert, validator=check(accepts, expected))


def _codes(*default: str) -> Any:  # noqa: ANN401  # likewise
    return _field(frozenset(default), are_texts, "texts such as ['1']", to_set)


def _table(
    accepts: "Callable[[Any], bool]",
    expected: str,
    *,
    read: "Callable[[Any], Any]" = to_plain,
    key: "Callable[[str], str]" = to_plain,
    defaults: "Mapping[str, Any]" = MappingProxyType({}),
) -> Any:  # noqa: ANN401  # likewise
    """Declare a mapping.

    Args:
        accepts: Returns True for a valid mapping from texts.
        expected: To what it is a mapping, for the error.
        read: What converts a value.
        key: What converts a key.
        defaults: What stands in it unless another value is given for the key; it has no other keys.
    """
    if defaults:
        expected = f"{expected}, by names out of {', '.join(defaults)}"

    def is_table(value: object) -> bool:
        return isinstance(value, Mapping) and _are_full_texts(value)

    def convert(value: Any) -> Any:  # noqa: ANN401  # anything may be given
        if not is_table(value):
            return value
        return {**defaults, **{key(name): read(one) for name, one in value.items()}}

    def is_right(value: Any) -> bool:  # noqa: ANN401  # likewise
        has_its_keys = is_table(value) and (not defaults or value.keys() == defaults.keys())
        return has_its_keys and accepts(value)

    return _field({}, is_right, f"a mapping from texts to {expected}", convert)


def _members(kind: type[StrEnum], names: "Iterable[str] | None" = None) -> Any:  # noqa: ANN401  # likewise
    """Declare a mapping to members of a kind, from names out of some, or from any."""
    expected = " or ".join(repr(str(member)) for member in kind)
    return _table(
        lambda value: (
            all(isinstance(one, kind) for one in value.values())
            and (names is None or {*names} >= value.keys())
        ),
        expected if names is None else f"{expected}, by {', '.join(names)}",
        read=lambda value: next((member for member in kind if member == value), value),
    )


@attrs.frozen(kw_only=True)
class Dialect:
    """The answers to what the interface does not show. Every field has a default.

    Attributes:
        body_formats: By operation name, a `BodyFormat` other than the one section 4 declares.
        json_content_type: The content type under which JSON bodies go out. The sample calls of
            section 4 carry `application/x-www-form-urlencoded` for all operations.
        form_nesting: How nested parts of a form go out. `"json"`: each structure or list is one
            field, with its JSON text. `"brackets"`: each value in it is a field of its own, named
            as PHP names it: `cart_items[0][basic_item_data][name]`. Lists count from 0; numbers,
            `true` and `false` are written as in JSON; null, and a list or structure without any
            value, is left out.
        wire_names: By field name of a request, the name on the wire where it differs. The
            interface's `antifraud_token_cookie` is a stand-in (section 2.2).
        amount_places: Decimal places of an amount on the wire.
        currency_places: The same for single currencies, by upper-case code.
        selection_fields: Which form field asks a look-up for orders, by the field of `OrderRef`.
        selection_separator: What stands between two references in such a form field.
        echo_fields: By operation name, the fields of an item or result that must agree with the
            request where the gateway repeats them; what is not named keeps its default. Amounts
            compare as numbers, currencies without case.
        done_statuses: Values of `capture_status`, `cancel_status`, `review_status` and
            `refund_status` that mean "done".
        declined_statuses: Values of the same fields that mean "not done, and never will be"; none
            is shown, so none is set. A status that stands in none of the three leaves its order
            `unknown`.
        pending_statuses: Values of the same fields, and of a payout's `status`, that mean neither
            "done" nor "not done".
        payout_done_statuses: Values of a payout's `status` that mean "done". One with a
            `failure_reason` beside it proves nothing.
        payout_declined_statuses: Values of a payout's `status` that mean "not done, and never
            will be"; none is shown, so none is set.
        done_message_prefixes: How the code of a `refund_message` begins when the text beside it
            is one of success (section 7). The `result_info` of a payment is not judged: every
            readable result is returned.
        done_return_statuses: Values of `return_status` by which the gateway accepts the request.
        nothing_done_return_statuses: Values of `return_status` by which the gateway vouches that
            nothing was done for any order that the reply does not list. An order that such a reply
            lists as done is `unknown`.
        nothing_done_http_statuses: HTTP statuses by which the gateway vouches for the same.
        found_query_results: Values of `query_result` that mean "here is the record".
        absent_query_results: Values of `query_result` that mean "no such order".
        utc_offset_hours: How far the gateway's clock is ahead of UTC, where its dates have no zone,
            in hours; `RecoveryPolicy.hold_alike_hours` counts by it.
        payment_states: What values of `payment_status` mean; none is shown, so none is set.
            Recovery settles captures and cancels by it.
        payout_deduplicates: Whether the gateway executes a payout once for one `request_id`.
            Only then is a payout whose reply was lost sent again, with the same `request_id`.
        notification_fields: Under which fields of a notification its `order_no`, `transaction_id`
            and `request_id` stand; the payload is not shown (section 6).
        notification_answer: The body of the reply that takes a notification.
    """

    body_formats: "Mapping[str, BodyFormat]" = _members(BodyFormat, OPERATIONS)
    json_content_type: str = _field(
        BodyFormat.JSON.value,
        lambda value: isinstance(value, str) and _MEDIA_TYPE.fullmatch(value) is not None,
        "a media type such as 'application/json'",
    )
    form_nesting: str = attrs.field(default="json", validator=one_of("json", "brackets"))
    wire_names: "Mapping[str, str]" = _table(
        _are_names, "non-empty texts: distinct names, none of them of identity or signature"
    )
    amount_places: int = _field(2, is_count, "an int of 0 or more")
    currency_places: "Mapping[str, int]" = _table(
        lambda value: all(map(is_count, value.values())), "ints of 0 or more", key=str.upper
    )
    selection_fields: "Mapping[str, str]" = _table(
        lambda value: _are_full_texts(value.values()) and not ADDED_FIELDS & {*value.values()},
        "names that are none of identity or signature",
        defaults=_SELECTION_FIELDS,
    )
    selection_separator: str = _field(
        ",", lambda value: isinstance(value, str) and value != "", "a non-empty str"
    )
    echo_fields: "Mapping[str, Sequence[str]]" = _table(
        lambda value: all(
            are_texts(fields) and {*fields} <= {*_ECHO_FIELDS[name]}
            for name, fields in value.items()
        ),
        "tuples of fields out of those that each operation repeats",
        read=_text_tuple,
        defaults=_ECHO_FIELDS,
    )
    done_statuses: AbstractSet[str] = _codes("1")
    declined_statuses: AbstractSet[str] = _codes()
    pending_statuses: AbstractSet[str] = _codes()
    payout_done_statuses: AbstractSet[str] = _codes("COMPLETED")
    payout_declined_statuses: AbstractSet[str] = _codes()
    done_message_prefixes: tuple[str, ...] = _field(
        ("V0000", "0000"),
        lambda value: are_texts(value) and all(value),
        "texts such as ('V0000',)",
        _text_tuple,
    )
    done_return_statuses: AbstractSet[str] = _codes("1")
    nothing_done_return_statuses: AbstractSet[str] = _codes()
    nothing_done_http_statuses: AbstractSet[int] = _field(
        frozenset(), _are_statuses, "HTTP statuses such as [429], and not 200", to_set
    )
    found_query_results: AbstractSet[str] = _codes("1")
    absent_query_results: AbstractSet[str] = _codes()
    utc_offset_hours: float = _field(
        0.0,
        lambda value: type(value) in (int, float) and abs(value) <= 24,  # noqa: PLR2004  # hours a day
        "a number of hours from -24 to 24",
    )
    payment_states: "Mapping[str, PaymentState]" = _members(PaymentState)
    payout_deduplicates: bool = attrs.field(default=False, validator=check(*FLAG))
    notification_fields: "Mapping[str, Sequence[str]]" = _table(
        lambda value: all(map(are_texts, value.values())),
        "tuples of names",
        read=_text_tuple,
        defaults=_NOTIFICATION_FIELDS,
    )
    notification_answer: str = attrs.field(default="OK", validator=check(*TEXT))

    def __attrs_post_init__(self) -> None:
        for one, other in chain(*[combinations(names, 2) for names in _OPPOSITES]):
            for value in sorted(getattr(self, one) & getattr(self, other)):
                raise ConfigurationError(
                    f"Dialect.{one}: {value!r} also stands in {other}; it can have one meaning only"
                )

    def must_send_once(self, operation: Operation) -> bool:
        """Say whether a payout may never be sent twice: the gateway would pay it twice."""
        return operation.kind is OperationClass.KEYED and not self.payout_deduplicates

    def places(self, currency: str) -> int:
        """Return the decimal places of an amount in this currency."""
        return self.currency_places.get(currency.upper(), self.amount_places)
