"""The test cards: which card number leads to which result. Any other number is authorised."""

from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHORTEST, _LONGEST = 12, 19
_SHOWN_HEAD, _SHOWN_TAIL = 6, 4


@attrs.frozen(kw_only=True)
class CardResult:
    """What becomes of a card payment.

    Attributes:
        order_status: 1 where it was authorised, 0 where it was declined.
        result_info: Code, colon, text.
        risk_action: What the fraud check says.
        risk_score: Its score, 0 to 100.
    """

    order_status: str = "0"
    result_info: str
    risk_action: str = "ACCEPT"
    risk_score: str = "5"

    @property
    def authorised(self) -> bool:
        """Whether the amount was reserved."""
        return self.order_status == "1"


AUTHORISED = CardResult(order_status="1", result_info="0000:success")
DECLINED = CardResult(result_info="2001:declined")
NOT_A_CARD = CardResult(result_info="2000:not a card number")
UNKNOWN_TOKEN = CardResult(result_info="2016:unknown token")

TEST_CARDS: "Mapping[str, CardResult]" = MappingProxyType(
    {
        "4000000000000002": DECLINED,
        "4000000000009995": CardResult(result_info="2011:insufficient funds"),
        "4000000000000069": CardResult(result_info="2012:expired card"),
        "4000000000000127": CardResult(result_info="2013:wrong security code"),
        "4000000000000119": CardResult(result_info="2014:issuer not available"),
        "4100000000000019": CardResult(
            result_info="2015:blocked by the fraud check", risk_action="REJECT", risk_score="95"
        ),
    }
)
"""The numbers with a result of their own."""


def card_result(number: str) -> CardResult:
    """Say what becomes of a payment with this card."""
    digits = number.replace(" ", "")
    if not (digits.isascii() and digits.isdigit() and _SHORTEST <= len(digits) <= _LONGEST):
        return NOT_A_CARD
    return TEST_CARDS.get(digits, AUTHORISED)


def masked(number: str) -> str:
    """Return the first six and last four digits, and nothing of what is no card number."""
    digits = number.replace(" ", "")
    if card_result(digits) is NOT_A_CARD:
        return "***"
    return digits[:_SHOWN_HEAD] + "*" * (len(digits) - 10) + digits[-_SHOWN_TAIL:]
