"""The status of an outcome, and how the statuses of many orders are kept. Pure."""

from collections.abc import Iterable
from enum import StrEnum


class OutcomeStatus(StrEnum):
    """Whether one order was done, and with it what to do next."""

    SUCCEEDED = "succeeded"
    """The gateway says it did it; for a look-up: here is the record. Do nothing."""

    DECLINED = "declined"
    """The gateway says it did not, and why. Show the reason."""

    ABSENT = "absent"
    """Look-ups only: the gateway answered without this order. It describes; it proves nothing."""

    UNKNOWN = "unknown"
    """It may have happened. Recover, never resend."""

    NOT_SENT = "not_sent"
    """Nothing was sent, or recovery proved that it was not done. Resend freely."""


_STATUSES = tuple(OutcomeStatus)
_CODES = {status: code for code, status in enumerate(_STATUSES)}


def status_codes(statuses: Iterable[OutcomeStatus]) -> bytes:
    """Write statuses as one byte each."""
    return bytes([_CODES[status] for status in statuses])


def statuses_of(codes: bytes) -> list[OutcomeStatus]:
    """Read such bytes."""
    return [_STATUSES[code] for code in codes]


def count_status(codes: bytes, status: OutcomeStatus) -> int:
    """Count one status in such bytes."""
    return codes.count(_CODES[status])


def count_statuses(codes: bytes) -> dict[OutcomeStatus, int]:
    """Count each status in such bytes."""
    return {status: codes.count(code) for status, code in _CODES.items()}


def present_statuses(codes: bytes) -> dict[OutcomeStatus, int]:
    """Count each status that is in such bytes."""
    return {_STATUSES[code]: codes.count(code) for code in set(codes)}
