"""Exchanges that break off, take another shape of HTTP, last too long, or are made to do harm.

A look-up is repeated; money is `unknown` and sent once, unless the reply is the right one.
"""

import asyncio
import zlib
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import attrs
import pytest

from gateway_async import (
    ConfigurationError,
    OutcomeUnknownError,
    ReplyTooLargeError,
    ReplyUnreadableError,
    Timeouts,
)
from gateway_async.sandbox import faults
from tests.faults.conftest import ATTEMPTS, Trial, error_of, status_of
from tests.support.books import SUCCEEDED, UNKNOWN, statuses
from tests.support.clock import BEYOND, PATIENT, Clock
from tests.support.orders import client_at
from tests.support.servers import PLACES, End, Proxy, Trouble, cut, read_message, serving

ANYWHERE = [lambda message, at=at: len(message) * at // 100 for at in range(0, 100, 9)]
BREAKS: tuple[End, ...] = ("reset", "close")
SILENT = ("before its first byte", "between headers and body", "before its last byte")
# Each row: what happens, and how often each order is carried out when it happens once.
ONCE: list[tuple[Trouble, int]] = [
    *((Trouble(place, end=end), 0) for place in PLACES.values() for end in BREAKS),
    *((Trouble(said=cut(place), end=end), 1) for place in ANYWHERE for end in BREAKS),
    *((Trouble(said=cut(PLACES[place]), end="silence"), 1) for place in SILENT),
]


async def test_an_exchange_that_breaks_off_once(trial: Trial, proxy: Proxy, clock: Clock) -> None:
    proxy.on_silence = clock.advance
    limits = attrs.evolve(PATIENT, connect_seconds=600)  # a silence ends before a connection would
    for trouble, effects in ONCE:
        before, known = proxy.requests, trial.requests
        proxy.troubles.append(trouble)
        result = await trial.run(proxy.base_url, timeouts=limits)
        assert status_of(result) is trial.by_kind(read=SUCCEEDED, money=UNKNOWN), trouble
        assert proxy.requests - before == result.requests == trial.by_kind(read=2, money=1)
        assert result.retries == trial.by_kind(read=1, money=0)
        assert trial.requests - known == result.retries + effects
        assert trial.reads or set(trial.effects) == {effects}
        is_late = trouble.end == "silence" and not trial.reads
        assert ("reply_seconds=60" in str(result[0].error)) is is_late


STATUS_LINES = [
    *(b"HTTP/1.1 200 OK", b"HTTP/1.0 200 OK", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\n", b""),
    *(b"HTTP/1.1 1000 High", b"HTTP/9.9 200 OK", b"HTTP/1.1 200 \xff\xfe", b"SSH-2.0-OpenSSH"),
    *(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK", b"HTTP/1.1 204 No Content"),
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket",
]
HEADERS = [
    *(b"Content-Length: " + said for said in (b"-1", b"5", b"1_0", b"9" * 23, b"\xd9\xa3")),
    *(b"Transfer-Encoding: " + said for said in (b"chunked", b"gzip, chunked", b"nonsense")),
    *(b"Content-Encoding: " + said for said in (b"gzip", b"deflate", b"br", b"zstd", b"nonsense")),
    *(b"Content-Type: \xff", b"Set-Cookie: a=b; Expires=never; Domain=..; Path", b"Nul: \x00"),
    *(b"Connection: upgrade", b"No-Colon", b": no name", b"Folded: one\r\n two"),
]


def _spoilt(random: Random, reply: bytes) -> bytes:
    """Return a reply with another head, some bytes of which are changed; or any bytes."""
    if random.random() < 0.1:
        return random.randbytes(80)
    headers = random.choices(HEADERS, k=random.randint(0, 3))
    head, body = bytearray(), reply.partition(b"\r\n")[2]
    head += b"\r\n".join([random.choice(STATUS_LINES), *headers, b""])
    for _ in range(random.choice((0, 0, 3))):
        head[random.randrange(len(head))] = random.randrange(256)
    return bytes(head) + body


@pytest.mark.usefixtures("clock")
async def test_any_bytes_come_to_outcomes(trial: Trial, proxy: Proxy) -> None:
    """No exception of aiohttp's passes, and no money is moved twice: `Trial` sees to it."""
    proxy.always = Trouble(said=partial(_spoilt, Random(1)), end="close")
    seen = {status_of(await trial.run(proxy.base_url)) for _ in range(25)}
    assert seen == {SUCCEEDED, UNKNOWN}


@pytest.mark.parametrize("status", [301, 303, 307, 308])
async def test_a_redirect_is_not_followed_by_one_byte(trial: Trial, status: int) -> None:
    """By a session of the caller's, which would follow it, as by our own."""
    connections = 0

    async def note(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1

    async with serving(note) as elsewhere, aiohttp.ClientSession() as session:
        to = "" if status == 301 else elsewhere  # or to the gateway itself
        trial.sandbox.faults.add(trial.operation, faults.Redirect(f"{to}/v1/capture", status))
        for given in (None, session):
            result = await trial.run(session=given)
            assert (status_of(result), connections) == (UNKNOWN, 0)
            assert f"HTTP {status}" in str(result[0].error)
            assert "redirects are not followed" in str(result[0].error)
            assert getattr(result[0].error, "status", None) == status
    assert trial.sandbox.requests.total() == 2 * trial.by_kind(read=ATTEMPTS, money=1)


# The time limits of a request: each ends the request alone, and swallows no cancellation


async def test_a_reply_that_drips_beyond_the_total_time_is_not_asked_for_again(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pause is short enough, and together they are too long."""
    read, waits, requests = aiohttp.StreamReader.readany, asyncio.Event(), 0

    async def noted(stream: aiohttp.StreamReader) -> bytes:
        waits.set()
        return await read(stream)

    async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        await read_message(reader)
        requests += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")
        while await waits.wait():
            waits.clear()
            clock.advance(30)
            writer.write(b"x")

    monkeypatch.setattr(aiohttp.StreamReader, "readany", noted)
    limits = Timeouts(connect_seconds=60, reply_seconds=60, total_seconds=600)
    async with serving(drips) as url, client_at(url, timeouts=limits) as gateway:
        with pytest.raises(OutcomeUnknownError, match="the time for this call was over"):
            await gateway.call("/v1/x", {}, repeatable=True)
    assert requests == 1


@pytest.mark.parametrize("is_written", [False, True])
async def test_a_body_that_is_written_and_a_loop_that_stands_still_are_no_silence(
    clock: Clock, is_written: bool
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_written:
            clock.advance()
            for _ in range(20):
                await asyncio.sleep(0)
        await read_message(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        if not is_written:
            clock.advance()

    fields = {"text": "x" * 16 * MIB if is_written else ""}
    async with serving(answer) as url, client_at(url, timeouts=PATIENT) as gateway:
        assert (await gateway.call("/v1/x", fields, reply="text")).data == "ok"


@pytest.mark.parametrize("is_before", [True, False])
async def test_a_cancellation_in_the_same_turn_of_the_loop_is_not_swallowed(
    clock: Clock, is_before: bool
) -> None:
    loop, has_come = asyncio.get_running_loop(), asyncio.Event()

    async def note(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_message(reader)
        has_come.set()
        await reader.read()

    async with serving(note) as url, client_at(url, timeouts=PATIENT) as gateway:
        task = asyncio.create_task(gateway.call("/v1/x", {}, repeatable=True))
        await has_come.wait()
        if is_before:  # what is ready is run before the timers that have come due
            loop.call_soon(task.cancel)
        else:
            loop.call_later(BEYOND - 0.5, task.cancel)
        clock.advance()
        await asyncio.wait([task])
    assert task.cancelled()
    assert task.cancelling() == 1


# A session of the caller's own changes nothing of what the client promises, and stays open


@pytest.mark.parametrize(
    "fault", [faults.GzipReply(), faults.DropReply(), faults.Status(500), faults.InvalidBody()]
)
async def test_the_settings_of_a_given_session_change_nothing(
    trial: Trial, fault: faults.Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login merchant password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    trial.sandbox.faults.add(trial.operation, fault)
    plain = await trial.run()
    before, used = trial.requests, list[object]()

    async def note(request: aiohttp.ClientRequest, handler: Any) -> aiohttp.ClientResponse:
        used.append(request)
        made: aiohttp.ClientResponse = await handler(request)
        return made

    async with aiohttp.ClientSession(
        base_url="http://127.0.0.1:1/elsewhere/",
        timeout=aiohttp.ClientTimeout(total=0.000001),
        headers={"Content-Type": "text/plain"},
        skip_auto_headers=["Content-Type", "User-Agent"],
        cookies={"a": "b"},
        version=aiohttp.HttpVersion10,
        read_bufsize=1,
        auto_decompress=False,
        raise_for_status=True,
        middlewares=(note,),
        trust_env=True,
        connector_owner=False,
    ) as session:
        other = await trial.run(session=session)
        assert not session.closed
        await session.connector.close()  # type: ignore[union-attr]  # it is open, so it has one
    assert statuses(other) == statuses(plain)
    assert type(other[0].error) is type(plain[0].error)
    assert (used, trial.requests) == ([], 2 * before)


class Rewriting(aiohttp.ClientRequest):
    """One that may send other bytes than it is given."""


@pytest.mark.filterwarnings("ignore:Inheritance class")
async def test_a_session_that_does_not_send_as_aiohttp_does_is_refused() -> None:
    repeating = type("Repeating", (aiohttp.ClientSession,), {"_request": print})
    async with repeating() as one, aiohttp.ClientSession(request_class=Rewriting) as other:
        for session in (one, other):
            with pytest.raises(ConfigurationError, match="no proof of what was sent"):
                client_at("http://127.0.0.1:1", session=session)


# Replies made to do harm: refused, and memory does not grow with them


MIB = 1024 * 1024
MOST_GROWTH = 16 * MIB
OK = b"HTTP/1.1 200 OK\r\n"
SPACES = b" " * MIB
_packer = zlib.compressobj(9, wbits=-15)
PACKED = 8 * (_packer.compress(SPACES * 16) + _packer.flush(zlib.Z_FULL_FLUSH))
LEVELS = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
ENTITIES = f'<!DOCTYPE respon [<!ENTITY e0 "entity">{LEVELS}]><respon><a>&e9;</a></respon>'.encode()
CHUNKED, LONG = b"Transfer-Encoding: chunked\r\n\r\n", b"Content-Length: 20000000\r\n\r\n"
MANY = 20_000_000 // len(PACKED)
# Each row: the head of a reply, and what follows it how often; about 300 MB, or 10 MB packed.
BOMBS: dict[str, tuple[bytes, bytes, int]] = {
    "huge": (b"Content-Length: 400000000\r\n\r\n{", SPACES, 300),
    "endless chunk": (CHUNKED + b"1FFFFFFF\r\n{", SPACES, 300),
    "small chunks": (CHUNKED, b"10\r\n{               \r\n" * 10_000, 300),
    "gzip": (b"Content-Encoding: gzip\r\n" + LONG + b"\x1f\x8b\x08\0\0\0\0\0\0\x03", PACKED, MANY),
    "deflate": (b"Content-Encoding: deflate\r\n" + LONG + b"\x78\xda", PACKED, MANY),
    "headers": (b"", b"X: " + b"x" * 7_000 + b"\r\n", 40_000),
    "header": (b"X: ", b"x" * MIB, 300),
    "entities": (b"Content-Length: %d\r\n\r\n" % len(ENTITIES), ENTITIES, 1),
}
REFUSED_AS = dict.fromkeys(("headers", "header", "entities"), ReplyUnreadableError)


@pytest.mark.parametrize("fault", [faults.HugeReply(MIB), faults.GzipBomb(MIB)])
async def test_a_reply_of_just_the_limit_is_read_and_any_above_it_refused(
    trial: Trial, fault: faults.Fault
) -> None:
    trial.sandbox.faults.add(trial.operation, fault)
    assert (await trial.run(max_reply_bytes=MIB)).ok
    trial.sandbox.faults.clear()
    error = error_of(await trial.run(max_reply_bytes=9))
    assert type(error) is ReplyTooLargeError


def peak_bytes(*, forget: bool = False) -> int:
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measured through /proc")
@pytest.mark.parametrize("trial", ["pay_direct"], indirect=True)
@pytest.mark.parametrize("bomb", BOMBS)
async def test_memory_does_not_grow_with_a_hostile_reply(trial: Trial, bomb: str) -> None:
    """By our own session, and by one whose buffer would take all of it in."""
    head, piece, times = BOMBS[bomb]

    async def explode(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(OK + head)
        for _ in range(times):
            writer.write(piece)
            await writer.drain()

    async with serving(explode) as url, aiohttp.ClientSession(read_bufsize=64 * MIB) as session:
        for given in (None, session):
            await trial.run(url, max_reply_bytes=1, session=given)
            before = peak_bytes(forget=True)
            result = await trial.run(url, max_reply_bytes=MIB, session=given)
            assert peak_bytes() - before < MOST_GROWTH
            assert type(error_of(result)) is REFUSED_AS.get(bomb, ReplyTooLargeError)
