"""How the faults that decide what becomes of a connection are performed."""

import asyncio
import socket
import struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from aiohttp import web

from gateway_async.sandbox import endings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from gateway_async.sandbox.app.server import Work
    from gateway_async.sandbox.messages import Reply

_RESET = struct.pack("ii", 1, 0)


async def _answer(work: "Work", _: object) -> web.StreamResponse:
    return _response(work.carry_out())


async def _drop(work: "Work", _: endings.DropReply) -> web.StreamResponse:
    work.carry_out()
    return _close(work.request)


async def _reset_before(work: "Work", _: endings.ResetBeforeEffect) -> web.StreamResponse:
    return _reset(work.request)


async def _reset_after(work: "Work", _: endings.ResetAfterEffect) -> web.StreamResponse:
    work.carry_out()
    return _reset(work.request)


async def _late_effect(work: "Work", ending: endings.LateEffect) -> web.StreamResponse:
    work.server.postpone(work, ending.seconds)
    return _close(work.request)


async def _instead(work: "Work", ending: endings.Instead) -> web.StreamResponse:
    if ending.after_effect:
        work.carry_out()
    return _response(ending.reply())


async def _no_reply(work: "Work", ending: endings.NoReply) -> web.StreamResponse:
    if ending.after_effect:
        work.carry_out()
    await work.server.until_closing(work.request)
    return _close(work.request)


async def _cut(work: "Work", ending: endings.CutReply) -> web.StreamResponse:
    response, reply = await _begin(work)
    await response.write(ending.sent(reply.body))
    _close(work.request)
    return response


async def _drip(work: "Work", ending: endings.Drip) -> web.StreamResponse:
    response, reply = await _begin(work)
    for start in range(0, len(reply.body), ending.piece_bytes):
        await response.write(reply.body[start : start + ending.piece_bytes])
        await asyncio.sleep(ending.pause_seconds)
    return response


async def _begin(work: "Work") -> "tuple[web.StreamResponse, Reply]":
    """Carry the work out and send the headers of its reply, which promise the whole body."""
    reply = work.carry_out()
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    response.content_length = len(reply.body)
    await response.prepare(work.request)
    return response, reply


async def _stream(work: "Work", ending: endings.Streamed) -> web.StreamResponse:
    reply = work.carry_out()
    headers = {**reply.headers, **ending.headers}
    response = web.StreamResponse(status=reply.status, headers=headers)
    await response.prepare(work.request)
    for piece in ending.pieces(reply.body):
        if piece:
            await response.write(piece)
        await asyncio.sleep(0)  # a write that fits the buffer gives nobody else a turn
    return response


_ENDINGS: "Mapping[type, Callable[[Work, Any], Awaitable[web.StreamResponse]]]" = MappingProxyType(
    {
        type(None): _answer,
        endings.DropReply: _drop,
        endings.ResetBeforeEffect: _reset_before,
        endings.ResetAfterEffect: _reset_after,
        endings.LateEffect: _late_effect,
        endings.NoReply: _no_reply,
        endings.CutReply: _cut,
        endings.Drip: _drip,
        endings.Instead: _instead,
        endings.Streamed: _stream,
        endings.Ending: _answer,
    }
)
"""How to perform a kind of ending; a kind below one of these is performed like it."""


async def perform(work: "Work") -> web.StreamResponse:
    """Carry a request out as its faults want it, and answer it."""
    ending = work.plan.ending
    kind = next(kind for kind in type(ending).__mro__ if kind in _ENDINGS)
    try:
        return await _ENDINGS[kind](work, ending)
    except ConnectionResetError:  # the client went while it was written to
        return _close(work.request)


def _response(reply: "Reply") -> web.Response:
    return web.Response(status=reply.status, headers=reply.headers, body=reply.body)


def _close(request: web.Request) -> web.Response:
    """Close the connection; what is returned is never sent."""
    if request.transport is not None:
        request.transport.close()
    return web.Response()


def _reset(request: web.Request) -> web.Response:
    """Reset the connection: no lingering, so that the peer gets an RST and no FIN."""
    transport = request.transport
    if transport is not None:
        bare = transport.get_extra_info("socket")
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.close()
    return web.Response()
