"""No fault, collaborator, listener or interruption makes the library show a secret."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import aiohttp
import attrs
import pytest

from gateway_async import BatchPolicy, Dialect, GatewayError, HmacSigner, Operation
from gateway_async.sandbox import Sandbox, faults
from tests.cancellation.places import asked
from tests.secrets.data import CARD, SIGNER_SECRET, direct_payment, payout_request
from tests.secrets.dragnet import Dragnet, links_of
from tests.secrets.driving import OPERATIONS, drive, refunds, some
from tests.support.diary import Diary
from tests.support.faults import LARGE, ROWS, Row
from tests.telemetry.recording import Recorder

if TYPE_CHECKING:
    from tests.secrets.conftest import Opened


def _errors(came: Mapping[str, object]) -> list[BaseException]:
    return [value for value in came.values() if isinstance(value, BaseException)]


async def test_all_is_well(net: Dragnet, opened: "Opened", sandbox: Sandbox) -> None:
    came = await drive(net, opened(), sandbox)
    assert _errors(came) == []
    assert len(net.signatures) > len(OPERATIONS)


@pytest.mark.usefixtures("held_for_long")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row.fault).__name__)
async def test_a_fault(net: Dragnet, opened: "Opened", sandbox: Sandbox, row: Row) -> None:
    number = ROWS.index(row)
    names = some(number)[number % 2 :: 2]
    sandbox.faults.add("*", row.fault)
    came = await drive(net, opened(max_reply_bytes=LARGE), sandbox, names)
    assert set(sandbox.faults.struck) == {type(row.fault).__name__}
    errors = _errors(came)
    assert [error for error in errors if not isinstance(error, GatewayError)] == []
    causes = [cause for error in errors for cause in list(links_of(error))[1:]]
    assert [cause for cause in causes if cause.__traceback__] == []


# What the caller gives


def _raises(operation: Operation, fields: Mapping[str, str]) -> str:
    raise LookupError(f"{operation} of {fields} with {SIGNER_SECRET}")


def _raises_from_another(operation: Operation, fields: Mapping[str, str]) -> str:
    try:
        return _raises(operation, fields)
    except LookupError as error:
        raise ValueError(f"{fields}") from error


def _gives_bytes(operation: Operation, fields: Mapping[str, str]) -> Any:
    return HmacSigner(SIGNER_SECRET).sign(operation, fields).encode()


def _gives_half_a_character(operation: Operation, fields: Mapping[str, str]) -> str:
    return HmacSigner(SIGNER_SECRET).sign(operation, fields) + "\ud800"


class OwnSigner:
    """Signs as it should, and answers or raises when asked about a reply."""

    def __init__(self, answer: bool | None) -> None:
        self.answer = answer
        self.sign = HmacSigner(SIGNER_SECRET).sign

    def verify(self, operation: object, fields: Mapping[str, str], signature: str) -> bool:
        if self.answer is None:
            raise LookupError(f"{operation} {fields} {signature} {SIGNER_SECRET}")
        return self.answer


class Limiter:
    """Raises when entered or when left, whatever happens within."""

    def __init__(self, *, before: bool) -> None:
        self.before = before

    async def __aenter__(self) -> None:
        if self.before:
            raise LookupError("the limiter broke")

    async def __aexit__(self, *error: object) -> None:
        raise LookupError("the limiter broke")


SIGNERS: list[Any] = [
    *(_raises, _raises_from_another, _gives_bytes, _gives_half_a_character),
    lambda _operation, _fields: "rubbish",
    HmacSigner(f"{SIGNER_SECRET}\ud800"),
    HmacSigner(SIGNER_SECRET, check_replies=True),
    *(OwnSigner(answer) for answer in (None, False, True)),
]
NAMES = {"card": "pan", "security_code": "cvv", "amount": "card_amount"}
GIVEN: list[tuple[dict[str, Any], faults.Fault | None]] = [
    *(({"signer": signer}, None) for signer in SIGNERS),
    ({"limiter": Limiter(before=True)}, None),
    ({"limiter": Limiter(before=False)}, None),
    ({"limiter": Limiter(before=False)}, faults.DropReply()),
    ({"limiter": Limiter(before=False)}, faults.CutReply()),
    ({"dialect": Dialect(wire_names=NAMES)}, None),
    ({"dialect": Dialect(echo_fields={"pay_direct": ()})}, None),
]


@pytest.mark.parametrize("number", range(len(GIVEN)))
async def test_what_is_given(net: Dragnet, opened: "Opened", sandbox: Sandbox, number: int) -> None:
    settings, fault = GIVEN[number]
    if fault:
        sandbox.faults.add("*", fault)
    came = await drive(net, opened(**settings), sandbox, some(number))
    allowed = (GatewayError, LookupError) if "limiter" in settings else GatewayError
    assert [error for error in _errors(came) if not isinstance(error, allowed)] == []
    assert len(_errors(came)) == len(came) or "limiter" not in settings


async def test_a_session_of_the_caller(net: Dragnet, opened: "Opened", sandbox: Sandbox) -> None:
    sandbox.faults.add("*", faults.DropReply(probability=0.5))
    async with aiohttp.ClientSession() as session:
        client = opened(session=session)
        await drive(net, client, sandbox)
    await drive(net, client, sandbox, some(0))


async def test_what_cannot_be_sent(net: Dragnet, opened: "Opened", sandbox: Sandbox) -> None:
    client = opened()
    (order,) = refunds(sandbox, 1)
    wrong: list[Any] = [
        client.pay_direct(attrs.evolve(direct_payment(), amount=Decimal("1.234"))),
        client.pay_direct(payout_request()),  # type: ignore[arg-type]  # wrong on purpose
        client.payout(direct_payment()),  # type: ignore[arg-type]  # wrong on purpose
        client.checkout(direct_payment()),  # type: ignore[arg-type]  # wrong on purpose
        client.refund([direct_payment()]),  # type: ignore[list-item]  # wrong on purpose
        client.refund(iter([direct_payment()])),  # type: ignore[arg-type]  # wrong on purpose
        client.refund([attrs.evolve(order, refund_amount=Decimal("0.001"))]),
        client.call("/v1/authorise", {"card": direct_payment().card}),
        client.call("/v1/authorise", {"card": 1.5}),
        client.call("authorise", {"card": CARD}),
        client.call("/v1/authorise", {"card": CARD, "amount": 1.5}),
        client.call("/v1/authorise", {"card": CARD, "merchant_id": CARD}),
        client.call("/v1/authorise", {"card": [CARD, object()]}),
        client.call("/v1/authorise", {"card": f"{CARD}\ud800"}),
        client.call("/v1/authorise", {"card": CARD}, reply="yaml"),
        client.call("/v1/x", {"card": "\ud800"}, body="json"),
    ]
    for made in await asyncio.gather(*wrong, return_exceptions=True):
        if isinstance(made, BaseException):
            net.catch_error("wrong", made)
        else:
            net.catch_object("wrong", made, deep=True)
    await client.aclose()
    with pytest.raises(GatewayError) as caught:
        await client.pay_direct(direct_payment())
    net.catch_error("closed", caught.value)


# Interruptions


async def _cancelled_twice(work: Awaitable[object], sandbox: Sandbox) -> None:
    task = asyncio.ensure_future(work)
    await asked(sandbox)
    task.cancel("enough")
    await asyncio.sleep(0)
    task.cancel("enough!")
    await task


async def _timed_out(work: Awaitable[object], sandbox: Sandbox) -> None:
    async with asyncio.timeout(None) as limit:
        coming = asyncio.create_task(asked(sandbox))
        coming.add_done_callback(lambda _: limit.reschedule(0))
        await work


async def _beside_a_failure(work: Awaitable[object], sandbox: Sandbox) -> None:
    async def fail() -> None:
        await asked(sandbox)
        raise LookupError("the sibling failed")

    async def run() -> None:
        await work

    async with asyncio.TaskGroup() as group:
        group.create_task(run())
        group.create_task(fail())


INTERRUPTIONS: list[Any] = [_cancelled_twice, _timed_out, _beside_a_failure]


@pytest.mark.parametrize("settings", [{}, {"limiter": Limiter(before=False)}], ids=["", "limiter"])
@pytest.mark.parametrize("interrupt", INTERRUPTIONS)
async def test_an_interruption(
    net: Dragnet,
    opened: "Opened",
    sandbox: Sandbox,
    interrupt: Callable[[Awaitable[object], Sandbox], Awaitable[None]],
    settings: dict[str, Any],
) -> None:
    names = some(INTERRUPTIONS.index(interrupt))
    sandbox.faults.add("*", faults.NoReply())
    client = opened(policy=BatchPolicy(chunk_size=2, drain_seconds=0), **settings)
    ends = await asyncio.gather(
        *(interrupt(OPERATIONS[name](client, sandbox), sandbox) for name in names),
        return_exceptions=True,
    )
    for name, end in zip(names, ends, strict=True):
        assert isinstance(end, asyncio.CancelledError | TimeoutError | ExceptionGroup)
        net.catch_error(name, end)


async def test_a_loop_that_logs_all_it_runs_and_a_task_that_nobody_awaits(
    net: Dragnet, opened: "Opened", sandbox: Sandbox
) -> None:
    asyncio.get_running_loop().slow_callback_duration = 0
    client = opened()
    await client.pay_direct(direct_payment())
    for fault in (faults.Status(times=1), faults.DropReply(times=1)):
        sandbox.faults.add("*", fault)
        forgotten = asyncio.create_task(client.pay_direct(direct_payment()))
        await asyncio.wait({forgotten})
        net.catch_object("task", forgotten)
        del forgotten
    assert sum(label == "log" for label, _ in net.texts) > 10
    assert any("never retrieved" in text for label, text in net.texts if label == "event loop")


# Telemetry


@pytest.mark.parametrize(
    "fault", [None, faults.DropReply(), faults.HtmlErrorPage(), faults.MissingItems()], ids=repr
)
async def test_spans_and_metrics(
    net: Dragnet, opened: "Opened", sandbox: Sandbox, fault: faults.Fault | None
) -> None:
    if fault is not None:
        sandbox.faults.add("*", fault)
    recorder = Recorder()
    names = some(0) if fault else tuple(OPERATIONS)
    await drive(net, opened(telemetry=recorder.telemetry), sandbox, names)
    shown = recorder.shown()
    net.add("telemetry", shown)
    named = {span.name for span in recorder.spans}
    assert {"refund batch", "refund", "pay_direct", "payout"} <= named
    orders = list(sandbox.ledger)
    assert orders
    for order in orders:
        assert order.transaction_id not in shown
        assert order.order_no not in shown


async def test_what_listeners_are_told(net: Dragnet, opened: "Opened", sandbox: Sandbox) -> None:
    sandbox.faults.add("*", faults.DropReply(probability=0.5))
    sandbox.faults.add("*", faults.UnknownFields())
    diary = Diary()
    await drive(net, opened(telemetry=diary), sandbox)
    assert diary.is_closed
    for told in (*diary.batches, *diary.requests, *diary.settled):
        net.catch_object("told", told, deep=True)
