"""What a benchmark says: figures beside their goals, and ratios taken within one run.

Two sides of a ratio run in turn, slice by slice, so that whatever else the machine does falls on
both; the ratio is the median over the slices, with its quartiles.
"""

import asyncio
import operator
import statistics
import time
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

_GOALS = {"at most": operator.le, "at least": operator.ge}


@attrs.frozen(kw_only=True)
class Goal:
    """Which value is wanted.

    Attributes:
        bound: ``"at most"`` or ``"at least"``.
        value: In the unit of its figure.
    """

    bound: str = attrs.field(validator=attrs.validators.in_(_GOALS))
    value: float

    def is_met(self, value: float) -> bool:
        """Say whether a measured value is as wanted."""
        return bool(_GOALS[self.bound](value, self.value))

    def __str__(self) -> str:
        return f"{self.bound} {self.value:g}"


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

    def __str__(self) -> str:
        spread = f" ({self.quartiles[0]:.3g} to {self.quartiles[1]:.3g})" if self.quartiles else ""
        text = f"{self.name}: {self.value:.3g}{spread} {self.unit}"
        if self.goal is None:
            return text
        verdict = "met" if self.goal.is_met(self.value) else "NOT MET"
        return f"{text}; goal {self.goal}: {verdict}"


def at_most(value: float) -> Goal:
    """Want this value or less."""
    return Goal(bound="at most", value=value)


def at_least(value: float) -> Goal:
    """Want this value or more."""
    return Goal(bound="at least", value=value)


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


def cpu_seconds(
    run: "Callable[[], Coroutine[Any, Any, object]]",
    loop_factory: "Callable[[], asyncio.AbstractEventLoop] | None" = None,
) -> float:
    """Return the CPU time of this process, all threads, while a coroutine runs in a new loop."""
    started = time.process_time()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(run())
    return time.process_time() - started


def show(figures: "Iterable[Figure]") -> None:
    """Print figures, a line each."""
    for figure in figures:
        print(figure)
