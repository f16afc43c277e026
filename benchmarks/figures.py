"""What a benchmark says: figures beside their goals, and ratios taken within one run.

Two sides of a ratio run in turn, slice by slice, so that whatever else the machine does falls on
both; the ratio is the median over the slices, with its quartiles.
"""

import asyncio
import operator
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    Run = Callable[[str], Coroutine[Any, Any, object]]
    Side = tuple[Run, str, int]

_BOUNDS = {"at most": operator.le, "at least": operator.ge}
Goal: TypeAlias = tuple[str, float]
"""A bound, and the value that it bounds, in the unit of the figure."""


def at_most(value: float) -> Goal:
    """Want this value or less."""
    return "at most", value


def at_least(value: float) -> Goal:
    """Want this value or more."""
    return "at least", value


@attrs.frozen(kw_only=True)
class Figure:
    """One measured value.

    Attributes:
        name: What was measured, in words.
        value: The median.
        unit: Such as ``"µs CPU an order"``; ``"x floor"`` and the like for ratios.
        quartiles: The lower and the upper one, where there were several slices.
        goal: Which value is wanted, if any was set.
        detail: How it was measured, in words.
    """

    name: str
    value: float
    unit: str
    quartiles: tuple[float, float] | None = None
    goal: Goal | None = None
    detail: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return it as `results.json` has it, to three digits."""
        bound, wanted = self.goal or ("", 0.0)
        return {
            "name": self.name,
            "value": float(f"{self.value:.3g}"),
            "quartiles": self.quartiles and [float(f"{one:.3g}") for one in self.quartiles],
            "unit": self.unit,
            "goal": f"{bound} {wanted:g}" if bound else None,
            "met": bool(_BOUNDS[bound](self.value, wanted)) if bound else None,
            "detail": self.detail,
        }


def median_of(
    name: str, values: "Iterable[float]", unit: str, *, goal: Goal | None = None, detail: str = ""
) -> Figure:
    """Return the median of several values, with their quartiles, as a figure."""
    lower, median, upper = statistics.quantiles(values, n=4)
    return Figure(
        name=name, value=median, unit=unit, quartiles=(lower, upper), goal=goal, detail=detail
    )


def ratio_of(  # noqa: PLR0913  # a figure is said by its parts
    name: str,
    ours: "Sequence[float]",
    theirs: "Sequence[float]",
    unit: str,
    *,
    goal: Goal | None = None,
    detail: str = "",
) -> Figure:
    """Return the median of the ratios, slice by slice, with their quartiles, as a figure."""
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return median_of(name, ratios, unit, goal=goal, detail=detail)


def alternate(sides: "Mapping[str, Callable[[], float]]", rounds: int) -> dict[str, list[float]]:
    """Measure several sides in turn.

    Args:
        sides: What measures one slice of each side.
        rounds: How many slices each side gets, after one that only warms up.

    Returns:
        The values of each side, a slice each, in the same order.
    """
    values: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side, measure in sides.items():
            value = measure()
            if number:
                values[side].append(value)
    return values


def cpu_costs(sides: "Mapping[str, Side]", rounds: int) -> dict[str, list[float]]:
    """Run several sides in turn, each in a new event loop.

    Args:
        sides: By name, what is run, the address that it takes, and how many orders that is.
        rounds: How many slices each side gets.

    Returns:
        The CPU time of this process, all threads, in µs an order.
    """

    def cost(run: "Run", url: str, orders: int) -> float:
        started = time.process_time()
        asyncio.run(run(url))
        return (time.process_time() - started) / orders * 1e6

    return alternate({name: partial(cost, *side) for name, side in sides.items()}, rounds)


def show(figures: "Iterable[Figure]") -> None:
    """Print figures, a line each."""
    for row in (figure.as_data() for figure in figures):
        spread = " ({:.3g} to {:.3g})".format(*row["quartiles"]) if row["quartiles"] else ""
        verdict = "met" if row["met"] else "NOT MET"
        wanted = f"; goal {row['goal']}: {verdict}" if row["goal"] else ""
        print(f"{row['name']}: {row['value']:.3g}{spread} {row['unit']}{wanted}")
