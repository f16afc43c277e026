"""What the interface leaves open, one documented field a choice.

The interface marks many facts "not shown". Each such fact is a field here, with a default that
guesses as little as possible. This module knows no model, no reply and no network.
"""

# ruff: noqa: RUF009  # the calls declare fields; attrs makes no default of them

import re
from collections.abc import Collection, Mapping, Sequence  # cattrs resolves types
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from itertools import chain, combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import ConfigurationError, hide_arguments
from gateway_async.models.values import to_integer, to_objects, to_text, to_texts
from gateway_async.operations import ADDED_FIELDS, OPERATIONS, BodyFormat
from gateway_async.settings import (
    FLAG,
    NAME,
    TEXT,
    check,
    converted_field,
    is_count,
    one_of,
    only,
    to_set,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class PaymentState(StrEnum):
    """What a `payment_status` value may be declared to mean."""

    AUTHORISED = "authorised"
    """Reserved; neither captured nor cancelled."""

    CAPTURED = "captured"
    """Captured, whether or not refunded since."""

    CANCELLED = "cancelled"
    """Cancelled before capture."""


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
    ("found_query_results", "absent_query_results"),
)
"""Fields of which no two in a row may hold the same value."""

_ECHO_FIELDS = {name: row.echo_fields for name, row in OPERATIONS.items() if row.echo_fields}

_PLACES: "tuple[Callable[[Any], bool], str]" = (
    lambda value: is_count(value) and value <= 100,  # noqa: PLR2004  # more than any currency has
    "an int from 0 to 100",
)
_to_name = only(to_text, bool)
_to_own_name = only(_to_name, lambda name: name not in ADDED_FIELDS)
_to_places = only(to_integer, _PLACES[0])
_to_names = only(to_texts, all)
_to_statuses = only(
    lambda value: frozenset(map(to_integer, to_objects(int, value))),
    lambda statuses: HTTPStatus.OK not in statuses and all(map(is_count, statuses)),
)


def _codes(*default: str) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a set of codes."""
    return converted_field(to_set, "texts such as ['1']", default=default)


def _table(
    to_value: "Callable[[Any], Any]",
    expected: str,
    *,
    to_key: "Callable[[Any], str]" = _to_name,
    defaults: "Mapping[str, Any]" = MappingProxyType({}),
    accepts: "Callable[[Mapping[str, Any]], bool]" = lambda _: True,
) -> Any:  # noqa: ANN401  # likewise
    """Declare a mapping from texts.

    Args:
        to_value: What converts a value.
        expected: To what it is a mapping, for the error.
        to_key: What converts a key.
        defaults: What stands in it unless another value is given for the key; it has no other keys.
        accepts: Returns True for a valid mapping of such values.
    """

    def convert(value: Any) -> "Mapping[str, Any]":  # noqa: ANN401  # anything may be given
        if not isinstance(value, Mapping):
            raise ValueError  # noqa: TRY004  # as every converter
        given = {to_key(name): to_value(one) for name, one in value.items()}
        if (defaults and not given.keys() <= defaults.keys()) or not accepts(given):
            raise ValueError
        return {**defaults, **given}

    by = f", by names out of {', '.join(defaults)}" if defaults else ""
    return converted_field(convert, f"a mapping from texts to {expected}{by}", default={})


def _choices(kind: type[StrEnum]) -> str:
    return " or ".join(repr(str(member)) for member in kind)


@hide_arguments
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
            "done" nor "not done". No look-up proves that such an order was not done.
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
        nothing_done_http_statuses: HTTP statuses by which the gateway vouches for the same; what
            else such a reply holds is not read.
        found_query_results: Values of `query_result` that mean "here is the record".
        absent_query_results: Values of `query_result` that mean "no such order".
        utc_offset_hours: How far the gateway's clock is ahead of UTC, where its dates have no zone,
            in hours; `RecoveryPolicy.hold_alike_hours` and recovery count by it.
        payment_states: What values of `payment_status` mean; none is shown, so none is set.
            Recovery settles captures and cancels by it.
        payout_deduplicates: Whether the gateway executes a payout once for one `request_id`.
            Only then is a payout whose reply was lost sent again, with the same `request_id`.
        notification_fields: Under which fields of a notification its `order_no`, `transaction_id`
            and `request_id` stand; the payload is not shown (section 6).
        notification_answer: The body of the reply that takes a notification.
    """

    body_formats: "Mapping[str, BodyFormat]" = _table(
        BodyFormat,
        f"{_choices(BodyFormat)}, by names out of {', '.join(OPERATIONS)}",
        to_key=only(_to_name, OPERATIONS.__contains__),
    )
    json_content_type: str = attrs.field(
        default=BodyFormat.JSON.value,
        validator=check(
            lambda value: bool(isinstance(value, str) and re.fullmatch("[ -~]+/[ -~]+", value)),
            "a media type such as 'application/json'",
        ),
    )
    form_nesting: str = attrs.field(default="json", validator=one_of("json", "brackets"))
    wire_names: "Mapping[str, str]" = _table(
        _to_own_name,
        "non-empty texts: distinct names, none of them of identity or signature",
        to_key=_to_own_name,
        accepts=lambda names: len({*names.values()}) == len(names),
    )
    amount_places: int = attrs.field(default=2, validator=check(*_PLACES))
    currency_places: "Mapping[str, int]" = _table(
        _to_places, "ints from 0 to 100", to_key=lambda code: _to_name(code).upper()
    )
    selection_fields: "Mapping[str, str]" = _table(
        _to_own_name, "names other than those of identity and signature", defaults=_SELECTION_FIELDS
    )
    selection_separator: str = attrs.field(default=",", validator=check(*NAME))
    echo_fields: "Mapping[str, Sequence[str]]" = _table(
        to_texts,
        "tuples of fields out of those that each operation repeats",
        defaults=_ECHO_FIELDS,
        accepts=lambda echoes: all({*echoes[name]} <= {*_ECHO_FIELDS[name]} for name in echoes),
    )
    done_statuses: Collection[str] = _codes("1")
    declined_statuses: Collection[str] = _codes()
    pending_statuses: Collection[str] = _codes()
    payout_done_statuses: Collection[str] = _codes("COMPLETED")
    payout_declined_statuses: Collection[str] = _codes()
    done_message_prefixes: tuple[str, ...] = converted_field(
        _to_names, "texts such as ('V0000',)", default=("V0000", "0000")
    )
    done_return_statuses: Collection[str] = _codes("1")
    nothing_done_return_statuses: Collection[str] = _codes()
    nothing_done_http_statuses: Collection[int] = converted_field(
        _to_statuses, "HTTP statuses such as [429], and not 200", default=()
    )
    found_query_results: Collection[str] = _codes("1")
    absent_query_results: Collection[str] = _codes()
    utc_offset_hours: float = attrs.field(
        default=0.0,
        validator=check(
            lambda value: type(value) in (int, float) and abs(value) <= 24,  # noqa: PLR2004  # hours a day
            "a number of hours from -24 to 24",
        ),
    )
    payment_states: "Mapping[str, str]" = _table(PaymentState, _choices(PaymentState))
    payout_deduplicates: bool = attrs.field(default=False, validator=check(*FLAG))
    notification_fields: "Mapping[str, Sequence[str]]" = _table(
        to_texts, "tuples of names", defaults=_NOTIFICATION_FIELDS
    )
    notification_answer: str = attrs.field(default="OK", validator=check(*TEXT))

    def __attrs_post_init__(self) -> None:
        for one, other in chain(*[combinations(names, 2) for names in _OPPOSITES]):
            for value in sorted(getattr(self, one) & getattr(self, other)):
                raise ConfigurationError(
                    f"Dialect.{one}: {value!r} also stands in {other}; it can have one meaning only"
                )

    def places(self, currency: str) -> int:
        """Return the decimal places of an amount in this currency."""
        return self.currency_places.get(currency.upper(), self.amount_places)

    def seconds_of(self, date: datetime) -> float:
        """Return a date of the gateway in seconds since the epoch."""
        if date.tzinfo is not None:
            return date.timestamp()
        ahead = self.utc_offset_hours * 3600
        return date.replace(tzinfo=UTC).timestamp() - ahead
