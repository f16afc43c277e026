"""What the interface leaves open, one documented field a choice.

The interface marks many facts "not shown". Each such fact is a field here, with a default that
guesses as little as possible. This module knows no model, no reply and no network.
"""

# ruff: noqa: RUF009  # the calls declare fields; attrs makes no default of them

import re
from collections.abc import Mapping, Sequence, Set as AbstractSet  # cattrs resolves types
from enum import StrEnum
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import ConfigurationError
from gateway_async.operations import ADDED_FIELDS, OPERATIONS, BodyFormat
from gateway_async.settings import (
    check,
    is_count,
    is_flag,
    is_list,
    is_text,
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


FORM_NESTINGS = ("json", "brackets")
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


def _check_operations(
    _: object, attribute: "attrs.Attribute[Mapping[str, object]]", value: "Mapping[str, object]"
) -> None:
    for name in value:
        if name not in OPERATIONS:
            raise ConfigurationError(
                f"Dialect.{attribute.name}: {name!r} is no operation; "
                f"the operations are {', '.join(OPERATIONS)}"
            )


def _are_texts(value: object) -> bool:
    return isinstance(value, frozenset | tuple) and all(isinstance(one, str) for one in value)


def _are_statuses(value: object) -> bool:
    return isinstance(value, frozenset) and all(map(is_count, value)) and 200 not in value  # noqa: PLR2004  # HTTP OK


def _is_offset(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= 24  # type: ignore[arg-type]  # noqa: PLR2004  # hours a day


def _is_media_type(value: object) -> bool:
    return isinstance(value, str) and _MEDIA_TYPE.fullmatch(value) is not None


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) and key for key in value)


def _are_echoes(value: "Mapping[str, Any]") -> bool:
    return all(
        _are_texts(fields) and set(fields) <= set(_ECHO_FIELDS.get(name, ()))
        for name, fields in value.items()
    )


def _are_places(value: "Mapping[str, object]") -> bool:
    return set(value) == set(_NOTIFICATION_FIELDS) and all(map(_are_texts, value.values()))


def _are_names(value: "Mapping[str, str]") -> bool:
    names = list(value.values())
    return len(set(names)) == len(names) and not ADDED_FIELDS & {*names, *value}


# What cannot be converted is passed on as it is: the validators say what is wrong with it.


def _text_tuple(value: "Iterable[str]") -> "tuple[str, ...] | Iterable[str]":
    return tuple(value) if is_list(value) else value


def _member_of(kind: type[StrEnum]) -> "Callable[[Any], Any]":
    """Return what makes a member of a text that names one."""
    return lambda value: next((member for member in kind if member == value), value)


def _mapping(
    *validators: "Callable[[object, attrs.Attribute[Any], Any], None]",
    read: "Callable[[Any], Any]" = to_plain,
    key: "Callable[[str], str]" = to_plain,
    defaults: "Mapping[str, Any] | None" = None,
) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a mapping.

    Args:
        validators: What checks it.
        read: What converts a value.
        key: What converts a key.
        defaults: What stands in it unless another value is given for the key.
    """

    def convert(value: Any) -> Any:  # noqa: ANN401  # likewise
        if not _is_table(value):
            return value
        return {**(defaults or {}), **{key(name): read(one) for name, one in value.items()}}

    validator = [check(_is_table, "a mapping from texts"), *validators]
    return attrs.field(factory=dict, converter=convert, validator=validator)


def _only(kind: type[StrEnum]) -> "Callable[[object, attrs.Attribute[Any], Any], None]":
    return check(
        lambda value: all(isinstance(one, kind) for one in value.values()),
        f"values out of {', '.join(repr(str(member)) for member in kind)}",
    )


_text_values = check(
    lambda value: all(isinstance(one, str) and one for one in value.values()),
    "a mapping from texts to non-empty texts",
)


def _codes(*default: str) -> AbstractSet[str]:
    result: AbstractSet[str] = attrs.field(
        default=frozenset(default),
        converter=to_set,
        validator=check(_are_texts, "a set of texts such as {'1'}"),
    )
    return result


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
            `refund_status` that say "done".
        declined_statuses: Values of the same fields that say "not done, and never will be"; none
            is shown, so none is set. A status that stands in none of the three leaves its order
            `unknown`.
        pending_statuses: Values of the same fields, and of a payout's `status`, that say neither
            "done" nor "not done".
        payout_done_statuses: Values of a payout's `status` that say "done". One with a
            `failure_reason` beside it says nothing.
        payout_declined_statuses: Values of a payout's `status` that say "not done, and never will
            be"; none is shown, so none is set.
        done_message_prefixes: How the code of a `refund_message` begins when the text beside it
            is one of success (section 7). The `result_info` of a payment is not judged: the result
            is returned whatever it says.
        done_return_statuses: Values of `return_status` that say that the request was accepted.
        nothing_done_return_statuses: Values of `return_status` by which the gateway vouches that
            nothing was done for any order that the reply does not list. An order that such a reply
            lists as done is `unknown`.
        nothing_done_http_statuses: HTTP statuses by which the gateway vouches for the same.
        found_query_results: Values of `query_result` that say "here is the record".
        absent_query_results: Values of `query_result` that say "no such order".
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

    body_formats: "Mapping[str, BodyFormat]" = _mapping(
        _check_operations, _only(BodyFormat), read=_member_of(BodyFormat)
    )
    json_content_type: str = attrs.field(
        default=BodyFormat.JSON.value,
        validator=check(_is_media_type, "a media type such as 'application/json'"),
    )
    form_nesting: str = attrs.field(default=FORM_NESTINGS[0], validator=one_of(*FORM_NESTINGS))
    wire_names: "Mapping[str, str]" = _mapping(
        _text_values, check(_are_names, "distinct names, none of them of identity or signature")
    )
    amount_places: int = attrs.field(default=2, validator=check(is_count, "an int of 0 or more"))
    currency_places: "Mapping[str, int]" = _mapping(
        check(lambda value: all(map(is_count, value.values())), "ints of 0 or more"), key=str.upper
    )
    selection_fields: "Mapping[str, str]" = _mapping(
        _text_values,
        check(
            lambda value: set(value) == set(_SELECTION_FIELDS),
            f"fields out of {', '.join(_SELECTION_FIELDS)}",
        ),
        check(
            lambda value: not ADDED_FIELDS & set(value.values()),
            "names that are none of identity or signature",
        ),
        defaults=_SELECTION_FIELDS,
    )
    selection_separator: str = attrs.field(
        default=",",
        validator=check(lambda value: isinstance(value, str) and value != "", "a non-empty str"),
    )
    echo_fields: "Mapping[str, Sequence[str]]" = _mapping(
        _check_operations,
        check(_are_echoes, "tuples of fields out of those that each operation repeats"),
        read=_text_tuple,
        defaults=_ECHO_FIELDS,
    )
    done_statuses: AbstractSet[str] = _codes("1")
    declined_statuses: AbstractSet[str] = _codes()
    pending_statuses: AbstractSet[str] = _codes()
    payout_done_statuses: AbstractSet[str] = _codes("COMPLETED")
    payout_declined_statuses: AbstractSet[str] = _codes()
    done_message_prefixes: tuple[str, ...] = attrs.field(
        default=("V0000", "0000"),
        converter=_text_tuple,
        validator=check(lambda value: _are_texts(value) and all(value), "texts such as ('V0000',)"),
    )
    done_return_statuses: AbstractSet[str] = _codes("1")
    nothing_done_return_statuses: AbstractSet[str] = _codes()
    nothing_done_http_statuses: AbstractSet[int] = attrs.field(
        default=frozenset(),
        converter=to_set,
        validator=check(_are_statuses, "a set of HTTP statuses such as {429}, and not 200"),
    )
    found_query_results: AbstractSet[str] = _codes("1")
    absent_query_results: AbstractSet[str] = _codes()
    utc_offset_hours: float = attrs.field(
        default=0.0, validator=check(_is_offset, "a number of hours from -24 to 24")
    )
    payment_states: "Mapping[str, PaymentState]" = _mapping(
        _only(PaymentState), read=_member_of(PaymentState)
    )
    payout_deduplicates: bool = attrs.field(default=False, validator=is_flag)
    notification_fields: "Mapping[str, Sequence[str]]" = _mapping(
        check(_are_places, f"tuples of names by {', '.join(_NOTIFICATION_FIELDS)}"),
        read=_text_tuple,
        defaults=_NOTIFICATION_FIELDS,
    )
    notification_answer: str = attrs.field(default="OK", validator=is_text)

    def __attrs_post_init__(self) -> None:
        for one, other in chain(*[combinations(names, 2) for names in _OPPOSITES]):
            for value in sorted(getattr(self, one) & getattr(self, other)):
                raise ConfigurationError(
                    f"Dialect.{one}: {value!r} also stands in {other}; it can have one meaning only"
                )

    def places(self, currency: str) -> int:
        """Return the decimal places of an amount in this currency."""
        return self.currency_places.get(currency.upper(), self.amount_places)
