"""Writes the curve of a run for TensorBoard, on any backend."""

import importlib.util
import time
from collections.abc import Mapping
from pathlib import Path


def write_tensorboard_row(directory: Path, row: Mapping[str, float]) -> None:
    """Append a row to TensorBoard's files, if the package `tensorboard` is installed.

    Keras' callback requires TensorFlow. Scores on held-out documents are written to a
    separate folder, under the same names, so that both appear in one chart.

    Args:
        directory: Path. TensorBoard's `--logdir`.
        row: dict of float. `step`, and the values at that step.
    """
    if importlib.util.find_spec("tensorboard") is None:
        return
    values = {name: value for name, value in row.items() if name != "step"}
    held_out = {
        name.removeprefix("val_"): value
        for name, value in values.items()
        if name.startswith("val_")
    }
    train = {name: values[name] for name in values if not name.startswith("val_")}
    for folder, scalars in (("train", train), ("held_out", held_out)):
        if scalars:
            _append(directory / folder / "events.out.tfevents", row["step"], scalars)


def _append(path: Path, step: float, scalars: dict[str, float]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415  (an extra)
    from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
    from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415

    values = [
        Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()
    ]
    events = [
        Event(wall_time=time.time(), step=int(step), summary=Summary(value=values))
    ]
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        events.insert(0, Event(wall_time=time.time(), file_version="brain.Event:2"))
    with path.open("ab") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString())
