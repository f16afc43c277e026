"""What a reply costs grows with its size, counted in calls, which no busy machine changes."""

import json
import re
import sys
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import gateway_async
from tests.memory import Asked, MemoryTransport, client_over
from tests.orders import refunds

PACKAGE = str(Path(gateway_async.__file__).parent)


async def test_a_reply_takes_a_time_in_proportion_to_its_size() -> None:
    """One object of it has many values of one name, all different."""

    async def calls(size: int) -> int:
        heard = 0

        def hear(frame: FrameType, event: str, _: object) -> None:
            nonlocal heard
            is_ours = frame.f_code.co_filename.startswith(PACKAGE)
            heard += is_ours and event in ("call", "c_call")

        body = b"{%s}" % b",".join(b'"a":%d' % number for number in range(size))
        client = client_over(MemoryTransport(lambda _: body))
        await client.refund(refunds(1))  # what is compiled at first use
        sys.setprofile(hear)
        try:
            await client.refund(refunds(1))
        finally:
            sys.setprofile(None)
        return heard

    assert 0 < await calls(4000) < 3 * await calls(2000)


@pytest.mark.parametrize("piece", [b"<a> </a>", b"<a><b> </b>", b"<a>", b" ", b"<a> <b> </b> <c>"])
async def test_a_reply_in_xml_takes_a_time_in_proportion_to_its_size(piece: bytes) -> None:
    """In the square of its size, this would hang."""
    body = b"<respon>" + piece * (60_000 // len(piece)) + b"<respon>"
    client = client_over(MemoryTransport(lambda _: body))
    with pytest.raises(gateway_async.ReplyUnreadableError):
        await client.call("/v1/authorise", {}, reply="xml")


async def test_no_pattern_grows_with_what_stands_around_the_list_of_a_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pattern of a megabyte takes a second to compile, in which nothing else runs."""
    sizes, compiled = list[int](), re.compile

    def noted(pattern: Any, *flags: Any) -> Any:
        sizes.append(len(pattern))
        return compiled(pattern, *flags)

    def answer(padding: int, asked: Asked) -> bytes:
        return json.dumps(asked.done(note="x" * padding)).encode() + b" " * padding

    monkeypatch.setattr(re, "compile", noted)
    for padding in (10, 1_000_000):
        client = client_over(MemoryTransport(partial(answer, padding)))
        assert (await client.refund(refunds(3))).ok
    assert 0 < max(sizes) < 10_000
