"""The chart of the README: what an order costs beside what users would pick instead."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.figures import Figure

OURS = "gateway_async"
INK, ACCENT, MUTED = "#24292f", "#0969da", "#8c959f"


def draw(figures: "Sequence[Figure]", path: "Path") -> None:
    """Draw a bar for each absolute figure of `benchmarks.compare`, on a logarithmic scale.

    Args:
        figures: What `benchmarks.compare.measure` gave.
        path: Where the SVG is written.
    """
    import matplotlib as mpl  # noqa: PLC0415  # the figures can be had without it
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415

    bars = sorted(
        (figure for figure in figures if figure.unit.startswith("µs")),
        key=lambda figure: figure.value,
        reverse=True,
    )
    # Text stays text, and the same figures give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": OURS, "font.size": 10}):
        canvas = Canvas(figsize=(8, 0.5 * len(bars) + 0.9), layout="constrained")
        axes = canvas.subplots()
        axes.barh(
            [bar.name for bar in bars],
            [bar.value for bar in bars],
            color=[ACCENT if bar.name == OURS else MUTED for bar in bars],
        )
        axes.set_xscale("log")
        axes.set_xlim(1, max(bar.value for bar in bars) * 2)
        axes.set_xlabel("µs CPU an order (logarithmic)", color=INK)
        for place, bar in enumerate(bars):
            axes.text(bar.value * 1.06, place, f"{bar.value:.3g}", va="center", color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        canvas.savefig(path, format="svg", facecolor="white", metadata={"Date": None})
