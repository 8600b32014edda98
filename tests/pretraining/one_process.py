"""One process of a distributed run: `python -m tests.pretraining.one_process`."""

import json
import os
import signal
import sys


def main():
    """Pretrain by the settings in a file, on the number of virtual CPUs in it."""
    with open(sys.argv[1], encoding="utf-8") as file:
        given = json.load(file)
    import keras

    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        devices = [tf.config.LogicalDeviceConfiguration()] * given["devices"]
        tf.config.set_logical_device_configuration(cpu, devices)
    from keras_albert.pretraining import PretrainingBatches, PretrainingConfig, pretrain

    read, stopped = PretrainingBatches.batch, []

    def read_or_die(self, step, shard=0, num_shards=1):
        # One process only, as if one machine were taken away.
        stops = given["stops_at"] is not None and step >= given["stops_at"]
        if stops and shard and not stopped:
            stopped.append(step)
            os.kill(os.getpid(), signal.SIGTERM)
        if given["dies_at"] is not None and step >= given["dies_at"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return read(self, step, shard, num_shards)

    PretrainingBatches.batch = read_or_die
    pretrain(PretrainingConfig(**given["settings"]), verbose=0)


if __name__ == "__main__":
    main()
