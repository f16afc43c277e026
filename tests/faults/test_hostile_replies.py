"""Replies made to do harm: refused, and memory does not grow with them."""

import asyncio
import zlib
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from gateway_async.sandbox import faults
from tests.faults.trial import Trial, error_of, status_of
from tests.support.books import UNKNOWN
from tests.support.servers import read_message, serving

MIB = 1024 * 1024
MOST_GROWTH = 16 * MIB
OK = b"HTTP/1.1 200 OK\r\n"
SPACES = b" " * MIB
_packer = zlib.compressobj(9, wbits=-15)
PACKED = 8 * (_packer.compress(SPACES * 16) + _packer.flush(zlib.Z_FULL_FLUSH))
LEVELS = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
ENTITIES = f'<!DOCTYPE respon [<!ENTITY e0 "entity">{LEVELS}]><respon><a>&e9;</a></respon>'.encode()
# Each row: the head of a reply, and what follows it how often; about 300 MB, or 10 MB packed.
BOMBS: dict[str, tuple[bytes, bytes, int]] = {
    "huge": (b"Content-Length: 400000000\r\n\r\n{", SPACES, 300),
    "endless chunk": (b"Transfer-Encoding: chunked\r\n\r\n1FFFFFFF\r\n{", SPACES, 300),
    "small chunks": (
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"10\r\n{               \r\n" * 10_000,
        300,
    ),
    "gzip": (
        b"Content-Encoding: gzip\r\nContent-Length: 20000000\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\x03",
        PACKED,
        20_000_000 // len(PACKED),
    ),
    "deflate": (
        b"Content-Encoding: deflate\r\nContent-Length: 20000000\r\n\r\n\x78\xda",
        PACKED,
        20_000_000 // len(PACKED),
    ),
    "headers": (b"", b"X: " + b"x" * 7_000 + b"\r\n", 40_000),
    "header": (b"X: ", b"x" * MIB, 300),
    "entities": (b"Content-Length: %d\r\n\r\n" % len(ENTITIES), ENTITIES, 1),
}
REFUSED_AS = dict.fromkeys(("headers", "header", "entities"), "ReplyUnreadableError")


@pytest.mark.parametrize("fault", [faults.HugeReply(MIB), faults.GzipBomb(MIB)])
async def test_a_reply_of_just_the_limit_is_read(trial: Trial, fault: faults.Fault) -> None:
    trial.sandbox.faults.add(trial.operation, fault)
    assert (await trial.run(max_reply_bytes=MIB)).ok


def peak_bytes(*, forget: bool = False) -> int:
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measured through /proc")
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

    async with serving(explode) as url, ClientSession(read_bufsize=64 * MIB) as session:
        given: list[dict[str, Any]] = [{}, {"session": session}]
        for settings in given:
            await trial.run(url, max_reply_bytes=1, **settings)
            before = peak_bytes(forget=True)
            result = await trial.run(url, max_reply_bytes=MIB, **settings)
            assert peak_bytes() - before < MOST_GROWTH
            assert status_of(result) is UNKNOWN
            assert type(error_of(result)).__name__ == REFUSED_AS.get(bomb, "ReplyTooLargeError")
