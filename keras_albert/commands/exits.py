"""`keras-albert exits`: compares rules by which texts leave a classifier early."""

import argparse
from typing import Any

from keras_albert.commands.tasks import known_task
from keras_albert.conversion.convert import load_task
from keras_albert.tasks import describe_exits, measure_exits, plot_exits
from keras_albert.training.run_folder import write_report
from keras_albert.utils.atomic_files import atomic_file, check_new_file
from keras_albert.utils.environment import check_figures
from keras_albert.utils.remote import local_path

_FILES = ("exits.json", "exits.png")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    if arguments.output is None:
        _show_exits(arguments)
        return
    check_figures()
    paths = [local_path(arguments.output) / name for name in _FILES]
    for path in paths:
        check_new_file(path, overwrite=True)
    # What cannot be written is refused before the work.
    with atomic_file(paths[0]) as table, atomic_file(paths[1]) as picture:
        rows = _show_exits(arguments)
        settings = {k: v for k, v in vars(arguments).items() if k != "output"}
        write_report(table, {"rows": rows, "settings": settings})
        plot_exits(rows).savefig(picture, format="png", dpi=120)
    print(*paths, sep="\n")


def _show_exits(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    task = load_task(arguments.preset)
    if not getattr(task, "exits", 0):
        raise ValueError(
            f"{arguments.preset} is an {type(task).__name__} without exits. Train a "
            "classifier with `keras-albert finetune classification --exits`, or in "
            "Python with `AlbertClassifier(..., exits=True)`."
        )
    dev = known_task(task).read(arguments.dev, arguments)
    print(dev.description)
    rows = measure_exits(
        *(task, dev.x, dev.y, arguments.batch_size),
        patiences=arguments.patience,
        thresholds=arguments.threshold,
        tolerances=arguments.tolerance,
        rounds=arguments.rounds,
    )
    print(describe_exits(rows))
    return rows
