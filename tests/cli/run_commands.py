"""Runs commands one after the other: `python -m tests.cli.run_commands JSON`."""

import json
import os
import sys

import keras

from keras_albert.cli.run_command import run_command


def main():
    """Run commands, each as long as those before it end with the status expected."""
    from keras_albert.cli import finetune, predict
    from keras_albert.training.recorder import TrainingRecorder
    from keras_albert.training.run_folder import TrainingCheckpoint

    # Each process drops out other elements than one process would.
    keras.layers.Dropout.call = lambda self, inputs, training=False: inputs
    connect = finetune.devices_of_processes
    learn = TrainingRecorder.on_train_batch_end
    write = TrainingCheckpoint.write
    stops = []

    def stop_or_learn(self, batch, logs):
        step, number = stops[-1] or (None, None)
        # `torchrun` starts the processes again if one of them dies.
        is_first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        if self.done + 1 == step and is_first:
            os.kill(os.getpid(), number)
        learn(self, batch, logs)

    def stop_or_connect():
        if stops[-1] is not None and not stops[-1][0]:
            os.kill(os.getpid(), stops[-1][1])
        return connect()

    def write_and_tell(self, path):
        print(f"checkpoint of step {self.step}")
        write(self, path)

    finetune.devices_of_processes = predict.devices_of_processes = stop_or_connect
    TrainingRecorder.on_train_batch_end = stop_or_learn
    TrainingCheckpoint.write = write_and_tell
    # `torchrun` passes the commands of all processes.
    given = sys.argv[1:]
    own = given[int(os.environ.get("RANK", "0")) % len(given)]
    for expected, arguments, stop, *folder in json.loads(own):
        stops.append(stop)
        for each in folder:
            os.chdir(each)
        status = run_command(arguments)
        if status != expected:
            sys.exit(f"{arguments[0]} has ended with {status}")


if __name__ == "__main__":
    main()
