"""Compare second tasks of pretraining: sentence order, next sentence, or none.

    keras-albert prepare "text/*.gz" --output prepared --vocabulary-size 8192
    python examples/second_task.py prepared --output runs/second_task

Pretrains the same small model, of `second_task.toml`, three times, with each second
task and with none, and tests each on both tasks: a linear probe on the vector of
`[CLS]` is trained on training documents and tested on held-out ones, where chance is
50%. The paper found that a model pretrained with next-sentence prediction learns topics
and is at chance on sentence order, while one pretrained with sentence order solves both
([Lan et al., 2020](https://arxiv.org/abs/1909.11942), table 5, with models a hundred
times as large). Rows are the beginnings of both segments, which contain most cues of
the order. After an interruption, the same command resumes.

It needs much text: before some ten million tokens, a model learns only frequencies and
no order (docs/pretraining_experiments.md, "Settings for a small model"). `--preset`
starts all three from a model that was pretrained without a second task.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from keras_albert.cli.arguments import whole_number
from keras_albert.cli.loading import loading

with loading("second_task.py"):
    import keras
    import matplotlib as mpl
    import numpy as np
    from rich.console import Console
    from rich.table import Table
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from keras_albert import AlbertBackbone
    from keras_albert.pretraining import PretrainingConfig, PretrainingData, pretrain

    mpl.use("Agg")
    import matplotlib.pyplot as plt

SETTINGS = Path(__file__).with_suffix(".toml")
NAMES = {
    "sentence_order": "sentence order",
    "next_sentence": "next sentence",
    "none": "none",
}
TASKS = ("sentence_order", "next_sentence")


def features(
    reader: keras.Model, data: PretrainingData, length: int | None, count: int
) -> tuple[Any, Any]:
    """Return the vectors of `[CLS]` of unmasked pairs, and which pairs were changed."""
    batches = data.batches(64, length)
    vectors, labels = [], []
    for step in range(-(-count // 64)):
        x, y, _ = batches.batch(step)
        ids = x["token_ids"]
        # Undo the masking, as texts are not masked in fine-tuning.
        rows, slots = np.nonzero(x["mask_positions"])
        ids[rows, x["mask_positions"][rows, slots]] = y["masked_lm"][rows, slots]
        inputs = {name: x[name] for name in ("segment_ids", "padding_mask")}
        vectors.append(reader.predict_on_batch(inputs | {"token_ids": ids}))
        labels.append(y["sentence_order"])
    return np.concatenate(vectors)[:count], np.concatenate(labels)[:count]


def probe(
    preset: Path, task: str, length: int | None, arguments: argparse.Namespace
) -> float:
    """Return the held-out accuracy of a linear probe on a frozen model's vectors."""
    backbone = AlbertBackbone.from_preset(preset)
    reader = keras.Model(backbone.input, backbone.output["sequence_output"][:, 0])
    splits = {}
    for split, count in (("train", arguments.probe), ("held_out", arguments.test)):
        data = PretrainingData(arguments.data, split, second_task=task, seed=1)
        splits[split] = features(reader, data, length, count)
    regression = LogisticRegression(C=0.1, max_iter=1000)
    classifier = make_pipeline(StandardScaler(), regression)
    classifier.fit(*splits["train"])
    return float(classifier.score(*splits["held_out"]))


def draw(results: dict[str, dict[str, float]], path: Path) -> None:
    """Draw the accuracies as bars, with chance as a line."""
    figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for number, task in enumerate(TASKS):
        heights = [results[name][task] for name in NAMES]
        places = np.arange(len(NAMES)) + 0.4 * number - 0.2
        bars = axis.bar(places, heights, 0.38, label=f"tested on {NAMES[task]}")
        axis.bar_label(bars, fmt="{:.1%}", padding=2)
    axis.axhline(0.5, color="black", linestyle=":", label="chance")
    axis.set_xticks(range(len(NAMES)), NAMES.values())
    axis.set(ylim=(0.4, 1), ylabel="held-out accuracy", xlabel="pretrained with")
    axis.legend(loc="upper right")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Pretrain, probe, and print and draw the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="output of `keras-albert prepare`")
    parser.add_argument("--output", type=Path, default=Path("runs/second_task"))
    parser.add_argument("--config", type=Path, default=SETTINGS)
    parser.add_argument("--steps", type=whole_number(), help="overrides the settings")
    parser.add_argument("--preset", help="what to start from; default: random weights")
    parser.add_argument(
        "--probe", type=whole_number(), default=8000, help="examples to train on"
    )
    parser.add_argument(
        "--test", type=whole_number(), default=2000, help="examples to test on"
    )
    arguments = parser.parse_args()

    results = {}
    for name, title in NAMES.items():
        output = arguments.output / name
        given = {
            "data": str(arguments.data),
            "output": str(output),
            "second_task": name,
            "steps": arguments.steps,
            "preset": arguments.preset,
        }
        config = PretrainingConfig.from_file(
            arguments.config, **{k: v for k, v in given.items() if v is not None}
        )
        preset = output / "preset"
        if not preset.is_dir():
            pretrain(config)
        results[name] = {
            task: probe(preset, task, config.sequence_length, arguments)
            for task in TASKS
        }
        print(title, results[name], flush=True)

    table = Table("pretrained with", *(f"tested on {NAMES[task]}" for task in TASKS))
    for name, row in results.items():
        table.add_row(NAMES[name], *(f"{row[task]:.1%}" for task in TASKS))
    Console().print(table)
    written = arguments.output / "second_task.json"
    written.write_text(json.dumps(results, indent=1), encoding="utf-8")
    draw(results, arguments.output / "second_task.png")
    print(f"table and plot: {written}, {written.with_suffix('.png')}")


if __name__ == "__main__":
    main()
