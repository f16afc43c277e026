"""Nothing that holds a secret shows it, whatever the library is given, and however a call ends.

The table of faults shows that no fault makes it do so: `tests/faults/test_table.py`.
"""

import asyncio
import logging
import pickle
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    Credentials,
    Dialect,
    DirectPayment,
    GatewayClient,
    GatewayError,
    HmacSigner,
    MpiInfo,
    Operation,
    OrderRef,
    RedirectPayment,
    RetryPolicy,
)
from gateway_async.models.values import SignatureText
from gateway_async.notifications import SignatureVerifier
from gateway_async.sandbox import Sandbox, faults
from tests.support.collaborators import Diary, Limiter, Verifier, raising
from tests.support.dragnet import SIGNER_SECRET, Dragnet, links_of
from tests.support.examples import CARD, CAVV, SECURITY_CODE, SINGLES, TOKEN, full, paid_by_card
from tests.support.interruptions import WAYS, Way, asked, beside_a_failure, timed_out
from tests.support.memory import QUICK, MemoryTransport, client_over
from tests.support.orders import LOOK_UPS, MONEY_OPERATIONS, PAYMENT, client_at, seeded
from tests.support.recording import Recorder
from tests.support.servers import Handle, bind, body_of, read_message, serving

SIGNER = HmacSigner(SIGNER_SECRET)
Make = Callable[[], object]
ADDRESS, PROXY = "https://gateway.example", f"http://user:{SIGNER_SECRET}@proxy.example"
SPACED = " ".join(CARD[start : start + 4] for start in range(0, 16, 4))


@attrs.frozen
class OwnSigner:
    """A signer that shows its secret, as people write them."""

    secret: str

    def sign(self, operation: object, fields: object) -> str:
        return f"{operation}{fields}{self.secret}"


def credentials(signer: Any = SIGNER) -> Credentials:
    return Credentials(merchant_id="M1", account_id="A1", signer=signer)


def client(address: str = ADDRESS, **settings: Any) -> GatewayClient:
    return GatewayClient(address, credentials(), **settings)


def lost(secret: str) -> None:
    """Raise an error that shows nothing, from a frame that has a secret."""
    raise GatewayError(f"lost, {len(secret)} characters long")


def test_the_net_finds_secrets_in_values_frames_and_logs_and_nowhere_else() -> None:
    net, signature = Dragnet(), "f00dfeed" * 8
    net.signatures.add(signature)
    net.add("here", f"<object at 0x7f{SECURITY_CODE}0>, 0.{SECURITY_CODE} s, Task-{SECURITY_CODE}")
    assert net.hits() == []
    for secret in (CARD, SPACED, SECURITY_CODE, SIGNER_SECRET, signature):
        net.catch(secret, [secret])
    with pytest.raises(GatewayError) as caught:
        lost(CARD)
    net.catch("raised", caught.value)
    net.handle(logging.makeLogRecord({"msg": "%s", "args": (CARD,)}))
    found = " ".join(net.hits())
    for label in (SPACED, SECURITY_CODE, SIGNER_SECRET, signature, "traceback", "rich", "log:"):
        assert label in found


async def test_a_sandbox_shows_nothing_of_a_request_that_is_still_to_take_effect(
    net: Dragnet, sandbox: Sandbox
) -> None:
    sandbox.faults.add("pay_direct", faults.LateEffect(seconds=60))
    async with GatewayClient(sandbox.base_url, sandbox.credentials) as gateway:
        with pytest.raises(GatewayError):
            await gateway.pay_direct(full(DirectPayment))
    net.catch("sandbox", sandbox, deep=False)
    sandbox.land_late_effects()


HOLDERS: list[Make] = [
    *(lambda: full(DirectPayment), lambda: full(RedirectPayment), credentials, client),
    lambda: credentials(OwnSigner(SIGNER_SECRET)),
    lambda: credentials(lambda _operation, _fields: SIGNER_SECRET),
    lambda: SIGNER,
    lambda: SignatureVerifier(SIGNER),
    lambda: attrs.asdict(SIGNER),
    lambda: [*vars(client()).values()],
    lambda: client().query([OrderRef(order_no="N-1")]),
]


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("make", HOLDERS)
async def test_it_shows_no_secret_and_is_not_pickled(net: Dragnet, make: Make) -> None:
    net.catch("holder", make(), deep=False)
    net.catch("in a container", {"holder": [make()]}, deep=False)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises((TypeError, AttributeError)):
            pickle.dumps(make(), protocol)


def test_parts_of_a_secret_show_no_more_than_the_whole(net: Dragnet) -> None:
    payment = full(DirectPayment)
    for text in (payment.card, payment.security_code, full(RedirectPayment).token_id):
        assert text is not None
        assert f"{text[:10]!r} {text[2:]} {text[-1]}" == "'***' *** ***"
    assert str(attrs.evolve(payment, card="12345678901").card) == "***"
    signature = "a1b2c3d4e5f60718" * 16
    net.signatures.add(signature)  # which tools cut that show it
    net.catch("signature", [SignatureText(signature)])


SIGN: Any = HmacSigner


def _payment(**given: Any) -> Make:
    return lambda: DirectPayment(**{**PAYMENT, **given})


def _changed(**given: Any) -> Make:
    return lambda: attrs.evolve(full(DirectPayment), **given)


WRONG: list[Make] = [
    *(_changed(amount=12.3), _changed(shopper_email="half \ud800"), _changed(nonsense=1)),
    *(_payment(card=card) for card in (int(CARD), f"{CARD}\ud800", CARD.encode(), SPACED)),
    _payment(card=CARD, security_code=f"{SECURITY_CODE}\udfff"),
    _payment(card=CARD, security_code=SECURITY_CODE, nonsense="x"),
    _payment(card=CARD, security_code=SECURITY_CODE, items=(1 / 0 for _ in "x")),
    _payment(token_id=[TOKEN]),
    lambda: SIGN(SIGNER_SECRET, digest="nonsense"),
    *(lambda: SIGN(SIGNER_SECRET.encode()), lambda: SIGN(f"{SIGNER_SECRET}\ud800")),
    lambda: SIGN(SIGNER_SECRET, nonsense=True),
    lambda: credentials(SIGNER_SECRET),
    lambda: client("http://gateway.example"),
    lambda: client(proxy=PROXY, max_reply_bytes=0),
    lambda: client(proxy=f"{PROXY}/path"),
    lambda: MpiInfo(cavv=CAVV, eci=5),  # type: ignore[arg-type]  # wrong on purpose
]


@pytest.mark.parametrize("make", WRONG)
def test_what_is_made_wrongly_tells_nothing(net: Dragnet, make: Make) -> None:
    with net.raises(TypeError, ZeroDivisionError, GatewayError):
        make()


# Operations that run

USUAL = ("pay_direct", "payout", "refund", "query")
"""One operation of each class and of each format on the wire."""
ALL = (*MONEY_OPERATIONS, *LOOK_UPS, *SINGLES)
_OTHERS = [name for name in ALL if name not in USUAL]


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


async def _drive(
    net: Dragnet, sandbox: Sandbox, names: Sequence[str] = ALL, way: Way | None = None, **given: Any
) -> list[BaseException]:
    """Run operations at the same time, catch all that comes of them; return the errors."""
    async with _client(sandbox, **given) as client:
        calls: list[Any] = [
            SINGLES[name](client)
            if name in SINGLES
            else client.batch(name, seeded(sandbox, 3, name))
            for name in names
        ]
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
    names = (*USUAL, _OTHERS[number % len(_OTHERS)])  # so each has its turn
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
    ("handle", "length", "leave"),
    [
        *((handle, 0, None) for handle in (_break(0), _break(1000), _repeat)),
        (_break(1), 4_000_000, None),  # longer than any buffer
        (_repeat, 0, BROKEN),  # its error has that of the request as its context
    ],
)
async def test_a_broken_connection(net: Dragnet, handle: Handle, length: int, leave: Any) -> None:
    bound = bind()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    # Not shown in the repr, so that the net need not search it in every frame.
    payment = attrs.evolve(paid_by_card(), document="x" * length)
    given: Any = {"retry": RetryPolicy(attempts=1)}
    given |= {"limiter": Limiter(leave=leave)} if leave else {}
    async with (
        serving(handle, bound=bound) as address,
        client_at(address, signer=SIGNER, **given) as client,
    ):
        with pytest.raises(GatewayError) as caught:
            await client.pay_direct(payment)
    net.catch("broken", caught.value)
    if not leave:
        causes = links_of(caught.value)[1:]
        assert bool(causes) is (handle is not _repeat)
        assert [cause for cause in causes if cause.__traceback__] == []


async def test_a_wrapped_secret_goes_out_whole_in_any_call_and_shows_in_none(net: Dragnet) -> None:
    transport = MemoryTransport(lambda _: b"lost")
    client = client_over(transport, retry=QUICK)
    for body in ("form", "json"):
        fields = {"order_no": "1", "amount": "1", "currency": "EUR", "card": paid_by_card().card}
        with net.raises(GatewayError):
            await client.call("/v1/authorise", fields, body=body)
    assert [asked.fields["card"] for asked in transport.asked] == [CARD, CARD]
