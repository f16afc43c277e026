"""A server of hostile replies, which knows nothing but sockets: it is to start quickly.

`python -m tests.faults.bombs` prints its port. The first part of a request's path names the bomb;
`small` is a small reply. It ends when its input does.
"""

import asyncio
import sys
import zlib
from collections.abc import Callable, Iterator

MIB = 1024 * 1024
_OK = b"HTTP/1.1 200 OK\r\n"
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"


def _small() -> Iterator[bytes]:
    yield _OK + b"Content-Length: 2\r\nConnection: close\r\n\r\n[]"


def _huge() -> Iterator[bytes]:
    """300 MB that say how long they are."""
    yield _OK + b"Content-Length: 300000000\r\n\r\n{"
    for _ in range(300):
        yield b" " * 1_000_000


def _endless_chunk() -> Iterator[bytes]:
    yield _OK + b"Transfer-Encoding: chunked\r\n\r\n11E1A300\r\n{"
    for _ in range(300):
        yield b" " * 1_000_000


def _small_chunks() -> Iterator[bytes]:
    yield _OK + b"Transfer-Encoding: chunked\r\n\r\n"
    for _ in range(300):
        yield b"10\r\n{               \r\n" * 10_000


def _packed(encoding: bytes, header: bytes) -> Iterator[bytes]:
    """10 MB that unpack to 10 GB, as fast as they can be sent."""
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(b" " * 16 * MIB) + packer.flush(zlib.Z_FULL_FLUSH)
    yield _OK + b"Content-Encoding: " + encoding + b"\r\nContent-Length: 10000000\r\n\r\n" + header
    batch = block * 8
    for _ in range(10_000_000 // len(batch)):
        yield batch


def _gzip() -> Iterator[bytes]:
    return _packed(b"gzip", _GZIP_HEADER)


def _deflate() -> Iterator[bytes]:
    return _packed(b"deflate", b"\x78\xda")


def _headers() -> Iterator[bytes]:
    """Headers without end, each of a fair size."""
    yield _OK
    for number in range(40_000):
        yield b"X-%d: " % number + b"x" * 7_000 + b"\r\n"


def _header() -> Iterator[bytes]:
    """One header without end."""
    yield _OK + b"X: "
    for _ in range(300):
        yield b"x" * 1_000_000


def _entities() -> Iterator[bytes]:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    body = f'<!DOCTYPE respon [<!ENTITY e0 "entity">{levels}]><respon><a>&e9;</a></respon>'
    yield _OK + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body.encode()


BOMBS: dict[str, Callable[[], Iterator[bytes]]] = {
    "small": _small,
    "huge": _huge,
    "endless-chunk": _endless_chunk,
    "small-chunks": _small_chunks,
    "gzip": _gzip,
    "deflate": _deflate,
    "headers": _headers,
    "header": _header,
    "entities": _entities,
}


async def serve_bombs() -> None:
    """Serve until the input of this process ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            for piece in BOMBS[head.split(b"/")[1].decode()]():
                writer.write(piece)
                await writer.drain()
        except OSError:
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201  # its output is its answer
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve_bombs())
