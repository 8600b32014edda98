"""Runs commands one after the other: `python -m tests.commands.run_commands JSON`."""

import json
import sys

import keras

from keras_albert_cli.run_command import run_command

if __name__ == "__main__":
    # Each process drops out other elements than one process would.
    keras.layers.Dropout.call = lambda self, inputs, training=False: inputs
    # As long as they end as expected.
    for expected, arguments in json.loads(sys.argv[1]):
        status = run_command(arguments)
        if bool(status) != bool(expected):
            sys.exit(f"{arguments[0]} has ended with {status}")
