"""`check`: each fault at a real server on this machine, and what is found of records."""

import json
import re
from collections.abc import Callable
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
from gateway_async.sandbox.faults import Status
from tests.cli.running import Ended, Shell
from tests.support.servers import Proxy, Trouble, bind, tls_of, with_body

CHECKS = (
    *("address", "proxy", "tls", "reply", "time", "signature", "credentials"),
    "registered address",
)


Found = tuple[Ended, dict[str, dict[str, Any]]]


async def check(shell: Shell, options: str = "") -> Found:
    """Run the command, and return its findings by what was checked: one that is not ok, if any."""
    ended = await shell(f"check --json {options}", None)
    assert ended.stderr == "", ended.stderr
    shown = json.loads(ended.stdout)
    assert shown["exit_code"] == ended.code
    findings = sorted(shown["findings"], key=lambda one: bool(one["status"] != "ok"))
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


async def test_what_is_printed_is_utf8_in_any_locale(shell: Shell) -> None:
    line = "check --json --order-no Ü漢"
    told = await shell.installed(line, 1, env={"PYTHONIOENCODING": "ascii"})
    assert "Ü漢" in json.loads(told.stdout)["findings"][-1]["check"]


async def test_an_address_that_leads_nowhere(shell: Shell) -> None:
    with bind() as bound:
        place = f"127.0.0.1:{bound.getsockname()[1]}"
        ended, found = await check(shell, f"--base-url http://{place}")
    assert ended.code == 3
    assert f"no connection to {place}" in found["address"]["seen"]
    assert "host and port of base_url" in found["address"]["advice"]
    assert set(statuses_of(found).values()) == {"unknown", "skipped"}
    host = ".".join(["x" * 60] * 5)  # longer than a name can be, so that no resolver is asked
    for address, seen in (
        (f"https://{host}", "is not known; check the address"),
        (shell.sandbox.base_url.replace("http:", "https:"), "may not speak TLS"),
    ):
        ended, found = await check(shell, f"--base-url {address}")
        assert (ended.code, found["address"]["status"]) == (3, "unknown")
        assert seen in found["address"]["seen"]
    assert not shell.sandbox.requests.total()


@pytest.fixture
def authority(shell: Shell) -> trustme.CA:
    """An authority whose certificate is in `ca.pem`."""
    made = trustme.CA()
    made.cert_pem.write_to_path(shell.folder / "ca.pem")
    return made


async def test_a_certificate_of_an_unknown_authority(shell: Shell, authority: trustme.CA) -> None:
    async with Proxy(shell.sandbox.base_url, tls=tls_of(authority)) as gateway:
        ended, found = await check(shell, f"--base-url {gateway.base_url}")
        assert ended.code == 3
        assert "certificate" in found["tls"]["seen"]
        assert "ca_file" in found["tls"]["advice"]
        assert not shell.sandbox.requests.total()
        ended, found = await check(shell, f"--base-url {gateway.base_url} --ca-file ca.pem")
    assert (ended.code, statuses_of(found)) == (0, {})


@pytest.mark.parametrize(
    ("is_tls", "password"), [(False, "wrong-pa55"), (True, "wrong-pa55"), (True, "right")]
)
async def test_a_proxy_that_wants_a_password(
    shell: Shell, authority: trustme.CA, is_tls: bool, password: str
) -> None:
    (payment,) = shell.sandbox.seed(1)
    tls = tls_of(authority) if is_tls else None
    async with Proxy(shell.sandbox.base_url, tls=tls) as gateway, Proxy(login="me:right") as proxy:
        url = proxy.with_login(f"me:{password}")
        (shell.folder / "config.toml").write_text(f'proxy = "{url}"\nca_file = "ca.pem"\n')
        options = f"--base-url {gateway.base_url} --config config.toml"
        ended, found = await check(shell, f"{options} --order-no {payment.order_no}")
    assert password not in ended.stdout
    if password == "right":
        assert (ended.code, {*statuses_of(found).values()}) == (0, {"ask"})
        assert {line.partition(" ")[0] for line in proxy.lines} == {"CONNECT"}
        assert proxy.base_url in found["proxy"]["seen"]
    else:
        assert ended.code == 3
        assert "407" in found["proxy"]["seen"]
        assert "GATEWAY_PROXY" in found["proxy"]["advice"]
        assert not shell.sandbox.requests.total()


# What answers


async def rewritten(shell: Shell, change: Callable[[bytes], bytes]) -> Found:
    async with Proxy(shell.sandbox.base_url) as gateway:
        gateway.always(Trouble(said=change))
        return await check(shell, f"--base-url {gateway.base_url}")


@pytest.mark.parametrize(("date", "shown"), [("1994 08:49:37", "-"), ("2094 08:49:37", "+")])
async def test_clocks_that_differ(shell: Shell, date: str, shown: str) -> None:
    def change(reply: bytes) -> bytes:
        return re.sub(rb"Date: [^\r]*", f"Date: 06 Nov {date} GMT".encode(), reply)

    ended, found = await rewritten(shell, change)
    assert (ended.code, statuses_of(found)) == (1, {"time": "wrong"})
    assert f"clock is {shown}" in found["time"]["seen"]


async def test_a_web_site_answers(shell: Shell) -> None:
    page = b"<html><title>Welcome</title></html>"
    ended, found = await rewritten(shell, lambda reply: with_body(reply, page))
    assert (ended.code, found["reply"]["status"]) == (3, "unknown")
    assert "expected a JSON object" in found["reply"]["seen"]
    assert found["credentials"]["status"] == found["registered address"]["status"] == "skipped"


REFUSED = {"signature": "wrong", "credentials": "ask", "registered address": "ask"}
UNREAD = dict.fromkeys(("credentials", "signature", "registered address"), "skipped")


@pytest.mark.parametrize(
    ("options", "faulty", "code", "statuses", "line", "seen", "advice"),
    [
        (
            *("--secret-file secret", "", 1, REFUSED, "signature", "return_status '0'"),
            "check the secret first: GATEWAY_SECRET, or what secret_file or keyring names. The",
        ),
        (
            *("--merchant-id M9", "", 1, REFUSED, "signature"),
            *("for another merchant_id: expected 'M9'", "check the secret first"),
        ),
        (
            *("--base-url URL/shop", "", 3, {"reply": "unknown", **UNREAD}, "reply"),
            *("HTTP 404", "compare base_url"),
        ),
        (
            *("", "query", 1, {"reply": "wrong", "registered address": "wrong"}),
            *("registered address", "/v1/retrievalTrans is refused", "must register"),
        ),
        (
            *("", "*", 1, {"reply": "wrong", **UNREAD, "registered address": "ask"}, "reply"),
            *("HTTP 403", "ask the gateway"),
        ),
    ],
)
async def test_what_is_refused_names_what_to_do(
    shell: Shell,
    options: str,
    faulty: str,
    code: int,
    statuses: dict[str, str],
    line: str,
    seen: str,
    advice: str,
) -> None:
    secret = shell.folder / "secret"
    secret.write_text("another-secret")
    secret.chmod(0o600)
    if faulty:
        shell.sandbox.faults.add(faulty, Status(403))
    ended, found = await check(shell, options.replace("URL", shell.sandbox.base_url))
    assert (ended.code, statuses_of(found)) == (code, statuses)
    assert seen in found[line]["seen"]
    assert advice in found[line]["advice"]
    assert "another-secret" not in ended.stdout


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
    assert "exists; name a new file" in (await shell(line, 2)).stderr
    assert shell.sandbox.requests.total() == requests  # it is known before anything is asked
    printed = await shell("check --config given.toml --write -")
    assert printed.stdout == written
    assert printed.stderr.count("\nok ") == len(CHECKS) - 1
    assert "--write: not -" in (await shell("check --json --write -", 2)).stderr


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
            paid(query_result="7"),
            {"absent_query_results": {"7"}},
            "ok",
            "absent_query_results",
            "7",
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
