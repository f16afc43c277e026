"""The proof that nothing was sent: whether the body was ever asked to write itself."""

import asyncio
import contextlib
import hmac
import itertools
import json
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from functools import partial
from typing import Any
from unittest.mock import AsyncMock, Mock

import aiohttp
import attrs
import pytest
from aioresponses import aioresponses

from gateway_async import (
    BatchPolicy,
    CertificateError,
    ConfigurationError,
    Dialect,
    EvidenceError,
    GatewayClient,
    GatewayError,
    HmacSigner,
    InvalidOrderError,
    NotSentError,
    OrderRef,
    OutcomeStatus,
    OutcomeUnknownError,
    RejectedError,
    ReplyStatusError,
    ReplyTooLargeError,
    ReplyUnreadableError,
    RetryPolicy,
    Timeouts,
)
from gateway_async.operations import REFUND, Operation
from tests.support.clock import on_virtual_time
from tests.support.collaborators import Limiter, Verifier, raising
from tests.support.examples import SINGLES
from tests.support.memory import QUICK, Asked, HttpResponse, MemoryTransport, client_over
from tests.support.orders import client_at, payout_request, references, refunds

LOST = [
    *(aiohttp.ServerDisconnectedError(), aiohttp.ClientOSError(104, "Connection reset by peer")),
    *(aiohttp.ServerTimeoutError(), aiohttp.ConnectionTimeoutError()),
    *(aiohttp.ClientConnectionError("closed"), TimeoutError()),
    *(ConnectionResetError(), OSError("broken")),
]
UNREADABLE = [
    aiohttp.ClientPayloadError("quoted reply"),
    aiohttp.http_exceptions.BadHttpMessage("quoted reply"),
]


class MockedResponse(aiohttp.ClientResponse):
    """A response with the writer that aiohttp asks for and aioresponses does not give."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"stream_writer": Mock(), **kwargs})


async def test_a_reply_to_a_body_that_was_never_written_is_a_loud_error() -> None:
    """So a mock that does not write bodies is found out, and no order is called done."""
    policy, url = BatchPolicy(concurrency=1), "https://gateway.example"
    with aioresponses() as mock:
        mock.post(f"{url}/v1/refund", body=b"{}", response_class=MockedResponse, repeat=True)
        async with client_at(url) as gateway:
            result = await gateway.refund(refunds(500), policy=policy)
    assert isinstance(result[0].error, EvidenceError)
    assert "HTTP 200" in str(result[0].error)
    assert [len(calls) for calls in mock.requests.values()] == [1]
    assert result.counts[OutcomeStatus.UNKNOWN] == 50
    assert result.counts[OutcomeStatus.NOT_SENT] == 450


async def test_a_body_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever repeats a request behind the client's back."""
    writers: list[AsyncMock] = []

    async def send_twice(*_: object, data: Any, **__: object) -> Any:
        for writer in (AsyncMock(), AsyncMock()):
            writers.append(writer)
            await data.write_with_length(writer, None)

    monkeypatch.setattr(aiohttp.ClientSession, "_request", send_twice)
    async with client_at("https://gateway.example") as gateway:
        result = await gateway.refund(refunds(1))
    assert [writer.write.await_count for writer in writers] == [1, 0]
    assert result.counts[OutcomeStatus.UNKNOWN] == 1


@pytest.mark.parametrize("failure", LOST + UNREADABLE, ids=lambda one: type(one).__name__)
async def test_the_same_failure_means_unknown_once_the_body_was_written(
    failure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for writes in (True, False):

        async def send(*_: object, data: Any, writes: bool = writes, **__: object) -> Any:
            if writes:
                await data.write_with_length(AsyncMock(), None)
            raise failure

        monkeypatch.setattr(aiohttp.ClientSession, "_request", send)
        retry = RetryPolicy(first_pause_seconds=0)
        async with client_at("https://gateway.example", retry=retry) as gateway:
            result = await gateway.refund(refunds(1))
        assert (result.requests, result.retries) == ((1, 0) if writes else (0, 3))
        assert result.counts[OutcomeStatus.UNKNOWN if writes else OutcomeStatus.NOT_SENT] == 1
        error = result[0].error
        assert isinstance(error, OutcomeUnknownError if writes else NotSentError)
        assert isinstance(error, ReplyUnreadableError) is (writes and failure in UNREADABLE)
        assert "quoted" not in str(error)
        link: BaseException | None = error
        while link is not None:  # none carries a frame of aiohttp's
            assert link.__traceback__ is None
            link = link.__cause__ or link.__context__


# What is repeated, how often, and after which pause


FAILURES: dict[str, tuple[GatewayError | HttpResponse, bool, bool]] = {
    "not sent": (NotSentError(), True, True),
    "a wrong certificate": (CertificateError(), False, False),
    "unknown": (OutcomeUnknownError(), True, False),
    "unreadable": (ReplyUnreadableError(), True, False),
    "too large": (ReplyTooLargeError(), False, False),
    "a reply to nothing": (EvidenceError(), True, False),
    **{
        f"HTTP {status}": (HttpResponse(status, {}, b'{"return_status": "1"}'), True, False)
        for status in (201, 302, 404, 429, 503)
    },
}
"""What goes wrong, and whether reads and what moves money are tried again after it."""
READS = ("query", "recent_transactions", "recent_refunds", "repeatable call")
CALLS: dict[str, Callable[[GatewayClient], Awaitable[Any]]] = {
    **SINGLES,
    "query": lambda gateway: gateway.query(references(1)),
    "refund": lambda gateway: gateway.refund(refunds(1)),
    "repeatable call": lambda gateway: gateway.call("/v1/payout", {}, repeatable=True),
}


@pytest.mark.parametrize("call", CALLS)
async def test_what_is_tried_again(call: str) -> None:
    """Payouts are like reads where the gateway deduplicates them, and like refunds elsewhere."""
    for (failure, row), deduplicates in itertools.product(FAILURES.items(), (True, False)):
        failing, if_read, if_money = row
        transport = MemoryTransport(_Failing(failing, 1000))
        dialect = Dialect(payout_deduplicates=deduplicates)
        with contextlib.suppress(GatewayError):
            await CALLS[call](client_over(transport, retry=QUICK, dialect=dialect))
        reads = call in READS or (call.startswith("payout") and deduplicates)
        assert len(transport.asked) == 1 + (if_read if reads else if_money), (failure, deduplicates)


# On virtual time


class _Failing:
    """Fails so often in one way, then does everything; notes when it was asked."""

    def __init__(self, failure: HttpResponse | GatewayError, times: int) -> None:
        self.at: list[float] = []
        self._failure = failure
        self._times = times

    def __call__(self, asked: Asked) -> Any:
        self.at.append(asyncio.get_running_loop().time())
        if len(self.at) > self._times:
            return asked.done()
        if isinstance(self._failure, GatewayError):
            raise self._failure
        return self._failure


async def _query(handler: _Failing, **settings: Any) -> Any:
    gateway = client_over(handler, **settings)
    return await gateway.query([OrderRef(transaction_id="T1")])


def test_pauses_are_below_a_bound_that_doubles_to_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[float] = []

    def uniform(low: float, high: float) -> float:
        assert low == 0
        drawn.append(high)
        return high

    monkeypatch.setattr(random, "uniform", uniform)
    failing = _Failing(HttpResponse(500, {}, b""), 1000)
    retry = RetryPolicy(attempts=6, first_pause_seconds=1, max_pause_seconds=5)
    _, passed = on_virtual_time(_query(failing, retry=retry))
    assert drawn[:5] == [1, 2, 4, 5, 5]
    assert passed == pytest.approx(17)
    assert failing.at == pytest.approx([0, 1, 3, 7, 12, 17])


@pytest.mark.parametrize(("headers", "pause"), [({"Retry-After": "25"}, 0), ({}, 25)])
def test_a_batch_that_is_left_ends_in_a_pause(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], pause: float
) -> None:
    monkeypatch.setattr(random, "uniform", lambda _, high: high)
    failing = _Failing(HttpResponse(503, headers, b""), 1000)
    retry = RetryPolicy(first_pause_seconds=pause, max_pause_seconds=25)

    async def leave() -> None:
        gateway = client_over(failing, retry=retry)
        async with gateway.query([OrderRef(transaction_id="T1")]):
            await asyncio.sleep(10)

    _, passed = on_virtual_time(leave())
    assert passed == pytest.approx(10)
    assert failing.at == [0]


NO_PAUSES = ("0", "-5", "soon", "", "1.5", "1 2", "٣", "Sun, 99 Nov 1994")
RETRY_AFTER: dict[str, float] = {
    **dict.fromkeys(NO_PAUSES, 0),
    "7": 7,
    "3600": 30,
    "9" * 400: 30,
    "Thu, 01 Jan 1970 00:00:01 GMT": 0,
    "Thursday, 01-Jan-70 00:00:01 GMT": 0,
    "Sun, 06 Nov 2994 08:49:37 GMT": 30,
    **{f"{formatdate(1020)[:-5]}{zone}".strip(): 20 for zone in ("GMT", "-0000", "")},
}


@pytest.mark.usefixtures("in_new_york")
def test_retry_after_is_honoured_up_to_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A date is in UTC, wherever it is read."""
    retry = RetryPolicy(first_pause_seconds=0, max_pause_seconds=30)
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    passed = {}
    for header in RETRY_AFTER:
        failing = _Failing(HttpResponse(503, {"Retry-After": header}, b""), 1)
        _, passed[header] = on_virtual_time(_query(failing, retry=retry))
    assert passed == pytest.approx(RETRY_AFTER)


@pytest.mark.parametrize(
    ("total", "deadline", "limiter", "at"),
    [
        (60, None, 0, [0, 25, 50]),
        (120, 60, 0, [0, 25, 50]),
        (120, 20, 0, [0]),
        (60, None, 1000, [1000]),  # it begins once the limiter lets the first through
    ],
)
def test_no_attempt_begins_after_the_time_is_over(
    total: float, deadline: float | None, limiter: float, at: list[float]
) -> None:
    failing = _Failing(HttpResponse(503, {"Retry-After": "25"}, b""), 1000)
    turns: list[tuple[str, float]] = []  # what the limiter lets in and out, and when

    async def wait(_: int) -> None:
        await asyncio.sleep(limiter)
        turns.append(("in", asyncio.get_running_loop().time()))

    def leave(_: int) -> None:
        turns.append(("out", asyncio.get_running_loop().time()))

    settings: dict[str, Any] = {
        "retry": RetryPolicy(attempts=10, first_pause_seconds=0),
        "limiter": Limiter(wait, leave),
        "timeouts": Timeouts(total_seconds=total),
        "policy": BatchPolicy(deadline_seconds=deadline),
    }
    result, _ = on_virtual_time(_query(failing, **settings))
    assert failing.at == pytest.approx(at)
    expected: list[Any] = [(step, pytest.approx(when)) for when in at for step in ("in", "out")]
    assert turns[: 2 * len(at)] == expected  # a pause takes no place of it
    (outcome,) = result.unknown
    assert getattr(outcome.error, "retry_after_seconds", None) == 25


# What others raise beside the reply

RAISED: list[GatewayError] = [
    *(error for error, _, _ in FAILURES.values() if isinstance(error, GatewayError)),
    ConfigurationError(),
    InvalidOrderError(),
    RejectedError(),
    ReplyStatusError(status=429),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("at_exit", [True, False])
async def test_errors_beside_a_request_are_no_proof(error: GatewayError, at_exit: bool) -> None:
    """Before it is sent, an error declines nothing; behind the reply, the reply counts."""
    transport = MemoryTransport()
    fail = raising(error, at=1)
    limiter = Limiter(leave=fail) if at_exit else Limiter(enter=fail)
    retry = RetryPolicy(attempts=3 if at_exit else 1, first_pause_seconds=0)
    result = await client_over(transport, limiter=limiter, retry=retry).refund(refunds(2))
    assert len(transport.asked) == result.requests == at_exit
    # Only a reply to nothing is an EvidenceError, and that is a defect.
    is_unknown = isinstance(error, EvidenceError)
    before = OutcomeStatus.UNKNOWN if is_unknown else OutcomeStatus.NOT_SENT
    expected = OutcomeStatus.SUCCEEDED if at_exit else before
    assert [outcome.status for outcome in result] == [expected] * 2
    assert all(each.error is None for each in result) == at_exit


async def test_a_payment_whose_reply_came_is_returned_whatever_its_limiter_raises() -> None:
    for error in (NotSentError(), LookupError("broke")):
        limiter = Limiter(leave=raising(error, at=1))
        result = await client_over(limiter=limiter).payout(payout_request())
        assert result.request_id == payout_request().request_id


FIELDS = {"b": "2", "a": "ä", "encryption_data": "old"}


def _hmac(message: str, digest: str = "sha256") -> str:
    return hmac.new(b"s3cret", message.encode(), digest).hexdigest()


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({}, _hmac("a=ä&b=2")),
    ({"uppercase": True}, _hmac("a=ä&b=2").upper()),
    ({"digest": "sha512"}, _hmac("a=ä&b=2", "sha512")),
    ({"joiner": "|"}, _hmac("a=ä|b=2")),
    ({"template": "{value}"}, _hmac("ä&2")),
    ({"template": "{name}:{value};"}, _hmac("a:ä;&b:2;")),
    ({"excluded": ["b", "encryption_data"]}, _hmac("a=ä")),
    ({"excluded": ()}, _hmac("a=ä&b=2&encryption_data=old")),
]


def test_the_stand_in_is_configurable() -> None:
    for options, expected in OPTIONS:
        signer = HmacSigner("s3cret", **options)
        same = attrs.evolve(HmacSigner("s3cret"), **options), HmacSigner(signer.secret, **options)
        for one in (signer, *same):
            assert one.sign(REFUND, FIELDS) == expected


def _raises(_: Operation, fields: Mapping[str, str]) -> str:
    raise LookupError(f"no key for {dict(fields)}")


FAILING: list[tuple[Any, str]] = [
    (_raises, r"the signer raised LookupError at .*test_attempts.py:\d+"),
    (lambda *_: None, "must return text that UTF-8 can carry, not NoneType"),
    (lambda *_: b"x", "must return text that UTF-8 can carry, not bytes"),
    (lambda *_: " ", "must return text that UTF-8 can carry, not an empty one"),
]


async def test_a_signer_that_fails_means_not_sent_and_stops_at_once() -> None:
    for signer, text in FAILING:
        transport = MemoryTransport()
        result = await client_over(transport, signer=signer).refund(refunds(300))
        assert transport.asked == []
        assert result.counts[OutcomeStatus.NOT_SENT] == 300
        error = result[0].error
        assert isinstance(error, ConfigurationError)
        assert re.search(text, str(error))
        assert "T000001" not in str(error)
        assert error.__cause__ is error.__context__ is None


@pytest.mark.parametrize("answer", [True, False, LookupError("s3cret")])
async def test_only_signed_replies_are_verified_and_a_wrong_one_is_no_proof(answer: Any) -> None:
    for signature in (None, "", "null", "theirs"):
        signer = Verifier(answer)
        client = client_over(partial(Asked.done, encryption_data=signature), signer=signer)
        result = await client.refund(refunds(1))
        assert [asked for _, asked in signer.asked] == ([signature] if signature else [])
        for fields, _ in signer.asked:
            assert json.loads(fields["refund_orders"])[0]["transaction_id"] == "T000000"
        if answer is True or not signature:
            assert result.ok
            continue
        assert result.counts[OutcomeStatus.UNKNOWN] == 1
        assert isinstance(result[0].error, ReplyUnreadableError)
        assert "s3cret" not in str(result[0].error)


DEEP = f'{{"return_status": "1", "x": {"[" * 1010}{"]" * 1010}, "encryption_data": "theirs"}}'
NAMED = '{"name": "Grüße", "encryption_data": "theirs"}'.encode("latin-1")
XML = (
    "<?xml version='1.0' encoding='{}'?><respon><order_status>1</order_status>"
    "<encryption_data>theirs</encryption_data></respon>"
)
SIGNED: list[tuple[str, bytes]] = [
    *(("xml", XML.format(encoding).encode(encoding)) for encoding in ("utf-8", "utf-16", "gbk")),
    ("json", DEEP.encode()),  # how deep is too deep depends on the Python
    *((reply, NAMED) for reply in ("json", "text")),  # in a charset that only the header names
]


@pytest.mark.parametrize(("reply", "body"), SIGNED)
async def test_no_encoding_hides_a_signature(reply: Any, body: bytes) -> None:
    headers = {"Content-Type": "text/plain; charset=iso-8859-1"} if body is NAMED else {}
    transport = MemoryTransport(lambda _: HttpResponse(200, headers, body))
    gateway = client_over(transport, signer=Verifier(answer=False))
    with pytest.raises(ReplyUnreadableError, match=r"too deep|signature is not right"):
        await gateway.call("/v1/refund", {}, reply=reply)
    transport.handler = lambda _: b"<p>paid</p>"  # which has none
    assert (await gateway.call("/v1/checkout", {}, reply="text")).data == "<p>paid</p>"


async def test_the_stand_in_checks_replies_only_if_asked_to() -> None:
    """That it takes the right ones, calls over HTTP show."""
    for checks, expected in ((True, OutcomeStatus.UNKNOWN), (False, OutcomeStatus.SUCCEEDED)):
        signer = HmacSigner("s3cret", check_replies=checks)
        client = client_over(lambda asked: asked.done(encryption_data="wrong"), signer=signer)
        (outcome,) = await client.refund(refunds(1))
        assert outcome.status is expected
