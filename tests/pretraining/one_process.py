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
        dies = given["dies_at"] is not None and step >= given["dies_at"]
        # Once and only one process, if `torchrun` then starts all of them again.
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT")
        if dies and (restarts is None or (shard and restarts == "0")):
            os.kill(os.getpid(), signal.SIGKILL)
        return read(self, step, shard, num_shards)

    PretrainingBatches.batch = read_or_die
    settings = given["settings"]
    if given["stops_at"] is not None and keras.config.backend() != "tensorflow":
        # TensorFlow connects workers once.
        refuse(settings, pretrain, PretrainingConfig)
    pretrain(PretrainingConfig(**settings), verbose=0)


def refuse(settings, pretrain, config):
    """Print what all processes are told if the second one has something else."""
    from keras_albert.pretraining.prepared_files import PreparedMetadata

    module = sys.modules[pretrain.__module__]
    names = ("RANK", "KERAS_DISTRIBUTION_PROCESS_ID")
    is_other = any(os.environ.get(name) == "1" for name in names)
    before = module.versions, module.content_of, PreparedMetadata.to_json
    for changed in ("versions", "settings", "preset", "data"):
        given = dict(settings)
        if is_other and changed == "versions":
            module.versions = lambda: {"keras": "2"}
        elif is_other and changed == "settings":
            given["seed"] = 7
        elif is_other and changed == "preset":
            module.content_of = lambda preset: "other"
        elif is_other:
            PreparedMetadata.to_json = lambda self: "{}"
        try:
            pretrain(config(**given), verbose=0)
        except ValueError as error:
            print(error)
        module.versions, module.content_of, PreparedMetadata.to_json = before


if __name__ == "__main__":
    main()
