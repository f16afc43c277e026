"""Nothing secret gets into the journal, whatever the gateway says."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway_async import Dialect
from gateway_async.journal import Journal
from gateway_async.transport import HttpResponse
from tests.jobs.books import kept
from tests.journal.tables import Tables
from tests.memory import Asked, MemoryTransport, client_over
from tests.orders import refunds

DIALECT = Dialect(declined_statuses={"0"})
CARD = "4111111111111111"
SECRET = "s3cret-of-the-signer"
SIGNATURE = "5160a7u4e-of-the-reply"
NAMES = ("jobs", "slices", "orders", "chunks", "payout_keys")


def _echoing(asked: Asked) -> Any:
    """Answer every second refund as done, decline the others, and say too much of each."""
    if asked.operation.name != "refund":
        return asked.done(encryption_data=SIGNATURE)
    reply = asked.done(encryption_data=SIGNATURE, card=CARD)
    for number, item in enumerate(reply["refund_orders"]):
        item |= {"card": CARD, "encryption_data": SIGNATURE, "refund_reference_id": f"R{number}"}
        if number % 2:
            item |= {"refund_status": "0", "refund_message": "E1:declined"}
    return HttpResponse(200, {"Content-Type": "application/json"}, json.dumps(reply).encode())


def _all_bytes(url: str) -> bytes:
    """Return all that the database holds: a file as it is, the tables as text."""
    if url.startswith("sqlite"):
        file = Path(url.removeprefix("sqlite:///"))
        return b"".join(part.read_bytes() for part in file.parent.glob(f"{file.name}*"))
    rows = [Tables(url).run(f"SELECT * FROM gateway_{name}") for name in NAMES]  # noqa: S608  # of this list
    return repr(rows).encode()


async def test_neither_card_nor_secret_nor_signature_is_kept(journal: Journal, url: str) -> None:
    transport = MemoryTransport(_echoing)
    async with client_over(transport, signer=_Signer(), dialect=DIALECT) as gateway:
        result = await gateway.refund(refunds(60), job=journal.job("job"))
    assert len(result.declined) == 30
    assert len(await kept(journal)) == 60
    assert transport.asked
    known = _all_bytes(url)
    assert b"T000001" in known
    assert b"E1" in known
    own = [json.loads(a.message.body)["encryption_data"] for a in transport.asked if _is_refund(a)]
    for secret in (CARD, SECRET, SIGNATURE, *own):
        assert secret.encode() not in known


def _is_refund(asked: Asked) -> bool:
    return asked.operation.name == "refund"


class _Signer:
    """Signs with what no other text can hold by chance."""

    def sign(self, operation: str, fields: Any) -> str:
        return f"{SECRET}-{operation}-{len(fields)}"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_text_that_names_a_card_is_masked_or_left_out(journal: Journal, url: str) -> None:
    def declining(asked: Asked) -> Any:
        reply = asked.done()
        for item in reply[str(asked.operation.list_field)]:
            if _is_refund(asked):
                item |= {"refund_status": "0", "refund_message": f"E1:card {CARD} was declined"}
        return reply

    async with client_over(MemoryTransport(declining), dialect=DIALECT) as gateway:
        result = await gateway.refund(refunds(3), job=journal.job("job"))
    assert len(result.declined) == 3
    assert CARD.encode() not in _all_bytes(url)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_text_that_quotes_the_signature_of_the_request_is_kept_without_it(
    journal: Journal, url: str
) -> None:
    signature = "c2lnbmVk" * 8

    class Signer:
        def sign(self, operation: str, fields: Any) -> str:
            del operation, fields
            return signature

    def declining(asked: Asked) -> Any:
        reply = asked.done(encryption_data=signature)
        for item in reply[str(asked.operation.list_field)]:
            if _is_refund(asked):
                text = f"E1:{signature} is not right"
                item |= {"refund_status": "0", "refund_message": text}
        body = json.dumps(reply)
        return HttpResponse(200, {"Content-Type": "application/json"}, body.encode())

    transport = MemoryTransport(declining)
    async with client_over(transport, signer=Signer(), dialect=DIALECT) as gateway:
        result = await gateway.refund(refunds(3), job=journal.job("job"))
    assert all("E1: *** is not right" in str(outcome.error) for outcome in result.declined)
    assert len(result.declined) == 3
    assert signature.encode() not in _all_bytes(url)
