"""Nothing secret gets into the journal, whatever the gateway says."""

import json
from pathlib import Path
from typing import Any

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
SIGNATURE = f"{SECRET}-{'c2lnbmVk' * 8}"
NAMES = ("jobs", "slices", "orders", "chunks", "payout_keys")
TEXTS = (f"E1:card {CARD} was declined", f"E1:{SIGNATURE} is not right", "E1:a\0b\ud800")


class _Signer:
    """Signs every request alike, by what no other text can hold by chance."""

    def sign(self, operation: str, fields: Any) -> str:
        del operation, fields
        return SIGNATURE


def _echoing(asked: Asked) -> Any:
    """Answer half of the refunds as done, decline the others, and say too much of each."""
    if asked.operation.name != "refund":
        return asked.done(encryption_data=SIGNATURE)
    reply = asked.done(encryption_data=SIGNATURE, card=CARD)
    for number, item in enumerate(reply["refund_orders"]):
        item |= {"card": CARD, "encryption_data": SIGNATURE, "refund_reference_id": f"R{number}"}
        if number % 2:
            item |= {"refund_status": "0", "refund_message": TEXTS[number % len(TEXTS)]}
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
    errors: list[Any] = [outcome.error for outcome in await kept(journal) if outcome.error]
    said = {str(error) for error in errors}
    assert {error.code for error in errors} == {"E1"}
    assert {"*** is not right", "a\ufffdb\ufffd"} < said
    assert any("E1: *** is not right" in str(outcome.error) for outcome in result.declined)
    known = _all_bytes(url)
    assert b"T000001" in known
    assert b"E1" in known
    for secret in (CARD, SECRET, SIGNATURE):
        assert secret.encode() not in known
