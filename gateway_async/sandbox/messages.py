"""What goes over the wire: fields out of a request's body, a reply out of an answer.

Written for the sandbox alone, from the interface, and sharing nothing with the client's own
encoding and decoding. Knows no ledger and no HTTP server.
"""

import html
import json
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any
from urllib.parse import parse_qsl

import attrs

from gateway_async.operations import (
    CHECKOUT,
    OPERATIONS,
    PAY_APM,
    PAY_DIRECT,
    QUERY,
    BodyFormat,
    Operation,
)
from gateway_async.signing import SIGNATURE_FIELD, Signer

JSON_TYPE = "application/json; charset=utf-8"
XML_TYPE = "text/xml; charset=utf-8"
HTML_TYPE = "text/html; charset=utf-8"
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

Fields = Mapping[str, str]
Record = dict[str, Any]

_DECODER = json.JSONDecoder()
_MEMBER = re.compile(r'\s*("(?:[^"\\]|\\.)*+")\s*:\s*')


@attrs.frozen(kw_only=True)
class Answer:
    """What the gateway says, before it becomes bytes.

    Attributes:
        operation: What was asked for.
        fields: The fields of the reply; the list of a batch or look-up is one of them.
        page: The HTML page of a checkout, in place of fields.
    """

    operation: Operation
    fields: Record = attrs.field(factory=dict)
    page: str = ""

    @property
    def records(self) -> list[Record]:
        """The elements of the list; without a list, the fields themselves as the one record."""
        if not self.operation.list_field:
            return [self.fields]
        return self.fields.get(self.operation.list_field) or []

    def with_records(self, records: list[Record] | None, **fields: object) -> "Answer":
        """Return the answer with other records, and other fields; without a list, one record."""
        if self.operation.list_field:
            fields = {**self.fields, self.operation.list_field: records, **fields}
        elif records and len(records) == 1:
            fields = {**records[0], **fields}
        else:
            return self
        return attrs.evolve(self, fields=fields)


@attrs.frozen(kw_only=True)
class Reply:
    """What goes out.

    Attributes:
        status: The HTTP status.
        headers: The HTTP headers, with the content type.
        body: The bytes, after any content encoding.
    """

    status: int = 200
    headers: dict[str, str]
    body: bytes


# Requests


def _read_json(text: str) -> list[tuple[str, str]]:
    """Read an object: its texts as what they say, other values as the very JSON text.

    A signature covers that text: once the whole is known to be right, it is cut by hand.
    """
    if not isinstance(json.loads(text), dict):
        raise ValueError("JSON, and no object")  # noqa: TRY004  # as for what is no JSON
    pairs, position = [], text.index("{") + 1
    while (member := _MEMBER.match(text, position)) is not None:
        value, end = _DECODER.raw_decode(text, member.end())
        said = value if isinstance(value, str) else text[member.end() : end]
        pairs.append((json.loads(member[1]), said))
        position = text.find(",", end) + 1 or len(text)
    return pairs


def read_fields(content_type: str, body: bytes) -> tuple[dict[str, str], str]:
    """Return the fields of a body as text, nested ones as their JSON text or in brackets.

    A JSON object is taken under the content type of a form as well. Of what cannot be read there
    are no fields, but a text that says why and shows nothing of it.
    """
    types = [BodyFormat.JSON.value, BodyFormat.FORM.value]
    if content_type not in types:
        return {}, f"content type: expected one of {', '.join(types)}"
    try:
        text = body.decode()
        if content_type == BodyFormat.JSON.value or text.lstrip().startswith("{"):
            pairs = _read_json(text)
        else:
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
        "".join(chain(*pairs)).encode()  # a lone half of a character cannot be signed
    except (ValueError, RecursionError):
        return {}, f"body: not readable as {content_type}"
    fields = dict(pairs)
    return (fields, "") if len(fields) == len(pairs) else ({}, "body: a field occurs twice")


def with_brackets_joined(fields: Fields) -> Fields:
    """Return fields in which `a[b][0]` and its like are one field `a`, of JSON text."""
    joined: dict[str, Any] = {}
    for name, text in fields.items():
        *outer, last = (part.removesuffix("]") for part in name.split("["))
        place = joined
        for key in outer:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                return fields  # `a` and `a[b]`: neither is a part of the other
        place[last] = text
    return {
        name: value if isinstance(value, str) else to_json(_with_lists(value))
        for name, value in joined.items()
    }


def _with_lists(value: "dict[str, Any] | str") -> Any:  # noqa: ANN401  # any JSON value
    """Make lists of the objects whose names are numbers."""
    if isinstance(value, str):
        return value
    members = {key: _with_lists(member) for key, member in value.items()}
    if not all(key.isdecimal() for key in members):
        return members
    return list(members.values())


def read_nested(text: str | None) -> Any:  # noqa: ANN401  # any JSON value
    """Return the value of a nested field, None where it is missing or no JSON."""
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None


_BY_PATH = {op.path: op for op in OPERATIONS.values() if op != PAY_APM}  # which shares its path
PATHS = tuple(_BY_PATH)


def operation_of(path: str, fields: Fields) -> Operation:
    """Say which operation is asked for: a card makes a payment on `/v1/authorise` a direct one."""
    if path == PAY_APM.path and fields.get("payment_method") and not fields.get("card"):
        return PAY_APM
    return _BY_PATH[path]


# Replies


def to_json(value: object) -> str:
    """Write a nested value."""
    return json.dumps(value, separators=(",", ":"))


def _element(name: str, value: object) -> str:
    if isinstance(value, Mapping):
        inner = "".join(_element(child, text) for child, text in value.items())
    else:
        # A parser would read a carriage return as a line feed, and the signature would not fit.
        inner = html.escape(str(value), quote=False).replace("\r", "&#13;")
    return f"<{name}>{inner}</{name}>"


def write_reply(answer: Answer, signer: Signer) -> Reply:
    """Write an answer: XML for payments, HTML for a checkout, JSON for the others.

    It is signed as requests are, elements of XML that hold others as compact JSON; query and APM
    replies carry no signature.
    """
    operation, fields = answer.operation, answer.fields
    if operation == CHECKOUT:
        return Reply(headers={"Content-Type": HTML_TYPE}, body=answer.page.encode())
    is_xml = operation in (PAY_DIRECT, PAY_APM)
    if is_xml:
        fields = {n: _NOT_IN_XML.sub("", v) if isinstance(v, str) else v for n, v in fields.items()}
    texts = {n: v if isinstance(v, str) else to_json(v) for n, v in fields.items()}
    if operation not in (QUERY, PAY_APM):
        fields = {**fields, SIGNATURE_FIELD: signer.sign(operation, texts)}
    if is_xml:
        text = '<?xml version="1.0" encoding="UTF-8"?>' + _element("respon", fields)
        return Reply(headers={"Content-Type": XML_TYPE}, body=text.encode())
    return Reply(headers={"Content-Type": JSON_TYPE}, body=to_json(fields).encode())
