"""Every code block of README, pages and docstrings runs, by Sybil, against a sandbox.

Python blocks of a page run in turn and share their names; what they print is compared with the
block of `output` behind them. The addresses of the pages are changed to places on this machine.
"""

import ast
import asyncio
import contextlib
import functools
import inspect
import io
import logging
import re
import tomllib
import types
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
import trustme
from aiohttp import web
from sybil import Document, Example
from sybil.document import PythonDocStringDocument
from sybil.parsers import markdown, rest
from taskiq import InMemoryBroker

import gateway_async
from gateway_async import GatewayClient, Journal, OrderRef
from gateway_async.reconciliation import LedgerEntry
from gateway_async.sandbox import Sandbox
from gateway_async.testing import sandbox_client, threaded_sandbox
from tests.support.orders import orders_for
from tests.support.postgres import postgres_url

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path for path in DOCS.rglob("*.md") if not {"_build", "generated", "api"} & {*path.parts}
)
PAGES += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
MODULES = [
    path
    for path in sorted((ROOT / "gateway_async").rglob("*.py"))
    if "code-block" in path.read_text()
]
KNOWN = {"python", "output", "toml", "sh", "yaml", "text", "json", "csv"}
"""Languages of blocks: Python, output and TOML are tried; the others are shown."""

_FENCE = re.compile(r"^ *```(?!`)(\S*)[^\n]*\n.*?^ *```$", re.DOTALL | re.MULTILINE)


class Reader:
    """Runs the blocks of one page as its reader would."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self._sandbox = sandbox
        self._folder = folder
        self._printed = ""
        self._made: list[GatewayClient] = []
        self._given: dict[str, Any] = {}
        self._closing = contextlib.ExitStack()
        log = logging.getLogger("gateway_async.requests")  # whose level a page sets
        self._closing.callback(log.setLevel, log.level)
        self._runner = self._closing.enter_context(asyncio.Runner())
        self._gateway = self._closing.enter_context(sandbox_client(sandbox))
        self._journal = Journal.open(f"sqlite:///{folder}/journal.db")
        self._runner.run(self._journal.__aenter__())
        self._places: dict[str, Callable[[], str]] = {
            r"(?s)https://gateway\.example(?!.*proxy=)": lambda: sandbox.base_url,
            r"sqlite:///(?:/[\w.]+)*/": lambda: f"sqlite:///{folder}/",
            r"postgresql://[\w.@]+/refunds": lambda: self._database,
            r'rabbit_broker\("amqp://[^)]*\)': lambda: "InMemoryBroker()",
            r"/etc/ssl/company\.pem": self._authority,
        }

    def close(self) -> None:
        self._runner.run(self._journal.__aexit__(None, None, None))
        for client in self._made:
            self._runner.run(client.aclose())
        self._closing.close()

    def names(self, source: str) -> dict[str, Any]:
        """Return what the pages take for granted; orders are new ones for each block."""
        sandbox = self._sandbox
        paid = sandbox.seed(3, status="captured", amount="25.00")
        return {
            "asyncio": asyncio,
            "sandbox": sandbox,
            "base_url": sandbox.base_url,
            "credentials": self._gateway.credentials,
            "dialect": sandbox.dialect,
            "gateway": self._gateway,
            "orders": orders_for("refund", paid, refund_amount="5.00"),
            "refs": [OrderRef(order_no=one.order_no) for one in paid],
            "entries": [
                LedgerEntry(order_no=one.order_no, currency=one.currency, amount=one.amount)
                for one in paid
            ],
            "InMemoryBroker": InMemoryBroker,
            "OrderRef": OrderRef,
            "GatewayClient": GatewayClient,
            "app": web.Application(),
            "celery": types.SimpleNamespace(task=lambda **_: lambda function: function),
            "journal": self._journal,
            "journal_url": self._database if "journal_url" in source else "",
            "make_gateway": lambda: GatewayClient(sandbox.base_url, self._gateway.credentials),
            **dict.fromkeys(("on_payment", "save", "show", "ship", "book", "look_into"), Mock()),
        }

    def run(self, example: Example) -> None:
        source = str(example.parsed)
        for written, place in self._places.items():
            if re.search(written, source):
                source = re.sub(written, place(), source)
        for name, value in self.names(source).items():
            # What the page has defined itself stays; a client or a journal, until it is closed.
            its_own = example.namespace.get(name)
            if its_own is self._given.get(name) or _is_closed(its_own):
                example.namespace[name] = self._given[name] = value
        code = compile(
            "\n" * (example.line + example.parsed.line_offset) + source,
            example.path,
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
        example.namespace["__name__"] = "__main__"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            result = eval(code, example.namespace)  # noqa: S307  # our own page
            if inspect.iscoroutine(result):
                self._runner.run(result)
        made = [one for one in example.namespace.values() if isinstance(one, GatewayClient)]
        self._made += [client for client in made if client is not self._gateway]
        self._printed = printed.getvalue()

    def compare(self, example: Example) -> str | None:
        seen = [line.rstrip() for line in self._printed.splitlines()]
        if seen == str(example.parsed).splitlines():
            return None
        return "it printed:\n" + self._printed

    def read(self, example: Example) -> None:
        tomllib.loads(str(example.parsed))

    def _authority(self) -> str:
        path = self._folder / "company.pem"
        trustme.CA().cert_pem.write_to_path(path)
        return str(path)

    @functools.cached_property
    def _database(self) -> str:
        return self._closing.enter_context(postgres_url())


def _is_closed(value: object) -> bool:
    if isinstance(value, Journal):
        return value._database is None
    return isinstance(value, GatewayClient) and value._transport.is_closed


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)  # what a block writes goes there
    with threaded_sandbox() as sandbox, contextlib.closing(Reader(sandbox, tmp_path)) as reader:
        yield reader


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_block_says_what_it_is() -> None:
    languages = {language for page in PAGES for language in _FENCE.findall(page.read_text())}
    assert {language for language in languages if not language.startswith("{")} <= KNOWN


def _tried(page: Path) -> Any:
    needs_a_server = "postgresql://" in page.read_text() and page.parent.name == "how-to"
    return pytest.param(page, marks=[pytest.mark.slow] if needs_a_server else [], id=_name(page))


@pytest.mark.parametrize("page", [_tried(page) for page in PAGES])
def test_the_blocks_of_a_page_run(page: Path, reader: Reader) -> None:
    parsers = (
        markdown.CodeBlockParser("python", reader.run),
        markdown.CodeBlockParser("output", reader.compare),
        markdown.CodeBlockParser("toml", reader.read),
    )
    for example in Document.parse(str(page), *parsers):
        example.evaluate()


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_the_blocks_of_docstrings_run(module: Path, reader: Reader) -> None:
    parser = rest.CodeBlockParser("python", reader.run)
    document = PythonDocStringDocument.parse(str(module), cast("Any", parser))
    document.evaluators.clear()  # the names of a module are its own
    examples = list(document)
    assert len(examples) == module.read_text().count(".. code-block:: python")
    for example in examples:
        example.evaluate()


# What the pages take from the code is what the code has now


HOW_TO_MEND = "run `python docs/generate.py`, and commit what it writes"
SCRIPT = import_module("docs.generate")


def test_every_generated_part_is_as_the_code_has_it_and_shown_and_none_is_left_over() -> None:
    parts = dict(SCRIPT.parts())
    old = [name for name, text in parts.items() if (DOCS / name).read_text() != text]
    assert old == [], HOW_TO_MEND
    kept = {*(DOCS / "generated").iterdir(), *(DOCS / "reference" / "api").iterdir()}
    names = {str(path.relative_to(DOCS)) for path in kept}
    assert names == {*parts, "reference/api/index.md"}
    pages = [path.read_text() for path in DOCS.rglob("*.md") if path.parent.name != "generated"]
    shown = {name for page in pages for name in re.findall(r"\{include\} \.\./(.+)", page)}
    assert {name for name in parts if name.startswith("generated/")} <= shown


def test_the_api_has_every_public_name_once_and_the_page_every_module() -> None:
    listed = [name for _, names in SCRIPT.API.values() for name in names]
    assert sorted(listed) == sorted(vars(gateway_async)["__all__"])
    page = (DOCS / "reference" / "api" / "index.md").read_text()
    (tree,) = re.findall(r"```\{toctree\}\n(.*?)```", page, re.DOTALL)
    assert tree.split()[2:] == [*SCRIPT.API, *SCRIPT.MODULES]
