"""The console that the commands print to."""

from rich.console import Console


def plain_console() -> Console:
    """Return a console that prints names of files and classes as they are.

    Rich would read "[red]" as a style, and ":cat:" as an emoji.
    """
    return Console(markup=False, emoji=False)
