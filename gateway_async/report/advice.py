"""What to do next, as tables."""

from typing import TYPE_CHECKING

import attrs

from gateway_async.errors import InvalidOrderError, NotDoneError

if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.frozen
class Advice:
    """What to do about orders of one kind.

    Attributes:
        short: In a few words, beside each.
        text: In a sentence or two.
    """

    short: str
    text: str


_RECOVER = Advice(
    "Never send again; recover",
    "It may have been done. Never send it again as it is: recover it first, from the gateway's own "
    "records (gateway-async recover, or the client's recover()).",
)
_JOB = Advice(
    "Never send again; run the job again",
    "It may have been done. Run the job again: it asks the gateway's records before it sends "
    "anything. What it cannot settle is held until you decide (gateway-async jobs show, then jobs "
    "resolve).",
)
_UNSETTLED = Advice(
    "Never send again; see the reason",
    "It may have been done, and the gateway's records do not settle it; the reason says why. "
    "Recover it again later, or find out in the merchant portal or from the gateway.",
)
_ASK = Advice(
    "Never send again; ask the gateway",
    "It may have been done, and no look-up shows it. Find out in the merchant portal or from the "
    "gateway before you send it again.",
)
_LOOK_AGAIN = Advice(
    "Look up again",
    "The look-up had no readable answer. Look it up again: that changes nothing.",
)
_UNKNOWN = {
    "capture": _RECOVER,
    "cancel": _RECOVER,
    "refund": _RECOVER,
    "query": _LOOK_AGAIN,
    "search_refunds": _LOOK_AGAIN,
    "recover": _UNSETTLED,
}
_NOT_SENT = Advice(
    "Send again",
    "Nothing was sent, or it was proved that nothing was done. It may be sent again freely.",
)
_NOT_SENT_JOB = Advice(
    "Run the job again",
    "Nothing was sent, or it was proved that nothing was done. Run the job again: it sends what "
    "is left.",
)
_HELD = Advice(
    "Decide on it",
    "The gateway's records prove that it was not done, and the job holds it rather than send it "
    "again. Decide on it (gateway-async jobs resolve); or let the job send such orders again "
    "(resend_absent = true under [recovery], or RecoveryPolicy(resend_absent=True)) and run it "
    "again.",
)
_INVALID = Advice("Mend it, then send", "It was wrong, and was not sent. Mend it, then send it.")
_DECLINED = Advice(
    "See the reason",
    "The gateway refused it and did nothing. See its reason; sent again as it is, it will most "
    "likely be refused again.",
)
_ABSENT = Advice(
    "Check the number",
    "The gateway lists nothing by this number. Check the number, and the account; by itself an "
    "absence proves nothing.",
)

KINDS: "Mapping[str, Advice]" = {
    "absent_at_gateway": Advice(
        "Find the payment",
        "Your books have a payment that the gateway does not list. Check its number and account; "
        "was it ever made?",
    ),
    "several_transactions": Advice(
        "Was it paid twice?",
        "The gateway has several payments for one order. Find out which is meant, and whether one "
        "must be given back.",
    ),
    "order_no": Advice(
        "Correct the entry",
        "The gateway has this transaction under another order number. Correct the entry.",
    ),
    "amount": Advice(
        "Correct the amount",
        "The amounts differ. Find out which is right, and correct your books or ask the gateway.",
    ),
    "currency": Advice("Correct the currency", "The currencies differ; see which is right."),
    "refunded_total": Advice(
        "Compare the refunds",
        "Both sides know of refunds, and the sums differ. Compare them one by one: "
        "gateway-async search-refunds.",
    ),
    "refund_unknown_to_ledger": Advice(
        "Enter the refund",
        "The gateway gave money back that your books do not know of. See who asked for it, then "
        "enter it.",
    ),
    "refund_absent_at_gateway": Advice(
        "Was it refunded?",
        "Your books have a refund that the gateway does not list. Did it ever leave? Before you "
        "send it again, look at the outcomes of that run.",
    ),
    "state": Advice(
        "Compare the states",
        "Your books and the gateway say different things of where the payment stands.",
    ),
    "unreadable": Advice(
        "Ask the gateway",
        "A field of the gateway's record cannot be read, is missing, or has a value without a "
        "known meaning. Ask the gateway, then say what it means (states, refund statuses).",
    ),
    "unanswered": Advice(
        "Reconcile again",
        "A look-up had no answer, so nothing was compared. Reconcile these entries again.",
    ),
}
"""What to do about each kind of difference."""


def advise(operation: str, status: str, *, job: str | None, error: Exception | None) -> Advice:
    """Say what to do about an order that did not succeed.

    Args:
        operation: The client's method.
        status: What became of the order.
        job: The name of the job, if it was one.
        error: Why it did not succeed.
    """
    if isinstance(error, InvalidOrderError):
        return _INVALID
    if status == "unknown":
        return _JOB if job is not None else _UNKNOWN.get(operation, _ASK)
    if status == "not_sent":
        in_a_job = _HELD if isinstance(error, NotDoneError) else _NOT_SENT_JOB
        return _NOT_SENT if job is None else in_a_job
    return _ABSENT if status == "absent" else _DECLINED
