"""The directive `chart`: a chart of `figures.py`, in the light and the dark theme."""

from pathlib import Path
from typing import Any, ClassVar

import figures
from docutils import nodes
from docutils.parsers.rst import Directive, directives


class Chart(Directive):
    """Show a chart by its name; `alt` describes it for those who do not see it."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return a frame with an image for each theme."""
        name = self.arguments[0]
        if name not in figures.CHARTS:
            raise self.error(f"There is no chart {name!r}: {', '.join(figures.CHARTS)}")
        frame = nodes.container(classes=["chart-frame"])
        frame += [
            nodes.image(
                uri=f"/images/charts/{name}-{mode}.svg",
                alt=self.options["alt"],
                classes=[f"only-{mode}", "chart"],
            )
            for mode in figures.THEMES
        ]
        return [frame]


def setup(app: Any) -> dict[str, bool]:
    """Draw the charts before Sphinx looks for them."""
    figures.draw_charts(Path(app.srcdir) / "images" / "charts")
    app.add_directive("chart", Chart)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
