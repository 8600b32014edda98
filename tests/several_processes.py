"""How processes on this machine find each other, on each backend."""

import json
import os
import socket
import subprocess
import sys

import keras

BACKEND = keras.config.backend()


def environments(processes):
    """The environment variables of each process, with free ports."""
    with socket.socket() as free, socket.socket() as other:
        for each in (free, other):
            each.bind(("127.0.0.1", 0))
        hosts = [f"127.0.0.1:{each.getsockname()[1]}" for each in (free, other)]
    for number in range(processes):
        if processes == 1:
            yield {}
        elif BACKEND == "tensorflow":
            task = {"type": "worker", "index": number}
            cluster = {"cluster": {"worker": hosts}, "task": task}
            yield {"TF_CONFIG": json.dumps(cluster)}
        elif BACKEND == "jax":
            yield {
                "KERAS_DISTRIBUTION_JOB_ADDRESSES": hosts[0],
                "KERAS_DISTRIBUTION_NUM_PROCESSES": str(processes),
                "KERAS_DISTRIBUTION_PROCESS_ID": str(number),
            }
        else:
            yield {
                "WORLD_SIZE": str(processes),
                "RANK": str(number),
                "LOCAL_RANK": str(number),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": hosts[0].rpartition(":")[2],
            }


def start(module, arguments, **variables):
    """Start a module in as many processes as there are lists of arguments."""
    given = list(arguments)
    return [
        subprocess.Popen(
            [sys.executable, "-m", module, *map(str, each)],
            env=os.environ | variables | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for each, environment in zip(given, environments(len(given)), strict=True)
    ]


def start_with_torchrun(module, arguments, **variables):
    """Start a module in two processes, which are started again if one of them dies."""
    options = ("--standalone", "--nproc-per-node=2", "--max-restarts=1", "-m", module)
    given = [[*options, *arguments]]
    # Or they may find the addresses of those before.
    variables |= {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return start("torch.distributed.run", given, **variables)


def virtual_devices(count):
    """Return the variable by which JAX has so many devices."""
    flags = os.environ.get("XLA_FLAGS", "")
    devices = f"--xla_force_host_platform_device_count={count}"
    return {"XLA_FLAGS": f"{flags} {devices}"}


def finish(running, timeout=600):
    """Wait for processes to succeed, and return what each printed."""
    try:
        printed = [process.communicate(timeout=timeout)[0] for process in running]
    finally:
        # One that waits for another takes no notice of SIGTERM.
        for process in running:
            process.kill()
    ended = [process.returncode for process in running]
    assert not any(ended), "\n".join(text[-3000:] for text in printed)
    return printed
