import re
import sys
from types import SimpleNamespace

import keras

from keras_albert.utils.environment import cpu_cores, describe_hardware


def test_a_cpu_has_its_cores_and_its_name():
    cores, name = re.fullmatch(r"(\d+) cores of (.+)", describe_hardware()).groups()
    assert int(cores) == cpu_cores() > 0
    assert name.strip()


def test_accelerators_of_the_backend_have_their_name(monkeypatch):
    backend = keras.config.backend()
    library = sys.modules[backend]
    if backend == "torch":
        monkeypatch.setattr(library.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(library.cuda, "get_device_name", lambda number: "Fast")
    elif backend == "jax":
        found = [SimpleNamespace(platform="gpu", device_kind="Fast")] * 2
        monkeypatch.setattr(library, "devices", lambda: found)
    else:
        config = library.config
        found = [SimpleNamespace(device_type=name) for name in ("CPU", "GPU", "GPU")]
        monkeypatch.setattr(config, "list_physical_devices", lambda: found)
        monkeypatch.setattr(
            config.experimental,
            "get_device_details",
            lambda device: {"device_name": "Fast"},
        )
    assert describe_hardware() == "2 x Fast"
