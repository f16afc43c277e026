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
from gateway_async.sandbox.faults import Status
from tests.cli.running import Ended, Shell
from tests.support.servers import Proxy, Trouble, tls_of, with_body

CHECKS = (
    *("address", "proxy", "tls", "reply", "time", "signature", "credentials"),
    "registered address",
)


Found = tuple[Ended, dict[str, dict[str, Any]]]


async def check(shell: Shell, options: str, env: Mapping[str, str] | None = None) -> Found:
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


async def test_what_is_printed_is_utf8_in_any_locale(shell: Shell) -> None:
    line = "check --json --order-no Ü漢"
    told = await shell.installed(line, 1, env={"PYTHONIOENCODING": "ascii"})
    assert "Ü漢" in told.facts["findings"][-1]["check"]


@attrs.frozen(kw_only=True)
class Way:
    """What is given to the command, and what stands between it and the sandbox."""

    options: str = "--base-url {gateway} --ca-file ca.pem"
    login: str = ""  # given to a proxy, whose own is me:right
    is_tls: bool = False  # its certificate is of the authority of ca.pem
    change: Callable[[bytes], bytes] = bytes  # to each reply
    refused: str = ""  # the operations that are answered 403

    async def check(self, shell: Shell) -> tuple[Found, Proxy]:
        """Run the command; return what it found, and the proxy."""
        authority, secret = trustme.CA(), shell.folder / "secret"
        authority.cert_pem.write_to_path(shell.folder / "ca.pem")
        secret.write_text("another-secret")
        secret.chmod(0o600)
        tls = tls_of(authority) if self.is_tls else None
        async with (
            Proxy(shell.sandbox.base_url, tls=tls) as gateway,
            Proxy(login="me:right") as proxy,
        ):
            gateway.always(Trouble(said=self.change))
            if self.refused:
                shell.sandbox.faults.add(self.refused, Status(403))
            env = {"GATEWAY_PROXY": proxy.with_login(self.login)} if self.login else {}
            url = shell.sandbox.base_url
            options = self.options.format(gateway=gateway.base_url, sandbox=url, host=url[7:])
            return await check(shell, options, env), proxy


async def test_a_gateway_is_reached_through_a_proxy_by_tls_of_an_own_authority(
    shell: Shell,
) -> None:
    (ended, found), proxy = await Way(login="me:right", is_tls=True).check(shell)
    assert (ended.code, statuses_of(found)) == (0, {})
    assert {line.partition(" ")[0] for line in proxy.lines} == {"CONNECT"}
    assert proxy.base_url in found["proxy"]["seen"]


def _dated(date: str) -> Callable[[bytes], bytes]:
    """Return a change that dates a reply."""
    return lambda reply: re.sub(rb"Date: [^\r]*", f"Date: 06 Nov {date} GMT".encode(), reply)


LONG = ".".join(["x" * 60] * 5)
"""Longer than the name of a host can be, so that no resolver is asked."""
UNREAD = dict.fromkeys(("credentials", "signature", "registered address"), "skipped")
UNREACHED = {**UNREAD, "reply": "skipped", "time": "skipped"}
NO_TLS = {**UNREACHED, "tls": "skipped"}
REFUSED = {"signature": "wrong", "credentials": "ask", "registered address": "ask"}
WAYS: list[tuple[Way, int, dict[str, str], str, str, str]] = [
    (
        *(Way(options="--base-url http://127.0.0.1:1"), 3, {**UNREACHED, "address": "unknown"}),
        *("address", "no connection to 127.0.0.1:1", "host and port of base_url"),
    ),
    (
        *(Way(options=f"--base-url https://{LONG}"), 3, {**NO_TLS, "address": "unknown"}),
        *("address", "is not known; check the address", ""),
    ),
    (
        *(Way(options="--base-url https://{host}"), 3, {**NO_TLS, "address": "unknown"}),
        *("address", "may not speak TLS", ""),
    ),
    (
        *(Way(options="--base-url {gateway}", is_tls=True), 3, {**UNREACHED, "tls": "unknown"}),
        *("tls", "certificate", "ca_file"),
    ),
    (
        *(Way(login="me:wrong-pa55", is_tls=True), 3, {**NO_TLS, "proxy": "unknown"}),
        *("proxy", "407", "GATEWAY_PROXY"),
    ),
    (
        Way(login="me:wrong-pa55"),
        *(3, {**UNREACHED, "proxy": "unknown", "reply": "unknown"}),
        *("proxy", "407", "GATEWAY_PROXY"),
    ),
    (Way(change=_dated("1994 08:49:37")), 1, {"time": "wrong"}, "time", "clock is -", ""),
    (Way(change=_dated("2094 08:49:37")), 1, {"time": "wrong"}, "time", "clock is +", ""),
    (
        Way(change=lambda reply: with_body(reply, b"<html><title>Welcome</title></html>")),
        *(3, {"reply": "unknown", **UNREAD}, "reply", "expected a JSON object", ""),
    ),
    (
        *(Way(options="--secret-file secret"), 1, REFUSED, "signature", "return_status '0'"),
        "check the secret first: GATEWAY_SECRET, or what secret_file or keyring names. The",
    ),
    (
        Way(options="--merchant-id M9"),
        *(3, {"reply": "unknown", **UNREAD}, "reply"),
        *("for another merchant_id: expected 'M9'", "merchant_id and account_id with what"),
    ),
    (
        Way(change=lambda reply: with_body(reply, b'{"return_status": "1", "data": "?"}')),
        *(3, {"reply": "unknown", **UNREAD}, "reply", "200, but the reply has no list", "service"),
    ),
    (
        Way(change=lambda reply: with_body(reply, b'{"return_message": "no route"}')),
        *(3, {"reply": "unknown", **UNREAD}, "reply"),
        *("200, but the gateway refused the look-up: return_status ''", "compare base_url"),
    ),
    (
        *(Way(options="--base-url {sandbox}/shop"), 3, {"reply": "unknown", **UNREAD}),
        *("reply", "HTTP 404", "compare base_url"),
    ),
    (
        *(Way(refused="query"), 1, {"reply": "wrong", "registered address": "wrong"}),
        *("registered address", "/v1/retrievalTrans is refused", "must register"),
    ),
    (
        *(Way(refused="search_refunds"), 1, {"reply": "wrong"}, "reply"),
        *(
            "/v1/retrievalTrans is answered, /v1/retrievalRefund: the gateway answered HTTP 403",
            "ask the gateway",
        ),
    ),
    (
        *(Way(refused="*"), 1, {"reply": "wrong", **UNREAD, "registered address": "ask"}),
        *("reply", "HTTP 403", "ask the gateway"),
    ),
]


@pytest.mark.parametrize(("way", "code", "statuses", "line", "seen", "advice"), WAYS)
async def test_each_fault_on_the_way_names_what_to_do(
    shell: Shell, way: Way, code: int, statuses: dict[str, str], line: str, seen: str, advice: str
) -> None:
    (ended, found), _ = await way.check(shell)
    assert (ended.code, statuses_of(found)) == (code, statuses)
    assert seen in found[line]["seen"]
    assert advice in found[line]["advice"]
    assert line not in ("address", "proxy", "tls") or not shell.sandbox.requests.total()
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
