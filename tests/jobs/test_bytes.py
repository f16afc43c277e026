"""Nothing secret gets into the journal, whatever the gateway says."""

from pathlib import Path
from typing import Any

from gateway_async import Dialect
from gateway_async.journal import Journal
from tests.jobs.books import kept
from tests.journal.tables import Tables
from tests.memory import Asked, MemoryTransport, client_over
from tests.orders import refunds

CARD = "4111111111111111"
SIGNATURE = f"s3cret-of-the-signer-{'c2lnbmVk' * 8}"
TEXTS = (f"E1:card {CARD} was declined", f"E1:{SIGNATURE} is not right", "E1:a\0b\ud800")


def _echoing(asked: Asked) -> Any:
    """Answer half of the refunds as done, decline the others, and say too much of each."""
    reply = asked.done(encryption_data=SIGNATURE, card=CARD)
    if asked.operation.name == "search_refunds":  # earlier refunds, unlike those of the job
        for item in reply["refund_orders"]:
            item["refund_amount"] = "0.01"
    if asked.operation.name == "refund":
        for number, item in enumerate(reply["refund_orders"]):
            secrets = {"card": CARD, "encryption_data": SIGNATURE}
            item |= {**secrets, "refund_reference_id": f"R{number}"}
            if number % 2:
                item |= {"refund_status": "0", "refund_message": TEXTS[number % len(TEXTS)]}
    return reply


async def test_neither_card_nor_secret_nor_signature_is_kept(
    journal: Journal, url: str, tables: Tables
) -> None:
    dialect = Dialect(declined_statuses={"0"})
    gateway = client_over(MemoryTransport(_echoing), signer=lambda *_: SIGNATURE, dialect=dialect)
    result = await gateway.refund(refunds(60), job=journal.job("job"))
    assert len(result.declined) == 30
    errors: list[Any] = [outcome.error for outcome in await kept(journal) if outcome.error]
    assert {error.code for error in errors} == {"E1"}
    assert {"*** is not right", "a\ufffdb\ufffd"} < {str(error) for error in errors}
    known = repr(tables.snapshot()).encode()
    if url.startswith("sqlite"):
        file = Path(url.removeprefix("sqlite:///"))
        known = b"".join(part.read_bytes() for part in file.parent.glob(f"{file.name}*"))
    assert b"T000001" in known
    assert b"E1" in known
    for secret in (CARD, SIGNATURE, "s3cret"):
        assert secret.encode() not in known
