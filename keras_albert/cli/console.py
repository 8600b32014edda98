"""The console of the commands."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.table import Table

from keras_albert.tools.report import Report
from keras_albert.training.run_folder import RunFolder

RESUME = "run the same command to resume"


def plain_console(quiet: bool = False) -> Console:
    """Return a console that prints names of files and classes as they are."""
    # Rich would read "[red]" as a style, and ":cat:" as an emoji.
    return Console(markup=False, emoji=False, quiet=quiet)


@contextmanager
def resumable_run(output: Path, is_chief: bool = True) -> Iterator[RunFolder]:
    """Lock the directory of a run; if it is stopped, say how to resume it."""
    try:
        # Other processes of the same run do not write.
        with (
            RunFolder.at(output) as folder,
            folder.locked() if is_chief else nullcontext(),
        ):
            yield folder
    except KeyboardInterrupt as stop:
        stop.add_note(RESUME)
        raise


def print_results(folder: RunFolder, plots: Sequence[Path]) -> None:
    """Print where the results of a run are."""
    console = plain_console()
    report = folder.shown(folder.path / "report.json")
    console.print(f"model: {folder.shown(folder.preset)}\nreport: {report}")
    shown = [folder.shown(plot) for plot in plots]
    for plot in shown or ("none: pip install matplotlib",):
        console.print(f"plot: {plot}")


def show_report(
    console: Console,
    report: Report,
    intervals: Mapping[str, tuple[float, float]] | None = None,
) -> None:
    """Print the metrics, with their intervals if there are any, and each class."""
    columns = ("metric", "dev") if intervals is None else ("metric", "value", "95%")
    table = Table(*columns)
    for name, value in report.scores.items():
        row = [name, f"{value:.4f}"]
        if intervals and name in intervals:
            row.append("{:.4f} to {:.4f}".format(*intervals[name]))
        table.add_row(*row)
    console.print(table)
    if not report.classes:
        return
    table = Table("class", *next(iter(report.classes.values())))
    for name, measures in report.classes.items():
        table.add_row(name, *(f"{value:.4g}" for value in measures.values()))
    console.print(table)
