"""`check`: look whether the gateway can be reached and is understood, before money moves."""

import asyncio
import os
import tempfile
from functools import partial
from pathlib import Path

import attrs

from gateway_async.cli.check import GatewayCheck, exit_code
from gateway_async.cli.console import Console, print_json, standard_output
from gateway_async.cli.options import ConsoleArgument, GatewayOptions
from gateway_async.cli.questions import write_config
from gateway_async.cli.run import RefusedError
from gateway_async.errors import ConfigurationError
from gateway_async.models.orders import OrderRef


def check(  # noqa: PLR0913  # one keyword an option
    *,
    order_no: str | None = None,
    transaction_id: str | None = None,
    write: Path | None = None,
    yes: bool = False,
    json: bool = False,
    gateway: GatewayOptions = GatewayOptions(),
    console: ConsoleArgument,
) -> int:
    """Look whether the gateway can be reached and is understood. It never moves money.

    It connects, makes both look-ups, and prints what it saw and what to do: address, connection,
    TLS, proxy, reply, time, credentials, signature, registered address. Then it prints a
    config.toml in which each open question of the interface stands with its default.

    Example: gateway-async check --order-no A-1 --write config.toml

    Exit codes: 0, all works; 1, something was refused, or does not fit the settings; 2, the
    command or a setting is wrong; 3, no reply came that can be read.

    Args:
        order_no: An order that the gateway knows: shows how it and its refunds look, and which
            fields of the dialect do not fit.
        transaction_id: The same, by the gateway's identifier.
        write: The file for the config.toml, in place of printing it; only you can read it.
        yes: Do not ask before that file is replaced.
        json: Print one JSON object: exit_code, findings and config.
    """
    given = {"order_no": order_no, "transaction_id": transaction_id}
    settings = gateway.settings()
    credentials = settings.credentials(os.environ, console.warn)
    refs = [OrderRef(**{name: value}) for name, value in given.items() if value is not None]
    if write is not None:
        _allow(write, console, yes=yes)
    findings = asyncio.run(GatewayCheck(settings=settings, credentials=credentials).run(refs))
    config, code = write_config(settings), exit_code(findings)
    if write is not None:
        _write(write, config)
    if json:
        shown = [attrs.asdict(one) for one in findings]
        print_json({"exit_code": code, "findings": shown, "config": config})
    else:
        out = partial(standard_output().print, soft_wrap=True)
        for one in findings:
            out(f"{one.status:<8} {one.check}: {one.seen}")
            if one.advice:
                out(f"         -> {one.advice}")
        if write is None:
            out(f"\n{config}", end="")
    if write is not None:
        console.tell("written", f"{write} is written", path=write)
    return code


def _allow(path: Path, console: Console, *, yes: bool) -> None:
    """Ask before a file is replaced.

    Raises:
        RefusedError: If the answer is no, or there is no terminal to ask at.
    """
    if yes or not path.exists():
        return
    if not console.can_ask:
        raise RefusedError(f"--write: {path} exists; give --yes to replace it, or another name")
    if not console.ask(f"{path} exists. Replace it?"):
        raise RefusedError(f"--write: {path} was left as it is")


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  # a descriptor
            file.write(text)
        Path(name).replace(path)
    except OSError as error:
        raise ConfigurationError(f"--write: cannot write {path}: {error.strerror}") from None
