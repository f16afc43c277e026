"""What can become of an order. Pure."""

from enum import StrEnum


class OutcomeStatus(StrEnum):
    """What became of one order, and with it what to do next."""

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
