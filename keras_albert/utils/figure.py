"""Figures of matplotlib, which is an extra."""

from typing import Any

from keras_albert.utils.packages import check_packages


def check_figures() -> None:
    """Check that figures can be drawn, before there is work to lose."""
    check_packages("A figure", "keras-albert[examples]", "matplotlib")


def new_figure(width: float, height: float) -> Any:
    """Return a figure of matplotlib; the size is in inches."""
    check_figures()
    # Not with pyplot, which would choose a window system.
    from matplotlib.figure import Figure  # noqa: PLC0415  (an extra)

    return Figure(figsize=(width, height), layout="constrained")
