"""What commands have in common that only look into a journal, or decide on what is in it."""

import asyncio
import os
from typing import TYPE_CHECKING

from gateway_async.cli.commands.common import guarded
from gateway_async.cli.options import GatewayOptions, JournalOptions, open_journal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway_async.cli.settings import Settings
    from gateway_async.cli.talk import Talk
    from gateway_async.journal import Journal


def on_journal(
    gateway: GatewayOptions | None,
    journal: JournalOptions | None,
    work: "Callable[[Journal, Talk], Awaitable[int]]",
) -> int:
    """Open a journal that is there, do something with it, and return the exit code."""
    who = gateway or GatewayOptions()
    talk = who.talk()

    async def opened(settings: "Settings") -> int:
        async with open_journal(settings, create=False) as found:
            return await work(found, talk)

    def run() -> int:
        settings = who.settings(os.environ, journal=(journal or JournalOptions()).checked())
        return asyncio.run(opened(settings))

    return guarded(talk, run)
