"""From 1,200 short messages to a served model, in two minutes on two cores.

    python examples/quickstart.py "the parcel never came" "love the new app"

Fine-tunes `albert_small_en_uncased`, the pretrained ALBERT in the package, on
`examples/data/support_messages.tsv`, prints its accuracy on held-out messages, draws
the learning curve and the confusion matrix, saves the model, exports it for TensorFlow
Serving, and classifies the sentences of the command line with the export, loaded in a
separate program without Keras. No network is needed. Set KERAS_BACKEND to tensorflow,
jax or torch.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from keras_albert.cli.arguments import whole_number
from keras_albert.cli.loading import hidden_messages, loading

with loading("quickstart.py"):
    import keras
    import matplotlib as mpl
    import numpy as np

    from keras_albert import AlbertClassifier

    mpl.use("Agg")
    import matplotlib.pyplot as plt

DATA = Path(__file__).parent / "data" / "support_messages.tsv"
HELD_OUT = 240
SENTENCES = (
    "where is my parcel? it should have come on monday",
    "please send my money back, you charged me twice",
)

# A program that needs only the export.
CLIENT = """
import json, sys
import tensorflow as tf, tensorflow_text
model = tf.saved_model.load(sys.argv[1])
answers = model.signatures["serving_default"](text=tf.constant(sys.argv[2:]))
labels = [label.decode() for label in answers["label"].numpy()]
print(json.dumps([labels, answers["score"].numpy().tolist()]))
"""


def read_messages() -> tuple[list[str], list[str]]:
    """Read the messages and their classes."""
    _, *rows = DATA.read_text(encoding="utf-8").splitlines()
    labels, texts = zip(*(row.split("\t") for row in rows), strict=True)
    return list(texts), list(labels)


def draw_learning_curve(history: dict[str, list[float]], path: Path) -> None:
    """Draw loss and accuracy, epoch by epoch."""
    epochs = range(1, len(history["loss"]) + 1)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for axis, name in zip(axes, ("loss", "accuracy"), strict=True):
        axis.plot(epochs, history[name], label="training")
        axis.plot(epochs, history[f"val_{name}"], label="held out")
        axis.set(xlabel="epoch", title=name.capitalize())
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
    axes[1].set_ylim(0, 1)
    axes[1].legend(loc="lower right")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_confusion(
    names: tuple[str, ...], truth: list[str], answers: list[str], path: Path
) -> None:
    """Draw the confusion matrix."""
    counts = np.zeros((len(names), len(names)), int)
    for true, answer in zip(truth, answers, strict=True):
        counts[names.index(true), names.index(answer)] += 1
    figure, axis = plt.subplots(figsize=(5.5, 5), layout="constrained")
    axis.imshow(counts, cmap="Blues")
    for row, column in np.ndindex(counts.shape):
        dark = counts[row, column] > counts.max() / 2
        axis.text(
            column,
            row,
            counts[row, column],
            ha="center",
            va="center",
            color="white" if dark else "black",
        )
    axis.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axis.set_yticks(range(len(names)), names)
    axis.set(xlabel="answer", ylabel="truth", title=f"{len(truth)} held-out messages")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def serve(export: Path, sentences: list[str]) -> None:
    """Classify sentences with the export, in a separate program."""
    with hidden_messages():
        finished = subprocess.run(
            [sys.executable, "-c", CLIENT, str(export), *sentences],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    labels, scores = json.loads(finished.stdout.splitlines()[-1])
    for sentence, label, score in zip(sentences, labels, scores, strict=True):
        print(f"  {label:>9} {score:.3f}  {sentence}")


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sentences", nargs="*", default=list(SENTENCES))
    parser.add_argument("--output", type=Path, default=Path("runs/quickstart"))
    parser.add_argument("--epochs", type=whole_number(), default=2)
    parser.add_argument("--preset", default="albert_small_en_uncased")
    arguments = parser.parse_args()
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)

    keras.utils.set_random_seed(0)
    texts, labels = read_messages()
    train_texts, test_texts = texts[:-HELD_OUT], texts[-HELD_OUT:]
    train_labels, test_labels = labels[:-HELD_OUT], labels[-HELD_OUT:]

    classifier = AlbertClassifier.from_preset(arguments.preset, num_classes=6)
    history = classifier.fit(
        train_texts,
        train_labels,
        batch_size=16,
        epochs=arguments.epochs,
        validation_data=(test_texts, test_labels),
    )
    answers = [answer["label"] for answer in classifier.classify(test_texts)]
    accuracy = np.mean([a == b for a, b in zip(answers, test_labels, strict=True)])
    print(f"accuracy on {HELD_OUT} held-out messages: {accuracy:.1%}")

    draw_learning_curve(history.history, output / "learning_curve.png")
    draw_confusion(
        classifier.class_names, test_labels, answers, output / "confusion.png"
    )
    classifier.save_to_preset(output / "preset")
    print(f"plots and preset in {output}")
    if importlib.util.find_spec("tensorflow_text") is None:
        print("no export: TensorFlow writes it, and it is not installed")
        for sentence in arguments.sentences:
            answer = classifier.classify(sentence)
            print(f"  {answer['label']:>9} {answer['score']:.3f}  {sentence}")
        return
    export = classifier.export(output / "export")
    print(f"exported to {export}; its answers, without Keras:")
    serve(export, arguments.sentences)


if __name__ == "__main__":
    main()
