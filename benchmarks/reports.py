"""Reports of measurements as tables, JSON files and plots."""

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from side_by_side import Comparison, spread

PACKAGES = (
    *("keras-albert", "keras", "keras-hub", "transformers", "tokenizers"),
    *("tensorflow", "tensorflow-text", "jax", "jaxlib", "torch", "sentencepiece"),
    *("numpy", "libtpu"),
)
OURS = "keras_albert"


def versions() -> dict[str, str]:
    """Return the versions of installed packages."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Describe the machine."""
    # Not before Keras' backend is chosen.
    from keras_albert.utils.environment import cpu_cores, cpu_name

    system = platform.platform(terse=True)
    found: dict[str, Any] = {"cpu": cpu_name(), "cores": cpu_cores(), "system": system}
    if hasattr(os, "getloadavg"):
        found["load_before"] = round(os.getloadavg()[0], 1)
    if threads := os.environ.get("OMP_NUM_THREADS"):
        found["OMP_NUM_THREADS"] = threads
    return found | _accelerator()


def _accelerator() -> dict[str, str]:
    """Return the accelerator, if any, that the loaded libraries use."""
    jax, torch = (sys.modules.get(name) for name in ("jax", "torch"))
    if jax is not None and jax.default_backend() != "cpu":
        return {"accelerator": jax.devices()[0].device_kind}
    if torch is not None and torch.cuda.is_available():
        return {"accelerator": torch.cuda.get_device_name()}
    return {}


def better_peer(comparison: Comparison) -> tuple[str, tuple[float, float, float]]:
    """Return the fastest peer and the spread of its ratios to keras_albert."""
    peers = [name for name in comparison.costs if not name.startswith(OURS)]
    ratios = {name: spread(comparison.ratios(name)) for name in peers}
    return min(ratios.items(), key=lambda item: item[1][1])


def report(
    name: str,
    comparisons: Iterable[Comparison],
    arguments: argparse.Namespace,
    backend: str = "",
) -> Path:
    """Print the tables, write the JSON file, and draw the plots.

    Args:
        name: string. The name of the benchmark.
        comparisons: The comparisons; each is reported as soon as the iterable yields
            it.
        arguments: The settings.
        backend: string. The Keras backend. Defaults to `""`, if it does not matter.

    Returns:
        The path of the JSON file.
    """
    settings = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in vars(arguments).items()
    }
    found = {
        "benchmark": name,
        "backend": backend,
        "machine": machine(),
        "versions": versions(),
        "settings": settings,
        "comparisons": [],
    }
    stem = re.sub(r"\W+", "_", f"{name}_{backend}".strip("_"))
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / f"{stem}.json"
    _print_setting(found)
    for comparison in comparisons:
        _print(comparison)
        found["comparisons"].append(_as_json(comparison))
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        slug = re.sub(r"\W+", "_", comparison.title.lower()).strip("_")
        draw(comparison, arguments.output / f"{stem}_{slug}.png")
    return path


def _as_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "title": comparison.title,
        "unit": comparison.unit,
        "work": comparison.work,
        "notes": comparison.notes,
        "sides": {
            name: {
                "costs": costs,
                "amount": comparison.amounts[name],
                "ratio": spread(comparison.ratios(name)),
            }
            for name, costs in comparison.costs.items()
        },
    }


def _console() -> Any:
    from rich.console import Console

    # Wide enough for all columns if written to a file.
    console = Console()
    return Console(width=max(console.width, 120), soft_wrap=True)


def _print_setting(found: dict[str, Any]) -> None:
    console = _console()
    console.print(f"{found['benchmark']}, backend {found['backend'] or '-'}")
    for part in ("machine", "versions", "settings"):
        words = ", ".join(f"{name} {value}" for name, value in found[part].items())
        console.print(words, highlight=False, markup=False)


def _print(comparison: Comparison) -> None:
    from rich.table import Table

    console = _console()
    unit, work = comparison.unit, comparison.work
    table = Table(title=comparison.title, title_justify="left")
    table.add_column("side", no_wrap=True)
    columns = [unit, "least to most", *([f"{work}/{unit}"] if work else [])]
    for column in (*columns, "times the first", "least to most"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, costs in comparison.costs.items():
        least, median, most = spread(costs)
        row = [name, f"{median:.4g}", f"{least:.4g} to {most:.4g}"]
        if work:
            row.append(f"{comparison.amounts[name] / median:.4g}")
        least, median, most = spread(comparison.ratios(name))
        table.add_row(*row, f"{median:.2f}", f"{least:.2f} to {most:.2f}")
    console.print(table)
    if any(not side.startswith(OURS) for side in comparison.costs):
        peer, (least, median, most) = better_peer(comparison)
        words = f"the better peer: {peer}, {median:.2f} ({least:.2f} to {most:.2f})"
        console.print(words)
    for note in comparison.notes:
        console.print(f"- {note}", highlight=False, markup=False)


def draw(comparison: Comparison, path: Path) -> None:
    """Plot the cost of a unit of work on each side: median, minimum and maximum."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    names = list(comparison.costs)
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.4 * len(names)))
    for place, name in enumerate(names):
        amount = comparison.amounts[name]
        least, median, most = spread([c / amount for c in comparison.costs[name]])
        color = "tab:orange" if name.startswith(OURS) else "tab:blue"
        error = [[median - least], [most - median]]
        axes.barh(place, median, xerr=error, color=color, ecolor="0.3", capsize=2)
        ratio = spread(comparison.ratios(name))[1]
        axes.text(most, place, f"  {ratio:.2f}", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    per = f" for one of the {comparison.work}" if comparison.work else ""
    axes.set_xlabel(f"{comparison.unit}{per}; behind the bars, times the first")
    axes.set_title(comparison.title, loc="left")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
