"""What may be in a cell, whatever format the file has. Pure."""

import re
from decimal import Decimal

_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?")
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
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return None
    return "expected a text; put it in quotation marks"


def identifier_problem(value: object) -> str | None:
    """Say why a value is no identifier."""
    if problem := text_problem(value):
        return problem
    text = to_text(value)
    if not text.strip():
        return "empty"
    return None if text == text.strip() else f"{text[:_SHOWN]!r} has white space around it"


def amount_problem(value: object, places: int) -> str | None:
    """Say why a value is no amount of so many decimal places."""
    if isinstance(value, float):
        return f"{value!r} is a binary number, which cannot hold cents; use a decimal or text"
    text = "" if isinstance(value, bool) else to_text(value)
    if not _AMOUNT.fullmatch(text):
        return f"{text[:_SHOWN]!r} is not an amount; write it like 12.50"
    if len(text.partition(".")[2].rstrip("0")) > places:
        return f"{text[:_SHOWN]!r} has more than {places} decimal places"
    return None
