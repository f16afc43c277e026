"""`check`: each fault at a real server on this machine, and what is found of records."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trustme

from gateway_async import Dialect, HmacSigner
from gateway_async.cli.check import QUESTIONS, Finding, describe_order, write_config
from gateway_async.cli.settings import Settings, read_settings
from gateway_async.errors import ReplyUnreadableError
from gateway_async.models.orders import OrderRef, OutcomeStatus
from gateway_async.models.records import RefundRecord, TransactionRecord
from gateway_async.sandbox.faults import IgnoreSelection, Status
from tests.cli.running import Ended, Shell
from tests.support.servers import Proxy, Trouble, tls_of, with_body

OWN = "registered address"
CHECKS = ("address", "proxy", "tls", "reply", "time", "signature", "credentials", OWN)


async def check(
    shell: Shell, options: str, env: Mapping[str, str] | None = None
) -> tuple[Ended, dict[str, dict[str, Any]]]:
    """Run the command, and return its findings by what was checked: one that is not ok, if any."""
    ended = await shell(f"check --json {options}", None, env=env)
    assert ended.stderr == "", ended.stderr
    assert ended.facts["exit_code"] == ended.code
    findings = sorted(ended.facts["findings"], key=lambda one: bool(one["status"] != "ok"))
    return ended, {one["check"]: one for one in findings}


def statuses_of(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: one["status"] for name, one in found.items() if one["status"] != "ok"}


def load(text: str, path: Path) -> Settings:
    path.write_text(text)
    return read_settings({"config": path}, {"XDG_CONFIG_HOME": "/nowhere"})


# The way to the gateway


async def test_all_is_fine_at_the_sandbox_and_no_money_moves(shell: Shell) -> None:
    (payment,) = shell.sandbox.seed(1, status="captured", amount="9.00")
    ended, found = await check(shell, f"--order-no {payment.order_no}")
    assert ended.code == 0
    assert (await shell("check -q")).stdout == ""
    assert tuple(found)[: len(CHECKS)] == CHECKS
    query = f"query of order_no {payment.order_no!r}"
    assert statuses_of(found) == {query: "ask"}  # no payment_status has a meaning by default
    assert "payment_states" in found[query]["fields"]
    assert set(shell.sandbox.requests) == {"query", "search_refunds"}
    assert shell.sandbox.secret not in ended.stdout
    ended = await shell("check")  # for people, as lines
    lines = [re.split(" {2,}|: ", line)[1] for line in ended.stdout.splitlines()]
    assert [line.removeprefix("ok ") for line in lines] == [*CHECKS]


async def test_a_look_up_that_lists_other_orders_is_wrong(shell: Shell) -> None:
    payment, *_ = shell.sandbox.seed(3, status="captured")
    shell.sandbox.faults.add("query", IgnoreSelection())
    ended, _ = await check(shell, f"--order-no {payment.order_no}")
    (line,) = [one for one in ended.facts["findings"] if one["fields"] == ["selection_fields"]]
    assert (ended.code, line["status"]) == (1, "wrong")
    assert line["check"] == f"query of order_no {payment.order_no!r}"
    assert "lists others, too: 2" in line["seen"]


async def test_what_is_printed_is_utf8_in_any_locale(shell: Shell) -> None:
    told = await shell("check --order-no Ü漢", 1, env={"PYTHONIOENCODING": "ascii"})
    assert "query of order_no 'Ü漢': " in told.stdout


@attrs.frozen
class Way:
    """What is given to the command, and what stands between it and the sandbox."""

    options: str = "--base-url {gateway} --ca-file ca.pem"
    login: str = ""  # given to a proxy, whose own is me:right
    is_tls: bool = False  # its certificate is of the authority of ca.pem
    change: Callable[[bytes], bytes] = bytes  # to each reply
    refused: str = ""  # the operations that are answered 403


def in_1994(reply: bytes) -> bytes:
    return re.sub(rb"Date: [^\r]*", b"Date: 06 Nov 1994 08:49:37 GMT", reply)


def of_a_shop(reply: bytes) -> bytes:
    return with_body(reply, b"<html><title>Welcome</title></html>")


def of_a_router(reply: bytes) -> bytes:
    return with_body(reply, b'{"return_message": "no route"}')


LONG = ".".join(["x" * 60] * 5)
"""Longer than the name of a host can be, so that no resolver is asked."""
ELSEWHERE = f"--base-url http://{LONG} --allow-http"
UNREAD = dict.fromkeys(("credentials", "signature", OWN), "skipped")
UNREACHED = {**UNREAD, "reply": "skipped", "time": "skipped"}
NO_TLS = {**UNREACHED, "tls": "skipped"}
BOTH_UNREAD = {**UNREACHED, "reply": "unknown"}
WRONG_SECRET = "return_status '0'"
HALF = "/v1/retrievalTrans is answered, /v1/retrievalRefund: the gateway answered HTTP 403"
ADVICE = {
    "no connection to": "host and port of base_url",
    "certificate": "ca_file",
    "407": "GATEWAY_PROXY",
    "but the reply has no readable": "compare base_url",
    "merchant_id: expected 'M9'": "merchant_id and account_id with what",
    "HTTP 404": "compare base_url",
    "HTTP 403": "ask the gateway",
    HALF: "ask the gateway",
    "/v1/retrievalTrans is refused": "must register",
    WRONG_SECRET: "check the secret first: GATEWAY_SECRET, or what secret_file or keyring names.",
}
"""What to do about what is seen."""


@pytest.mark.parametrize(
    ("way", "line", "status", "others", "seen"),
    [
        (Way(login="me:right", is_tls=True), "proxy", "ok", {}, "requests go through http://127"),
        (Way("--base-url {gateway} --allow-http"), "tls", "ok", {}, "does not leave this machine"),
        (Way(ELSEWHERE, login="me:right"), "tls", "wrong", BOTH_UNREAD, "can be read and changed"),
        (Way("--base-url http://127.0.0.1:1"), "address", "unknown", UNREACHED, "no connection to"),
        (Way("--base-url https://{host}"), "address", "unknown", NO_TLS, "may not speak TLS"),
        (Way(f"--base-url https://{LONG}"), "address", "unknown", NO_TLS, "is not known; check"),
        (Way("--base-url {gateway}", is_tls=True), "tls", "unknown", UNREACHED, "certificate"),
        (Way(login="me:wrong-pa55", is_tls=True), "proxy", "unknown", NO_TLS, "407"),
        (Way(login="me:wrong-pa55"), "proxy", "unknown", BOTH_UNREAD, "407"),
        (Way(change=in_1994), "time", "wrong", {}, "clock is -"),
        (Way(change=of_a_shop), "reply", "unknown", UNREAD, "expected a JSON object"),
        (Way(change=of_a_router), "reply", "unknown", UNREAD, "but the reply has no readable"),
        (Way("--merchant-id M9"), "reply", "unknown", UNREAD, "merchant_id: expected 'M9'"),
        (Way("--base-url {sandbox}/shop"), "reply", "unknown", UNREAD, "HTTP 404"),
        (Way(refused="*"), "reply", "wrong", {**UNREAD, OWN: "ask"}, "HTTP 403"),
        (Way(refused="search_refunds"), "reply", "wrong", {}, HALF),
        (Way(refused="query"), OWN, "wrong", {"reply": "wrong"}, "/v1/retrievalTrans is refused"),
        (
            *(Way("--secret-file secret"), "signature", "wrong"),
            *({"credentials": "ask", OWN: "ask"}, WRONG_SECRET),
        ),
    ],
)
async def test_each_fault_on_the_way_is_seen_and_says_what_to_do(
    shell: Shell, way: Way, line: str, status: str, others: dict[str, str], seen: str
) -> None:
    authority, secret = trustme.CA(), shell.folder / "secret"
    authority.cert_pem.write_to_path(shell.folder / "ca.pem")
    secret.write_text("another-secret")
    if way.refused:
        shell.sandbox.faults.add(way.refused, Status(403))
    url, tls = shell.sandbox.base_url, tls_of(authority) if way.is_tls else None
    async with Proxy(url, tls=tls) as gateway, Proxy(login="me:right") as proxy:
        gateway.always = Trouble(said=way.change)
        env = {"GATEWAY_PROXY": proxy.with_login(way.login)} if way.login else {}
        options = way.options.format(gateway=gateway.base_url, sandbox=url, host=url[7:])
        ended, found = await check(shell, options, env)
    assert ended.code == (3 if "unknown" in (status, *others.values()) else int(status != "ok"))
    assert {**statuses_of(found), line: found[line]["status"]} == {**others, line: status}
    assert seen in found[line]["seen"]
    assert ADVICE.get(seen, "") in found[line]["advice"]
    assert bool(found[line]["advice"]) == (status != "ok")
    assert bool(proxy.heads) == bool(way.login)
    assert status == "ok" or line not in ("address", "proxy", "tls") or not shell.sandbox.requests
    assert not any(one in ended.stdout for one in ("another-secret", "wrong-pa55"))


# The file


async def test_the_file_has_the_answers_that_count_and_is_a_new_one(shell: Shell) -> None:
    given, path = shell.folder / "given.toml", shell.folder / "config.toml"
    given.write_text(
        'journal = "sqlite:////srv/j.db"\n[policy]\nconcurrency = 3\n[reconcile]\n'
        'states = { "paid" = "captured" }\n[dialect]\npayment_states = { "3000" = "captured" }\n'
        "amount_places = 3\n[signer]\nexcluded = ['encryption_data', 'note']\n"
    )
    line = f"check --config given.toml --write {path}"
    await shell(line)
    written = path.read_text()
    assert f'base_url = "{shell.sandbox.base_url}"\nmerchant_id = "M1"\n' in written
    alone = {f"GATEWAY_{name}": "" for name in ("BASE_URL", "MERCHANT_ID", "ACCOUNT_ID")}
    await shell("check --config config.toml", env=alone)
    before, after = (read_settings({"config": one}, {}) for one in (given, path))
    assert attrs.evolve(after, base_url=None, merchant_id=None, account_id=None) == before
    requests = shell.sandbox.requests.total()
    await shell(line, 2, "exists; name a new file")
    assert shell.sandbox.requests.total() == requests  # it is known before anything is asked
    printed = await shell("check --config given.toml --write -")
    assert printed.stdout == written
    assert printed.stderr.count("\nok ") == len(CHECKS) - 1
    await shell("check --json --write -", 2, "--write: not -")


def test_the_file_has_all_that_makes_a_signature_and_no_password() -> None:
    signer = {"factory": "ours:make", "digest": "sha512"}
    proxy = "http://me:hush@proxy.example:3128"
    given = Settings(signer=signer, proxy=proxy, secret_file=Path("/run/secret"), rate=20)
    text = write_config(attrs.evolve(given, journal="postgresql://me:hush@db.example/jobs"))
    assert "\njournal =" not in text
    for line in ('factory = "ours:make"', 'digest = "sha512"', 'secret_file = "/run/secret"'):
        assert f"\n{line}\n" in text
    assert "\nrate = 20\n" in text
    assert "hush" not in text
    assert "\nsecret =" not in text


def test_every_open_question_is_asked() -> None:
    assert set(QUESTIONS["dialect"]) == set(attrs.fields_dict(Dialect))
    assert set(QUESTIONS["signer"]) == set(attrs.fields_dict(HmacSigner)) - {"secret"}


def test_the_defaults_in_the_comments_are_those_of_the_classes(tmp_path: Path) -> None:
    text = write_config(Settings())
    answered = re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE)
    asked = re.findall(r"^# \w+ = ", text, re.MULTILINE)
    assert len(asked) == sum(map(len, QUESTIONS.values()))
    given, silent = (load(one, tmp_path / "c.toml") for one in (answered, text))
    assert given.dialect == Dialect()
    assert (given.timeouts, given.recovery) == (silent.timeouts, silent.recovery)
    signer = HmacSigner("secret")
    assert given.signer == {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name in QUESTIONS["signer"]
        if (value := getattr(signer, name)) is not None
    }


# What records show


def look(
    *records: object,
    dialect: Dialect | None = None,
    operation: str = "query",
    status: OutcomeStatus = OutcomeStatus.SUCCEEDED,
) -> list[Finding]:
    """Find what there is about the records of one order."""
    outcome: Any = SimpleNamespace(
        order=OrderRef(order_no="A-1"),
        index=0,
        status=status,
        record=records,
        error=ReplyUnreadableError("unclear"),
    )
    return list(describe_order(operation, outcome, dialect or Dialect()))


def paid(**fields: Any) -> TransactionRecord:
    return TransactionRecord(**fields)


KWD = paid(amount=Decimal("1.234"), currency="KWD")
JPY = paid(amount=Decimal(100), currency="JPY")
REFUND = RefundRecord(refund_reference_id="R", refund_status="2")


@pytest.mark.parametrize(
    ("record", "dialect", "status", "field", "shown"),
    [
        (paid(payment_status="4100"), {}, "ask", "payment_states", "'4100'"),
        (
            *(paid(payment_status="4100"), {"payment_states": {"4100": "captured"}}),
            *("ok", "payment_states", "'4100' is in Dialect.payment_states"),
        ),
        (paid(query_result="7"), {}, "wrong", "absent_query_results", "'7'"),
        (
            *(paid(query_result="7"), {"absent_query_results": {"7"}}),
            *("ok", "absent_query_results", "7"),
        ),
        (REFUND, {}, "ask", "declined_statuses", "'2'"),
        (RefundRecord(refund_status="1"), {}, "wrong", "", "refund_reference_id"),
        (KWD, {}, "wrong", "currency_places", "amount in KWD has 3 decimal places"),
        (JPY, {}, "ask", "currency_places", "amount in JPY has 0 decimal places"),
        (JPY, {"currency_places": {"JPY": 0}}, "ok", "currency_places", "has 0 decimal places"),
        (paid(unreadable={"transaction_date": "23.11.2026"}), {}, "wrong", "", "transaction_date"),
    ],
)
def test_what_fits_or_does_not_names_the_field_of_the_dialect(
    record: object, dialect: dict[str, Any], status: str, field: str, shown: str
) -> None:
    *_, last = look(record, dialect=Dialect(**dialect))
    assert (last.status, last.fields) == (status, (field,) if field else ())
    assert shown in last.seen


def test_personal_data_is_not_shown() -> None:
    record = TransactionRecord(
        order_no="A-1",
        shopper_email="ann@example.org",
        extra={"shopper_name": "Ann"},
        unreadable={"shopper_phone": "{'home': 1}"},
    )
    text = " ".join(finding.seen for finding in look(record))
    assert "A-1" in text
    assert "shopper_phone" in text
    for value in ("ann@", "Ann", "home"):
        assert value not in text


@pytest.mark.parametrize(
    ("operation", "outcome", "status", "seen"),
    [
        ("search_refunds", OutcomeStatus.ABSENT, "ok", "no refund is listed"),
        ("query", OutcomeStatus.ABSENT, "wrong", "without it"),
        ("query", OutcomeStatus.UNKNOWN, "unknown", "unclear"),
    ],
)
def test_an_order_without_a_record(
    operation: str, outcome: OutcomeStatus, status: str, seen: str
) -> None:
    finding, *_ = look(operation=operation, status=outcome)
    assert (finding.status, seen in finding.seen) == (status, True)
