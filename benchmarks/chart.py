"""The chart of the README: what an order costs beside what users would pick instead."""

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OURS = "gateway_async"
UNIT = "µs CPU an order"
ONE_BY_ONE = "one by one"

_LEFT, _WIDTH, _STEP, _TOP = 310, 330, 34, 70
_STYLE = """
    text { font: 14px system-ui, sans-serif; fill: #1f2328 }
    .page { fill: #ffffff }
    .title { font-size: 16px; font-weight: 600 }
    .note { fill: #59636e }
    .bar { fill: #818b98 } .ours { fill: #0969da } .axis { stroke: #818b98 }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117 } text { fill: #f0f6fc } .note { fill: #9198a1 }
      .bar { fill: #656c76 } .ours { fill: #4493f8 } .axis { stroke: #656c76 }
    }"""


def draw(rows: "Sequence[Mapping[str, Any]]") -> str:
    """Return an SVG with a bar from zero for each side that sends requests of 50 orders.

    Its colours follow the reader's light or dark scheme. A side that sends one order a request
    would make every other bar invisible; the README gives its figure.

    Args:
        rows: The figures of `benchmarks.compare`, as `results.json` has them.
    """
    bars = sorted(
        (row for row in rows if row["unit"] == UNIT and ONE_BY_ONE not in row["name"]),
        key=lambda row: float(row["value"]),
    )
    longest = max(float(row["value"]) for row in bars)
    height = _TOP + _STEP * len(bars) + 8
    label = "; ".join(f"{row['name']}: {row['value']:.3g}" for row in bars)
    opening = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" role="img"'
    lines = [
        f'<svg {opening} aria-label="{escape(f"{UNIT}: {label}")}">',
        f"  <style>{_STYLE}\n  </style>",
        f'  <rect class="page" width="720" height="{height}" rx="6"/>',
        '  <text class="title" x="16" y="28">CPU time of one refund, in µs</text>',
        '  <text class="note" x="16" y="50">requests of 50 refunds; a shorter bar is better</text>',
        f'  <line class="axis" x1="{_LEFT}" x2="{_LEFT}" y1="{_TOP - 6}" y2="{height - 8}"/>',
    ]
    for number, row in enumerate(bars):
        top = _TOP + _STEP * number
        width = _WIDTH * float(row["value"]) / longest
        name = escape(_short(row["name"]))
        kind = "ours" if row["name"] == OURS else "bar"
        lines += [
            f'  <text x="{_LEFT - 10}" y="{top + 16}" text-anchor="end">{name}</text>',
            f'  <rect class="{kind}" x="{_LEFT}" y="{top}" width="{width:.1f}" height="22"/>',
            f'  <text x="{_LEFT + width + 8:.1f}" y="{top + 16}">{row["value"]:.3g}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _short(name: str) -> str:
    """Return a name that fits beside the bars."""
    return name.replace("bodies written beforehand (the floor)", "ready bodies (floor)").replace(
        "gather and semaphore by hand", "loop by hand"
    )
