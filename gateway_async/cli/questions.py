"""The questions that the interface leaves open, and the TOML file that takes the answers."""

import json
from collections.abc import Mapping, Set as AbstractSet
from pathlib import Path
from typing import Any

import attrs

from gateway_async.cli.settings import Settings
from gateway_async.signing import HmacSigner

QUESTIONS: Mapping[str, Mapping[str, str]] = {
    "timeouts": {
        "reply_seconds": "How long may a reply take? (section 8)",
    },
    "recovery": {
        "refund_evidence": (
            "Does each refund have a refund_reference_id of its own, in the refund search too? "
            "(section 2.6)"
        ),
        "settle_seconds": "How soon after a refund does the refund search list it?",
    },
    "signer": {
        "digest": "By which algorithm is encryption_data made? (section 5)",
        "joiner": "What stands between the fields that are signed? (section 5)",
        "template": "How is each field written that is signed? (section 5)",
        "uppercase": "Are the hexadecimal digits of encryption_data upper case? (section 5)",
        "excluded": "Which fields are not signed? (section 5)",
        "check_replies": "Are replies signed in the same way? (section 5)",
    },
    "dialect": {
        "body_formats": (
            "Which body do you accept for each operation, form or JSON? Such as "
            '{ refund = "application/json" }. (section 4)'
        ),
        "json_content_type": "Under which content type do you accept JSON? (section 4)",
        "form_nesting": 'How do structures go into a form, as "json" or as "brackets"? (section 4)',
        "wire_names": (
            "Which fields have another name on the wire, as the anti-fraud cookie has? Such as "
            '{ antifraud_token_cookie = "name" }. (section 2.2)'
        ),
        "amount_places": "How many decimal places has an amount? (section 8)",
        "currency_places": (
            "In which currencies has an amount another number of decimal places? Such as "
            "{ JPY = 0 }. (section 8)"
        ),
        "selection_fields": "By which field does a look-up ask for orders? (section 4)",
        "selection_separator": "What stands between two orders of a look-up? (section 4)",
        "echo_fields": (
            "Which fields of an order does each reply repeat unchanged? Such as "
            '{ refund = ["currency", "amount"] }. (section 2.7)'
        ),
        "done_statuses": (
            "Which capture_status, cancel_status, review_status and refund_status mean that it "
            "was done? (section 3)"
        ),
        "declined_statuses": (
            "Which of them mean that it was not done, and never will be? (section 3)"
        ),
        "pending_statuses": "Which of them, and which payout status, mean neither? (section 3)",
        "payout_done_statuses": "Which status means that a payout was done? (section 3)",
        "payout_declined_statuses": (
            "Which status means that a payout was not done, and never will be? (section 3)"
        ),
        "done_message_prefixes": (
            "How does the code of a refund_message begin when the refund was done? (section 7)"
        ),
        "done_return_statuses": (
            "Which return_status means that a request was accepted? (section 7)"
        ),
        "nothing_done_return_statuses": (
            "Which return_status means that nothing of a request was done? (section 7)"
        ),
        "nothing_done_http_statuses": (
            "Which HTTP status means that nothing of a request was done? (section 7)"
        ),
        "found_query_results": "Which query_result means that an order was found? (section 3)",
        "absent_query_results": "Which query_result means that there is no such order? (section 3)",
        "utc_offset_hours": "How many hours is your clock ahead of UTC in dates? (section 2.5)",
        "payment_states": (
            "What does each payment_status mean: authorised, captured or cancelled? Such as "
            '{ "STATUS" = "captured" }. (section 3)'
        ),
        "payout_deduplicates": "Is a payout executed once for one request_id? (section 2.8)",
        "notification_fields": (
            "Under which names does a notification carry order_no, transaction_id and request_id? "
            "(section 6)"
        ),
        "notification_answer": "What must we answer to a notification? (section 6)",
    },
}
"""By TOML table and field, the question that the interface leaves open; the class has the default.

A test holds the fields of `Dialect` and `HmacSigner` against it.
"""


def write_config(settings: Settings) -> str:
    """Write settings as a TOML file: open questions are comments, with their default.

    No secret is in it, and neither is a URL that may hold a password.
    """
    values: dict[str, Any] = {}
    tables: dict[str, dict[str, Any]] = {name: {} for name in QUESTIONS}
    defaults: dict[str, dict[str, Any]] = {
        "signer": {field.name: field.default for field in attrs.fields(HmacSigner)}
    }
    for field in attrs.fields(Settings):
        value, default = getattr(settings, field.name), getattr(Settings(), field.name)
        if attrs.has(type(value)):
            defaults[field.name] = attrs.asdict(default, recurse=False)
            tables[field.name] = _differing(value, default)
        elif field.name == "signer":
            tables["signer"] = dict(value)
        elif value != default and field.name != "journal":
            values[field.alias or field.name] = value
    if "@" in values.get("proxy", ""):
        del values["proxy"]
    if tables["recovery"].get("record_baseline"):  # the command line's own default
        del tables["recovery"]["record_baseline"]
    lines = ["# Settings of gateway-async. Ask the gateway each question; where its answer differs"]
    lines += ["# from the default that is shown, take the # away and write the answer.", ""]
    lines += [f"{name} = {_toml(value)}" for name, value in values.items()]
    lines += [
        "",
        "# rate: How many requests a second may we send? (section 8) Without it, there is",
    ]
    lines += ["# no limit."]
    for table, given in tables.items():
        is_open = not (table == "signer" and "factory" in given)  # which answers for all of it
        questions = QUESTIONS.get(table, {}) if is_open else {}
        rest = [f"{name} = {_toml(one)}" for name, one in given.items() if name not in questions]
        if questions or rest:
            lines += ["", f"[{table}]", *rest]
        for name, question in questions.items():
            line = f"{name} = {_toml(given.get(name, defaults[table][name]))}"
            lines += [f"# {question}", line if name in given else f"# {line}"]
    return "\n".join(lines) + "\n"


def _differing(given: Any, default: Any) -> dict[str, Any]:  # noqa: ANN401  # any settings
    """Return the fields that differ from their default, and can stand in TOML."""
    fields = attrs.asdict(given, recurse=False).items()
    return {k: v for k, v in fields if v is not None and v != getattr(default, k)}


def _toml(value: Any) -> str:  # noqa: ANN401  # what settings hold
    """Write a value as TOML."""
    if isinstance(value, Path):
        return _toml(str(value.absolute()))
    if isinstance(value, str):  # JSON writes all that it must but this
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_toml(name)} = {_toml(one)}" for name, one in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, AbstractSet):
        return _toml(sorted(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)
