"""What may be in a cell, whatever format the file has. Pure."""

import re
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?")
_CURRENCY = re.compile(r"[A-Za-z]{3}")
_CUT_OFF = re.compile(r"[0-9]([.,][0-9]+)?[Ee]\+[0-9]{2,}")
_SHOWN = 40


def to_text(value: object) -> str:
    """Write the value of a cell as text; an empty one is none."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def text_problem(value: object) -> str | None:
    """Say why a value is no text; whole numbers are taken as they are written."""
    if value is None or isinstance(value, str):
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return None
    if isinstance(value, Decimal) and value == value.to_integral_value() and _is_whole(value):
        return None
    return "expected a text; put it in quotation marks"


def _is_whole(value: Decimal) -> bool:
    """Say whether a number has all of its digits, and no exponent in their place."""
    return value.adjusted() < len(value.as_tuple().digits)


def damage_problem(value: object) -> str | None:
    """Say why a text lacks digits; it is not shown, since it may be somebody's account."""
    if not _CUT_OFF.fullmatch(to_text(value)):
        return None
    return (
        "a number such as 2.02611E+21, whose last digits a spreadsheet cut off; write the file "
        "again with this column as text"
    )


def identifier_problem(value: object) -> str | None:
    """Say why a value is no identifier."""
    if problem := text_problem(value):
        return problem
    text = to_text(value)
    if not text.strip():
        return "empty"
    if text != text.strip():
        return f"{text[:_SHOWN]!r} has white space around it"
    return damage_problem(text)


def currency_problem(value: object, known: "Collection[str]") -> str | None:
    """Say why a value is no code of a currency.

    Args:
        value: The value.
        known: Codes that are taken as they are, in upper case.
    """
    if problem := identifier_problem(value):
        return problem
    text = to_text(value)
    if _CURRENCY.fullmatch(text) or text.upper() in known:
        return None
    return (
        f"{text[:_SHOWN]!r} is not a code of three letters such as EUR; if your gateway has it, "
        "name it in [dialect] currency_places"
    )


def amount_problem(value: object, places: int) -> str | None:
    """Say why a value is no amount of so many decimal places."""
    if isinstance(value, float):
        return f"{value!r} is a binary number, which cannot hold cents; use a decimal or text"
    text = to_text(value)
    if not _AMOUNT.fullmatch(text):
        return f"{text[:_SHOWN]!r} is not an amount; write it like 12.50"
    if len(text.partition(".")[2].rstrip("0")) > places:
        return f"{text[:_SHOWN]!r} has more than {places} decimal places"
    return None
