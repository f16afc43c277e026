"""No fault of the gateway makes the library show a secret."""

from typing import TYPE_CHECKING

import pytest

from gateway_async import GatewayError, Timeouts
from gateway_async.sandbox import faults
from tests.secrets.data import direct_payment
from tests.secrets.dragnet import links_of
from tests.secrets.driving import OPERATIONS, drive, some

if TYPE_CHECKING:
    from gateway_async.sandbox import Sandbox
    from tests.secrets.conftest import Opened
    from tests.secrets.dragnet import Dragnet

HARMLESS = [
    faults.ByteOrderMark(),
    faults.GzipReply(),
    faults.Latency(seconds=0.01),
    faults.NumbersForText(),
    faults.ReorderedItems(),
    faults.UnknownFields(),
    faults.WrongContentType(),
]
HASTY = Timeouts(reply_seconds=0.3)

FAULTS: list[list[faults.Fault]] = [
    [*HARMLESS],
    [faults.ChangedAmount(), faults.ChangedAmount(field="payment_amount")],
    [faults.ChangedCurrency()],
    [faults.CutReply()],
    [faults.Doctype(), faults.DoubledItems(status="7")],
    [faults.DoubledItems(), faults.ChangedIdentity()],
    [faults.Drip(piece_bytes=400, pause_seconds=0)],
    [faults.DropReply()],
    [faults.EntityBomb(), faults.EmptyLookUp()],
    [faults.ExternalEntity(), faults.MissingItems()],
    [faults.ExtraItems()],
    [faults.GzipBomb()],
    [faults.HtmlErrorPage()],
    [faults.HtmlErrorPage(status=200)],
    [faults.HugeReply()],
    [faults.IgnoreSelection()],
    [faults.InvalidBody()],
    [faults.LateEffect(seconds=0)],
    [faults.NoReply()],
    [faults.NullList()],
    [faults.Redirect(location="http://127.0.0.1:9/elsewhere")],
    [faults.ResetAfterEffect()],
    [faults.ResetBeforeEffect()],
    [faults.ReturnStatus()],
    [faults.ReturnStatus(after_effect=False)],
    [faults.Status()],
    [faults.Status(429, retry_after="0")],
    [faults.UnknownItemStatus()],
    [faults.UnknownItemStatus(text="1234:no")],
]


def _names(chosen: list[faults.Fault]) -> str:
    return " ".join(type(fault).__name__ for fault in chosen)


async def test_nothing_leaks_where_all_is_well(
    net: "Dragnet", opened: "Opened", sandbox: "Sandbox"
) -> None:
    came = await drive(net, opened(), sandbox)
    assert [name for name, value in came.items() if isinstance(value, Exception)] == []
    assert len(net.signatures) > len(OPERATIONS)


async def test_nothing_leaks_where_rich_draws_the_traceback(
    net: "Dragnet", opened: "Opened", sandbox: "Sandbox"
) -> None:
    sandbox.faults.add("*", faults.DropReply())
    with pytest.raises(GatewayError) as caught:
        await opened().pay_direct(direct_payment())
    net.draw_error("pay_direct", caught.value)


@pytest.mark.parametrize("chosen", FAULTS, ids=_names)
async def test_nothing_leaks_under_a_fault(
    net: "Dragnet", opened: "Opened", sandbox: "Sandbox", chosen: list[faults.Fault]
) -> None:
    for fault in chosen:
        sandbox.faults.add("*", fault)
    came = await drive(net, opened(timeouts=HASTY), sandbox, some(FAULTS.index(chosen)))
    assert set(sandbox.faults.struck) == {type(fault).__name__ for fault in chosen}
    errors = [value for value in came.values() if isinstance(value, BaseException)]
    assert [error for error in errors if not isinstance(error, GatewayError)] == []
    causes = [cause for error in errors for cause in list(links_of(error))[1:]]
    assert [cause for cause in causes if cause.__traceback__] == []


def _strikes_requests(kind: type) -> bool:
    return issubclass(kind, faults.Fault) and not issubclass(kind, faults.NotificationFault)


def test_every_fault_of_the_sandbox_is_among_them() -> None:
    known = {name for name in faults.__all__ if name not in ("AnswerFault", "ReplyFault")}
    kinds = {name for name in known if _strikes_requests(getattr(faults, name))}
    tried = {type(fault).__name__ for chosen in FAULTS for fault in chosen}
    assert kinds - tried == {"Ending", "Fault"}
