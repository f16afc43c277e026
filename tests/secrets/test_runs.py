"""No collaborator, listener, interruption or broken connection makes the library show a secret.

The table of faults shows that no fault does: `tests/faults/test_table.py`.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    Dialect,
    GatewayClient,
    GatewayError,
    HmacSigner,
    Operation,
    RetryPolicy,
)
from gateway_async.sandbox import Sandbox, faults
from tests.support.collaborators import Diary, Limiter, Verifier, raising
from tests.support.dragnet import SIGNER_SECRET, Dragnet, beyond_tests, links_of
from tests.support.examples import CARD, SINGLES, paid_by_card
from tests.support.interruptions import WAYS, Way, asked, beside_a_failure, timed_out
from tests.support.memory import QUICK, MemoryTransport, client_over
from tests.support.orders import LOOK_UPS, MONEY_OPERATIONS, client_at, seeded
from tests.support.recording import Recorder
from tests.support.servers import Handle, bind, body_of, read_message, serving

SIGNER = HmacSigner(SIGNER_SECRET)
USUAL = ("pay_direct", "payout", "refund", "query")
"""One operation of each class and of each format on the wire."""
ALL = (*MONEY_OPERATIONS, *LOOK_UPS, *SINGLES)
_OTHERS = [name for name in ALL if name not in USUAL]


def _some(number: int) -> Sequence[str]:
    """Return the usual operations, and of all others the next two: so each has its turn."""
    return (*USUAL, *(_OTHERS[(2 * number + more) % len(_OTHERS)] for more in (0, 1)))


def _client(sandbox: Sandbox, **settings: Any) -> GatewayClient:
    """Return a client of the sandbox that reads little."""
    chosen = {
        "signer": SIGNER,
        "retry": QUICK,
        "policy": BatchPolicy(chunk_size=2),
        "max_reply_bytes": 100_000,
        **settings,
    }
    return client_at(sandbox.base_url, **chosen)


async def _call(name: str, client: GatewayClient, sandbox: Sandbox) -> Any:
    if name in SINGLES:
        return await SINGLES[name](client)
    return await client.batch(name, seeded(sandbox, 3, name))


async def _drive(
    net: Dragnet, sandbox: Sandbox, names: Sequence[str] = ALL, way: Way | None = None, **given: Any
) -> list[BaseException]:
    """Run operations at the same time, catch all that comes of them; return the errors."""
    async with _client(sandbox, **given) as client:
        calls: list[Any] = [_call(name, client, sandbox) for name in names]
        if way is not None:
            calls = [way(call, asked(sandbox)) for call in calls]
        came = await asyncio.gather(*calls, return_exceptions=True)
        net.catch("client", [client, *vars(client).values()], deep=False)
    for name, value in zip(names, came, strict=True):
        net.catch(name, value, deep=name not in ("checkout", "call for text"))
    return [value for value in came if isinstance(value, BaseException)]


async def test_all_is_well(net: Dragnet, sandbox: Sandbox) -> None:
    recorder = Recorder()
    assert await _drive(net, sandbox, telemetry=recorder.telemetry) == []
    assert len(net.signatures) > len(ALL)
    sandbox.faults.add("*", faults.DropReply(probability=0.5))
    await _drive(net, sandbox, USUAL, telemetry=recorder.telemetry)
    shown = recorder.shown()
    net.add("telemetry", shown)
    assert {"refund batch", *USUAL} <= {span.name for span in recorder.spans}
    orders = list(sandbox.ledger)
    assert orders
    for order in orders:
        assert order.transaction_id not in shown
        assert order.order_no not in shown


# What the caller gives, and how it ends a call


class _Interruption(BaseException):
    """Such as Ctrl-C, which may come while it signs."""


def _raises(operation: Operation, fields: Mapping[str, str]) -> str:
    raise ValueError(f"{fields}") from LookupError(f"{operation} with {SIGNER_SECRET}")


def _interrupted(*_: object) -> str:
    raise _Interruption


BROKEN = raising(LookupError("the limiter broke"))
OF_LIMITER, ENDED = (GatewayError, LookupError), BatchPolicy(chunk_size=2, drain_seconds=0)
OTHER_ENDS: dict[Way, Any] = {timed_out: TimeoutError, beside_a_failure: ExceptionGroup}
GIVEN: list[tuple[dict[str, Any], faults.Fault | None, Any]] = [
    ({"signer": _raises}, None, None),
    ({"signer": _interrupted}, None, _Interruption),
    ({"signer": lambda operation, fields: SIGNER.sign(operation, fields).encode()}, None, None),
    ({"signer": lambda operation, fields: SIGNER.sign(operation, fields) + "\ud800"}, None, None),
    ({"signer": HmacSigner(SIGNER_SECRET, check_replies=True)}, None, None),
    *(
        ({"signer": Verifier(said, SIGNER.sign)}, None, None)
        for said in (LookupError(SIGNER_SECRET), False)
    ),
    ({"limiter": Limiter(enter=BROKEN, leave=BROKEN)}, None, OF_LIMITER),
    ({"limiter": Limiter(leave=BROKEN)}, faults.CutReply(), OF_LIMITER),
    ({"dialect": Dialect(wire_names={"card": "pan", "security_code": "cvv"})}, None, None),
    ({"telemetry": Diary()}, faults.DropReply(probability=0.5), None),
    *(
        (
            {"way": way, "policy": ENDED},
            faults.NoReply(),
            OTHER_ENDS.get(way, asyncio.CancelledError),
        )
        for way in WAYS
    ),
]
"""What is given, the fault, and what every call raises; None where some may end well."""


@pytest.mark.parametrize("number", range(len(GIVEN)))
async def test_what_is_given_or_ends_a_call(net: Dragnet, sandbox: Sandbox, number: int) -> None:
    given, fault, raised = GIVEN[number]
    if fault:
        sandbox.faults.add("*", fault)
    names = _some(number)
    errors = await _drive(net, sandbox, names, **given)
    assert [error for error in errors if not isinstance(error, raised or GatewayError)] == []
    assert len(errors) == len(names) or raised is None
    groups = [error.exceptions for error in errors if isinstance(error, ExceptionGroup)]
    assert all([type(one) for one in group] == [LookupError] for group in groups)
    if isinstance(diary := given.get("telemetry"), Diary):
        assert diary.is_closed
        net.catch("told", [*diary.batches, *diary.requests, *diary.settled])


async def test_an_interruption_while_replies_are_verified(net: Dragnet, sandbox: Sandbox) -> None:
    signer = Verifier(_Interruption(), SIGNER.sign)
    errors = await _drive(net, sandbox, ("pay_direct", "payout", "refund"), signer=signer)
    assert len(errors) == 3


async def test_what_cannot_be_sent(net: Dragnet, sandbox: Sandbox) -> None:
    client: Any = _client(sandbox)
    paid, (order,) = paid_by_card(), seeded(sandbox, 1)
    wrong: list[Any] = [
        client.pay_direct(attrs.evolve(paid, amount="1.234")),
        client.payout(paid),
        client.refund([paid]),
        client.refund(iter([paid])),
        client.refund([attrs.evolve(order, refund_amount="0.001")]),
        client.call("authorise", {"card": CARD}),
        client.call("/v1/authorise", {"card": CARD, "merchant_id": CARD}),
        *(
            client.call("/v1/authorise", {"card": card, "amount": 1.5})
            for card in (paid.card, [CARD, object()], f"{CARD}\ud800")
        ),
    ]
    for made in await asyncio.gather(*wrong, return_exceptions=True):
        net.catch("wrong", made)
    await client.aclose()
    net.catch("closed", *await asyncio.gather(client.pay_direct(paid), return_exceptions=True))


async def test_a_loop_that_logs_all_it_runs_and_a_task_that_nobody_awaits(
    net: Dragnet, sandbox: Sandbox
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 0
    async with _client(sandbox) as client:
        await client.pay_direct(paid_by_card())
        for fault in (faults.Status(times=1), faults.DropReply(times=1)):
            sandbox.faults.add("*", fault)
            forgotten = asyncio.create_task(client.pay_direct(paid_by_card()))
            await asyncio.wait({forgotten})
            net.catch("task", forgotten, deep=False)
            del forgotten
    assert sum(label == "log" for label, _ in net.texts) > 10
    assert any("never retrieved" in text for label, text in net.texts if label == "event loop")


# Connections that break while the request is written, as soon as it is, or within the reply


def _break(after_bytes: int) -> Handle:
    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if after_bytes:
            await reader.read(after_bytes)
        writer.transport.abort()

    return take


async def _repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Break off behind a header that repeats the request: aiohttp's exception carries it."""
    body = body_of(await read_message(reader))
    writer.write(b"HTTP/1.1 200 OK\r\nX-Request: " + body + b"\r\nContent-Type: text/xml\r\n")


@pytest.mark.parametrize(
    ("handle", "length"),
    [
        *((handle, 0) for handle in (_break(0), _break(1000), _repeat)),
        (_break(1), 4_000_000),  # longer than any buffer
    ],
)
async def test_a_broken_connection(net: Dragnet, handle: Handle, length: int) -> None:
    bound = bind()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    # Not shown in the repr, so that the net need not search it in every frame.
    payment = attrs.evolve(paid_by_card(), document="x" * length)
    retry = RetryPolicy(attempts=1)
    async with (
        serving(handle, bound=bound) as address,
        client_at(address, signer=SIGNER, retry=retry) as client,
    ):
        with pytest.raises(GatewayError) as caught:
            await client.pay_direct(payment)
    net.catch("broken", caught.value)
    causes = links_of(caught.value)[1:]
    assert bool(causes) is (handle is not _repeat)
    assert [cause for cause in causes if cause.__traceback__] == []


async def test_a_wrapped_secret_goes_out_whole_in_any_call_and_shows_in_none(net: Dragnet) -> None:
    transport = MemoryTransport(lambda _: b"lost")
    client = client_over(transport, retry=QUICK)
    for body in ("form", "json"):
        fields = {"order_no": "1", "amount": "1", "currency": "EUR", "card": paid_by_card().card}
        with pytest.raises(GatewayError) as caught:
            await client.call("/v1/authorise", fields, body=body)
        net.catch("call", beyond_tests(caught.value))
    assert [asked.fields["card"] for asked in transport.asked] == [CARD, CARD]


async def test_a_limiter_that_breaks_behind_a_reply_that_repeats_the_request(net: Dragnet) -> None:
    """Its error has that of the request as its context."""
    async with (
        serving(_repeat) as address,
        client_at(address, signer=SIGNER, limiter=Limiter(leave=BROKEN)) as client,
    ):
        with pytest.raises(GatewayError) as caught:
            await client.pay_direct(paid_by_card())
    net.catch("broken", caught.value)
