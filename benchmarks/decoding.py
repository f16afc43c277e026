"""What do typed records cost, against the parsing of their JSON alone?

Run as ``python -m benchmarks.decoding``. Every side begins with the same bytes, a hundred whole
transactions as a query gives them, and ends with an object a record: an amount that is a
`Decimal`, a time that is a `datetime`. The floor is `orjson.loads`. Only our side reads what is
sloppy, and says what it could not read; the peers raise.
"""

import functools
import gc
import time
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import cattrs
import orjson
import pydantic

from benchmarks.figures import alternate, at_most, median_of, ratio_of, show
from benchmarks.replies import RECORDS, transactions_json
from gateway_async.models.records import Record, TransactionRecord
from gateway_async.wire.records import read_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.figures import Figure

ROUNDS = 31
REPEATS = 40


def _read_time(text: object, _: object = None) -> datetime:
    return datetime.fromisoformat(f"{str(text)[:8]}T{str(text)[8:]}")


def ours(body: bytes) -> object:
    """Read a page of records as the client does."""
    return read_page(TransactionRecord, orjson.loads(body), "orders_list").records


def plain_cattrs() -> "Callable[[bytes], object]":
    """Return what reads the same classes by a converter of cattrs, told of two types only."""
    converter = cattrs.Converter(detailed_validation=False)
    converter.register_structure_hook_func(lambda wanted: wanted is object, lambda value, _: value)
    converter.register_structure_hook(Decimal, lambda value, _: Decimal(value))
    converter.register_structure_hook(datetime, _read_time)

    def read(body: bytes) -> object:
        return converter.structure(orjson.loads(body)["orders_list"], list[TransactionRecord])

    return read


def plain_pydantic() -> "Callable[[bytes], object]":
    """Return what reads frozen models of pydantic, of the same fields, from the very bytes."""
    fields: dict[str, Any] = {"orders_list": (tuple[_twin(TransactionRecord), ...], ...)}  # type: ignore[misc]  # made here
    page: Any = pydantic.create_model("Page", **fields)
    return lambda body: page.model_validate_json(body).orders_list


def _twin(model: Any) -> Any:  # noqa: ANN401  # classes made here
    """Return a model of pydantic with the fields of one of ours."""
    fields: dict[str, Any] = {
        field.name: (_twin_type(field.type), field.default)
        for field in attrs.fields(model)
        if field.name not in attrs.fields_dict(Record)
    }
    frozen = pydantic.ConfigDict(frozen=True)
    return pydantic.create_model(model.__name__, __config__=frozen, **fields)


def _twin_type(wanted: Any) -> Any:  # noqa: ANN401  # any annotation
    """Write an annotation for pydantic."""
    part: Any = wanted.__args__[0]
    if part is datetime:
        part = Annotated[datetime, pydantic.BeforeValidator(_read_time)]
    elif attrs.has(part):
        part = _twin(part)
    return tuple[part, ...] if ... in wanted.__args__ else part | None


def measure() -> "list[Figure]":
    """Return what each costs, as a ratio to the parsing alone."""
    body = transactions_json()
    readers: dict[str, Callable[[bytes], object]] = {
        "orjson.loads": orjson.loads,
        "ours": ours,
        "plain cattrs": plain_cattrs(),
        "pydantic": plain_pydantic(),
    }
    gc.collect()
    gc.freeze()  # else a full collection walks all that the peers import, at the cost of one side
    microseconds = alternate(
        {name: functools.partial(_microseconds, read, body) for name, read in readers.items()},
        ROUNDS,
    )
    floor = microseconds.pop("orjson.loads")
    goals = {"ours": at_most(3.0)}
    return [
        median_of("parsing alone", floor, "µs CPU a record", detail="orjson.loads"),
        *(
            ratio_of(
                f"{RECORDS} transactions to typed records, {name}",
                values,
                floor,
                "x orjson.loads",
                goal=goals.get(name),
            )
            for name, values in microseconds.items()
        ),
    ]


def _microseconds(read: "Callable[[bytes], object]", body: bytes) -> float:
    """Return the CPU time of one slice, in microseconds a record."""
    started = time.process_time()
    for _ in range(REPEATS):
        read(body)
    return (time.process_time() - started) / (REPEATS * RECORDS) * 1e6


if __name__ == "__main__":
    show(measure())
