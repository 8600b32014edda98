"""Reproducible runs of `finetune`, and their comparison."""

import json

import h5py
import numpy as np

GOOD, BAD, FILLER = ("lamps", "bread"), ("rain", "storm"), ("the", "old", "hill", "by")
EPOCHS, STEPS = 3, 3


def write_files(folder):
    """Write the training and the dev file of a run of `EPOCHS` times `STEPS` steps."""
    random = np.random.default_rng(0)
    for name, count in (("train.tsv", 8 * STEPS), ("dev.tsv", 12)):
        lines = ["text\tlabel"]
        for row in range(count):
            words = [*random.choice(FILLER, random.integers(1, 7))]
            words += [*random.choice((GOOD, BAD)[row % 2], 2)]
            lines.append(" ".join(random.permutation(words)) + "\t" + "gb"[row % 2])
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def training_file(dev):
    """Write a file with the rows of another one, and the last one twice."""
    text = dev.read_bytes().rstrip(b"\n")
    path = dev.with_name(f"train{dev.suffix}")
    path.write_bytes(text + b"\n" + text.split(b"\n")[-1])
    return path


def flags(folder, output, **changed):
    """Return the arguments of the command."""
    options = {
        "train": folder / "train.tsv",
        "dev": folder / "dev.tsv",
        "output": output,
        "epochs": EPOCHS,
        "batch-size": 8,
        "max-length": 16,
        "learning-rate": 0.02,
        **changed,
    }
    return [str(p) for name, value in options.items() for p in (f"--{name}", value)]


def assert_same_outcome(found, expected):
    """Weights, scores, curves, plots and names of files are equal, bit by bit."""
    for name in ("curve.csv", "learning_curve.png"):
        assert (found / name).read_bytes() == (expected / name).read_bytes()
    a, b = (
        json.loads((folder / "report.json").read_text()) for folder in (found, expected)
    )
    assert a["epochs"] == b["epochs"]
    assert a["scores"] == b["scores"]
    a, b = (weights_of(folder / "preset") for folder in (found, expected))
    assert a.keys() == b.keys()
    assert len(a) > 10
    for name, values in a.items():
        np.testing.assert_array_equal(values, b[name], err_msg=name)
    names = [sorted(path.name for path in each.iterdir()) for each in (found, expected)]
    assert names[0] == names[1]


def weights_of(preset):
    """Return the arrays of a preset by their names."""
    arrays = {}
    for path in sorted(preset.glob("*.h5")):
        with h5py.File(path) as file:

            def keep(name, item, path=path):
                if isinstance(item, h5py.Dataset):
                    arrays[path.name, name] = item[()]

            file.visititems(keep)
    return arrays
