"""Write the parts of the reference that come from the code: `python docs/generate.py`.

A test compares the files with what this writes.
"""

import ast
import contextlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs

import gateway_async
from gateway_async import OPERATIONS, Dialect, errors, settings, signing
from gateway_async.reconciliation import Kind
from gateway_async.sandbox import faults

DOCS = Path(__file__).parent
sys.path.append(str(DOCS.parent))
ROWS = import_module("tests.support.faults").ROWS

API: dict[str, tuple[str, Sequence[str]]] = {
    "client": (
        "The client and its results",
        (
            *("GatewayClient", "Batch", "BatchResult", "Outcome", "OutcomeStatus", "OutcomeView"),
            *("Progress", "ReplyEnvelope", "UnexpectedRecords", "Coalescer", "Page", "Reply"),
            *("Operation", "OperationClass", "BodyFormat", "OPERATIONS"),
        ),
    ),
    "settings": (
        "Credentials and settings",
        (
            *("Credentials", "Signer", "HmacSigner", "Timeouts", "RetryPolicy", "BatchPolicy"),
            *("RecoveryPolicy", "Dialect", "PaymentState"),
        ),
    ),
    "orders": (
        "Orders and their records",
        (
            *("CaptureOrder", "CancelOrder", "ReviewOrder", "RefundOrder", "OrderRef"),
            *("CaptureRecord", "CancelRecord", "ReviewRecord", "RefundRecord"),
            *("TransactionRecord", "DeliveryInformation", "FraudCheckResult"),
            "SubscriptionResult",
        ),
    ),
    "payments": (
        "Payments",
        (
            *("DirectPayment", "ApmPayment", "RedirectPayment", "DirectPaymentResult"),
            *("ApmPaymentResult", "CheckoutPage", "RiskReasons", "Item", "CartItem"),
            *("BasicItemData", "Price", "AccountOwner", "Discount", "AdditionalInformation"),
            *("MpiInfo", "Subscription", "Person", "PersonDocuments", "Labels", "BankAccount"),
            "Bank",
        ),
    ),
    "payouts": (
        "Payouts",
        (
            *("PayoutRequest", "PayoutResult", "Beneficiary", "BeneficiaryAddress"),
            *("BeneficiaryInfo", "BankDetails", "PersonDocument", "Payer", "PayerAddress"),
            *("PayerInfo", "BeneficiaryRecord", "BeneficiaryAddressRecord"),
            *("BeneficiaryInfoRecord", "BankDetailsRecord", "PersonDocumentRecord"),
            *("PayerRecord", "PayerAddressRecord", "PayerInfoRecord"),
        ),
    ),
    "journal": (
        "Jobs and the journal",
        ("Journal", "Job", "OrderState", "JobStatus", "SliceStatus"),
    ),
    "errors": (
        "Errors",
        sorted(
            (name for name in vars(gateway_async)["__all__"] if name.endswith("Error")),
            key=lambda name: name != "GatewayError",
        ),
    ),
}
"""The pages of `gateway_async` itself: title, and the public names in the order of the page."""

MODULES = {
    "workers": "Workers",
    "workers.rabbit": "RabbitMQ for workers",
    "workers.rate": "One rate for all workers",
    "reconciliation": "Reconciliation",
    "notifications": "Notifications",
    "report": "Reports",
    "telemetry": "Telemetry",
    "otel": "OpenTelemetry",
    "testing": "Fixtures for your tests",
    "sandbox": "The sandbox",
    "sandbox.faults": "Faults of the sandbox",
}
"""The public modules below `gateway_async`: the names in their `__all__` are public, too."""

_OF_THE_PACKAGE = {
    "Journal": ("database", "pages", "claim_due", "make_due"),
    "Job": ("read", "take"),
}
"""By public class, the members that are for the modules of the package alone."""

_SETTINGS = (
    settings.Timeouts,
    settings.RetryPolicy,
    settings.BatchPolicy,
    settings.RecoveryPolicy,
    settings.WorkerPolicy,
    signing.HmacSigner,
)


def main() -> None:
    """Write every file."""
    for name, text in parts():
        path = DOCS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(Path.cwd())}\n")


def parts() -> Iterator[tuple[str, str]]:
    """Give the text of each file, by its path below `docs`."""
    yield "generated/dialect.md", table(("field", "default", "meaning"), fields_of(Dialect))
    yield "generated/settings.md", "\n".join(map(_settings, _SETTINGS))
    yield "generated/client.md", table(("keyword", "default", "meaning"), _keywords())
    yield "generated/errors.md", f"```text\n{_tree()}\n```\n"
    yield "generated/operations.md", _operations()
    yield "generated/faults.md", _faults()
    yield "generated/journal.md", _journal()
    yield "generated/transitions.md", _transitions()
    yield "generated/commands.md", _commands()
    said = sections_of(Kind)
    kinds = [(f"`{kind}`", said[kind.name]) for kind in Kind]
    yield "generated/differences.md", table(("kind", "meaning"), kinds)
    for name, (title, names) in API.items():
        yield f"reference/api/{name}.md", _page(title, "gateway_async", names)
    for name, title in MODULES.items():
        module = f"gateway_async.{name}"
        names = import_module(module).__all__
        yield f"reference/api/{name}.md", _page(title, module, names)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


def sections_of(described: object) -> dict[str, str]:
    """Return what the docstring says of each field or argument, by its name."""
    text = inspect.getdoc(described) or ""
    found = re.search(r"^(?:Attributes|Args):\n((?:    .*\n|\n)*)", text + "\n", re.MULTILINE)
    listed = textwrap.dedent(found[1]) if found else ""
    entries = re.findall(r"^(\w+): ((?:.*\n)(?:    .*\n)*)", listed, re.MULTILINE)
    return {name: " ".join(said.split()).replace("``", "`") for name, said in entries}


def fields_of(kind: type[Any]) -> list[tuple[str, str, str]]:
    """Return name, default and meaning of each field of a class."""
    said = sections_of(kind)
    instance = _with_defaults(kind)
    return [
        (f"`{field.name}`", _default(field, instance), said[field.name])
        for field in attrs.fields(kind)
        if field.init
    ]


def _with_defaults(kind: type[Any]) -> Any:  # noqa: ANN401  # an instance, if one can be made
    with contextlib.suppress(TypeError):
        return kind()
    return None


def _default(field: "attrs.Attribute[Any]", instance: object) -> str:
    if field.default is attrs.NOTHING:
        return "required"
    return _shown(getattr(instance, field.name) if instance else field.default)


def _shown(value: object) -> str:
    if isinstance(value, frozenset):
        value = set(value)
        return "none" if not value else f"`{{{', '.join(map(repr, sorted(value)))}}}`"
    if value in ({}, ()):
        return "none"
    if isinstance(value, dict) and len(str(value)) > 80:  # noqa: PLR2004  # a narrow column
        return f"of {', '.join(f'`{name}`' for name in value)}"
    return f"`{value!r}`"


def _settings(kind: type[Any]) -> str:
    rows = fields_of(kind)
    return f"## {kind.__name__}\n\n{_first(kind)}\n\n{table(('field', 'default', 'meaning'), rows)}"


def _first(kind: type[Any]) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")


def _keywords() -> list[tuple[str, str, str]]:
    said = sections_of(gateway_async.GatewayClient)
    taken = inspect.signature(gateway_async.GatewayClient).parameters.values()
    return [
        (
            f"`{one.name}`",
            "required" if one.default is one.empty else f"`{one.default!r}`",
            said[one.name],
        )
        for one in taken
    ]


def _tree() -> str:
    """Return the tree of errors, as its module has it."""
    lines = (errors.__doc__ or "").splitlines()
    return "\n".join(line[4:] for line in lines if re.match(r"    (GatewayError|[├└│])", line))


def _operations() -> str:
    rows = [
        (f"`{row.name}`", f"`{row.path}`", row.kind.value, row.body.name, str(row.limit or ""))
        for row in OPERATIONS.values()
    ]
    return table(("method", "path", "class", "body", "orders in one request"), rows)


_FAULT_GROUPS: tuple[type[faults.Fault], ...] = (
    faults.Ending,
    faults.AnswerFault,
    faults.ReplyFault,
    faults.NotificationFault,
    faults.Fault,
)


def kinds_of_faults() -> list[type[faults.Fault]]:
    """Return every fault that can be played, group by group."""
    named = [value for name, value in vars(faults).items() if name in faults.__all__]
    kinds = [kind for kind in named if isinstance(kind, type) and issubclass(kind, faults.Fault)]
    return [kind for kind in kinds if kind not in _FAULT_GROUPS]


def _faults() -> str:
    """Write every fault below the first sentence of its group."""
    groups: dict[str, list[tuple[str, ...]]] = {}
    for kind in kinds_of_faults():
        group = next(group for group in _FAULT_GROUPS if issubclass(kind, group))
        title = "It strikes before the effect." if group is faults.Fault else _first(group)
        row = (f"`{_call(kind)}`", _sentences(kind), *_statuses(kind))
        groups.setdefault(title, []).append(row)
    rows = [row for title, rows in groups.items() for row in ((f"**{title}**", "", "", ""), *rows)]
    return table(("fault", "what happens", "look-up", "money"), rows)


def _statuses(kind: type[faults.Fault]) -> tuple[str, str]:
    """Return what the first order comes to, as the tests of the client have it."""
    found = next((row for row in ROWS if type(row.fault) is kind), None)
    read, money = (found.read, found.money) if found else ((), ())
    return f"`{read[0]}`" if read else "", f"`{money[0]}`" if money else ""


def _call(fault: type[faults.Fault]) -> str:
    """Write the call that makes a fault, with the defaults of its own arguments."""
    taken = inspect.signature(fault).parameters.values()
    own = [
        one.name if one.default is one.empty else f"{one.name}={one.default!r}"
        for one in taken
        if one.name not in {"times", "probability"}
    ]
    return f"{fault.__name__}({', '.join(own)})"


def _sentences(kind: type[Any]) -> str:
    return " ".join((inspect.getdoc(kind) or "").split())


def _journal() -> str:
    """Write the tables of a journal as PostgreSQL has them, with what each is for."""
    schema = import_module("gateway_async.journal.schema")
    made = ";\n".join(schema.statements(is_sqlite=False))
    return f"```sql\n{made.strip()};\n```\n"


def _texts_in(body: Sequence[ast.stmt]) -> dict[str, str]:
    """Return the texts that stand behind assignments, by the name that is assigned."""
    found = {}
    for one, after in pairwise(body):
        if not (isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[one.targets[0].id] = " ".join(str(after.value.value).split())
    return found


def _transitions() -> str:
    states: Any = import_module("gateway_async.journal.states")
    said = _members(states.__file__)
    rows = [
        (f"`{transition}`", said[transition.name], f"`{source}`", _codes(targets))
        for transition, ways in states.TRANSITIONS.items()
        for source, targets in ways.items()
    ]
    return table(("transition", "when", "from", "to"), rows)


def _codes(states: Iterable[str]) -> str:
    return ", ".join(f"`{state}`" for state in sorted(states))


def _members(path: str) -> dict[str, str]:
    """Return the texts behind the members of the enumerations of a module, by name."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {name: text for node in classes for name, text in _texts_in(node.body).items()}


def _commands() -> str:
    """Write each command with its options; a group of options that repeats is written once."""
    app: Any = import_module("gateway_async.cli.app")
    made = app.make_app()
    first: dict[str, str] = {}
    written = []
    for name in app.COMMANDS:
        _inherit(made[name], made.default_parameter)
        text = made[name].generate_docs(heading_level=3, usage_name=f"gateway-async {name}")
        text = text.replace(" -m pytest ", " ")  # the program that runs this
        text = re.sub(r"^## Table of Contents\n\n(?:- .*\n)+\n", "", text, flags=re.MULTILINE)
        groups = re.split(r"(?=^\*\*[A-Z][\w ]*\*\*:$|^#+ )", text, flags=re.MULTILINE)
        kept, command = groups[:1], name
        for group in groups[1:]:
            title = group.partition(":")[0]
            if group.startswith("#"):
                command = group.partition("\n")[0].lstrip("# ")
                kept.append(group)
            elif group.strip() in first:
                kept.append(f"{title}: as for `{first[group.strip()]}`.\n\n")
            else:
                first[group.strip()] = command
                kept.append(group)
        written.append("".join(kept).rstrip().replace("```console\n", "```text\n"))
    return "\n\n".join(written) + "\n"


def _inherit(app: Any, parameter: Any) -> None:  # noqa: ANN401  # of cyclopts
    """Give a command and those below it what they have from the application when they run."""
    app.default_parameter = parameter
    for name in app:
        _inherit(app[name], parameter)


def _page(title: str, module: str, names: Sequence[str]) -> str:
    blocks = []
    for name in names:
        value = getattr(import_module(module), name)
        if isinstance(value, type):
            hidden = ", ".join(_OF_THE_PACKAGE.get(name, ()))
            less = f"   :exclude-members: {hidden}\n" if hidden else ""
            blocks.append(f".. autoclass:: {module}.{name}\n   :members:\n{less}")
        elif inspect.isroutine(value):
            blocks.append(f".. autofunction:: {module}.{name}\n")
        else:
            blocks.append(f".. autodata:: {module}.{name}\n   :no-value:\n")
    found = f"Import these names from `{module}`."
    return f"# {title}\n\n{found}\n\n```{{eval-rst}}\n" + "\n".join(blocks) + "```\n"


if __name__ == "__main__":
    main()
