"""`keras-albert calibrate`: probabilities and sets of labels with a known error."""

import argparse

from keras_albert.commands.judge import check_labels
from keras_albert.commands.report import plain_console
from keras_albert.commands.tasks import known_task
from keras_albert.conversion.convert import load_task
from keras_albert.tasks import AlbertClassifier


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    task = load_task(arguments.preset)
    if not isinstance(task, AlbertClassifier):
        raise ValueError(
            f"{arguments.preset} is an {type(task).__name__}, and classifiers are "
            "calibrated. Pass one that `keras-albert finetune classification` wrote."
        )
    data = known_task(task).read(arguments.file, arguments)
    console = plain_console()
    console.print(data.description, highlight=False)
    if not task.is_regression:
        check_labels(task, data)
    found = task.calibrate(data.x, data.y, arguments.error_rate)
    task.save_to_preset(arguments.output)
    for name, value in found.items():
        console.print(f"{name.replace('_', ' ')}: {value:.4f}", highlight=False)
    console.print(f"model: {arguments.output}", soft_wrap=True)
