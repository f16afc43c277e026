"""The table of faults: each that the sandbox plays, and what orders come to while it lasts.

The client is tried with every row, no secret may leak under any of them, and the reference of the
sandbox shows the statuses.
"""

import attrs

from gateway_async import OutcomeStatus
from gateway_async.sandbox import faults
from tests.support.books import ABSENT, SUCCEEDED, UNKNOWN

LARGE = 1024 * 1024
"""The largest reply that the client is to read."""

ALL_DONE, ALL_UNKNOWN, ALL_ABSENT = (SUCCEEDED,) * 3, (UNKNOWN,) * 3, (ABSENT,) * 3
ONE_UNKNOWN = (UNKNOWN, SUCCEEDED, SUCCEEDED)


@attrs.frozen
class Row:
    """What three orders come to, of a look-up and of a refund."""

    fault: faults.Fault  # the fault, which strikes each request
    # the statuses of a look-up of three orders; none where no look-up shows it
    read: tuple[OutcomeStatus, ...]
    # the statuses of a refund of three orders; one where only a payment shows it
    money: tuple[OutcomeStatus, ...]
    effects: int = 1  # how often each order was carried out
    strangers: int = attrs.field(default=0, kw_only=True)  # records that belong to no order


ROWS = (
    Row(faults.Latency(0.01), ALL_DONE, ALL_DONE),
    Row(faults.IgnoreSelection(), (), ALL_DONE),
    Row(faults.DropReply(), ALL_UNKNOWN, ALL_UNKNOWN),
    Row(faults.ResetBeforeEffect(), ALL_UNKNOWN, ALL_UNKNOWN, 0),
    Row(faults.ResetAfterEffect(), ALL_UNKNOWN, ALL_UNKNOWN),
    Row(faults.LateEffect(3600), ALL_UNKNOWN, ALL_UNKNOWN, 0),
    Row(faults.NoReply(), ALL_UNKNOWN, ALL_UNKNOWN),
    Row(faults.NoReply(after_effect=False), ALL_UNKNOWN, ALL_UNKNOWN, 0),
    Row(faults.CutReply(), ALL_UNKNOWN, ALL_UNKNOWN),
    Row(faults.CutReply(10), ALL_UNKNOWN, ALL_UNKNOWN),
    Row(faults.Drip(piece_bytes=400, pause_seconds=0), ALL_DONE, ALL_DONE),
    Row(faults.Status(), ALL_UNKNOWN, ALL_UNKNOWN, 0),
    Row(faults.Status(429, retry_after="0"), ALL_UNKNOWN, ALL_UNKNOWN, 0),
    Row(faults.Status(500, after_effect=True), ALL_UNKNOWN, ALL_UNKNOWN),
    Row(faults.HtmlErrorPage(), ALL_UNKNOWN, ALL_UNKNOWN),
    Row(faults.HtmlErrorPage(200, after_effect=False), ALL_UNKNOWN, ALL_UNKNOWN, 0),
    Row(faults.Redirect("http://127.0.0.1:9/elsewhere"), ALL_UNKNOWN, ALL_UNKNOWN, 0),
    Row(faults.HugeReply(3 * LARGE), ALL_UNKNOWN, ALL_UNKNOWN),
    Row(faults.GzipBomb(3 * LARGE), ALL_UNKNOWN, ALL_UNKNOWN),
    Row(faults.MissingItems(), (ABSENT, SUCCEEDED, SUCCEEDED), ONE_UNKNOWN),
    Row(faults.MissingItems(3), ALL_ABSENT, ALL_UNKNOWN),
    Row(faults.DoubledItems(3), ALL_DONE, ALL_DONE),
    Row(faults.DoubledItems(status="0"), ONE_UNKNOWN, ONE_UNKNOWN),
    Row(faults.ReorderedItems(), ALL_DONE, ALL_DONE),
    Row(faults.ExtraItems(2), ALL_DONE, ALL_DONE, strangers=2),
    Row(faults.EmptyLookUp(), ALL_ABSENT, ALL_UNKNOWN),
    Row(faults.NullList(), ALL_ABSENT, ALL_UNKNOWN),
    Row(faults.ReturnStatus(), ALL_UNKNOWN, ALL_UNKNOWN),
    Row(faults.ReturnStatus(message="", after_effect=False), ALL_UNKNOWN, ALL_UNKNOWN, 0),
    Row(
        faults.ReturnStatus(listed=1), (SUCCEEDED, UNKNOWN, UNKNOWN), (SUCCEEDED, UNKNOWN, UNKNOWN)
    ),
    Row(faults.UnknownItemStatus(count=1), ONE_UNKNOWN, ONE_UNKNOWN),
    Row(faults.UnknownItemStatus("1", "2001:no", count=1), ALL_DONE, ONE_UNKNOWN),
    Row(faults.ChangedAmount(), ALL_DONE, ONE_UNKNOWN),
    Row(faults.ChangedAmount("refund_amount", count=2), ALL_DONE, (UNKNOWN, UNKNOWN, SUCCEEDED)),
    Row(faults.ChangedCurrency(), ALL_DONE, ONE_UNKNOWN),
    Row(faults.ChangedIdentity(), (), (UNKNOWN, UNKNOWN, SUCCEEDED)),
    Row(faults.NumbersForText(), ALL_DONE, ALL_DONE),
    Row(faults.UnknownFields(), ALL_DONE, ALL_DONE),
    Row(faults.InvalidBody(), ALL_UNKNOWN, ALL_UNKNOWN),
    Row(faults.WrongContentType(), ALL_DONE, ALL_DONE),
    Row(faults.ByteOrderMark(), ALL_DONE, ALL_DONE),
    Row(faults.GzipReply(), ALL_DONE, ALL_DONE),
    Row(faults.Doctype(), (), (UNKNOWN,)),
    Row(faults.EntityBomb(), (), (UNKNOWN,)),
    Row(faults.ExternalEntity(), (), (UNKNOWN,)),
)
