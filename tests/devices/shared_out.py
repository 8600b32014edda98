"""Each task on one device and on two.

    python -m tests.devices.shared_out OUT [NAME]...

A separate process, since a backend counts its devices once. It writes the losses,
scores and outputs of each run, or its error. The named cases run in all ways.
"""

import contextlib
import json
import sys
import traceback

import keras
import numpy as np

import keras_albert
from keras_albert import AlbertBackbone, AlbertTokenizer
from keras_albert.tasks.optimizers import adamw
from keras_albert.text import train_vocabulary
from tests.tasks.question_answering.small_reader import toy_reading
from tests.tasks.small_models import toy_pairs, toy_questions, toy_tags

if __name__ == "__main__" and keras.config.backend() == "tensorflow":
    # Before a tokenizer asks for one of them.
    import tensorflow as tf

    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], two
    )

COUNT, SIZE, LENGTH = 8, 4, 16
# Of so many the last batch has a row too few for two devices.
UNEVEN = 7
TEXTS = [f"the old hill by the {' '.join(['lamps', 'rain'] * n)}" for n in range(COUNT)]
PAIRS = (TEXTS, TEXTS[::-1])
CLASSES = [n % 2 for n in range(COUNT)]
SETS = [[float(n % 2), float(n % 3 == 0), 1.0] for n in range(COUNT)]
SCORES = [n / COUNT for n in range(COUNT)]
WORDS = "the old hill by lamps bread rain storm river were on and was in town"
TOKENIZER = AlbertTokenizer(
    train_vocabulary([*TEXTS, WORDS] * 3, vocabulary_size=60, hard_vocab_limit=False)
)
CHOICES = toy_questions(COUNT, choices=(2,))


def preprocessor(name, sequence_length=LENGTH, **kwargs):
    cls = getattr(keras_albert, f"Albert{name}Preprocessor")
    lengths = {"max_sequence_length": LENGTH, "length_buckets": [8]}
    return cls(TOKENIZER, sequence_length=sequence_length, **lengths, **kwargs)


def build(name, made=None, **kwargs):
    keras.utils.set_random_seed(7)
    backbone = AlbertBackbone(
        vocabulary_size=TOKENIZER.vocabulary_size(),
        # A loop of two is what XLA stumbled over on TensorFlow.
        num_layers=2 if keras.config.backend() == "tensorflow" else 1,
        num_heads=2,
        embedding_dim=8,
        hidden_dim=16,
        intermediate_dim=32,
        max_sequence_length=LENGTH,
        dropout=0.0,
        attention_dropout=0.0,
        unroll=None if keras.config.backend() == "tensorflow" else True,
        seed=3,
    )
    if name != "TextEmbedder" and not name.endswith(("LM", "Pretrainer")):
        kwargs["dropout"] = 0.0
    cls, made = getattr(keras_albert, f"Albert{name}"), made or preprocessor(name)
    return cls(backbone, preprocessor=made, **kwargs)


def classifier(num_classes=2, sequence_length=LENGTH, **kwargs):
    made = preprocessor("Classifier", sequence_length=sequence_length)
    return build("Classifier", made, num_classes=num_classes, **kwargs)


def masked(name="MaskedLM"):
    return build(name, preprocessor(name, seed=5))


def chooser():
    return build("MultipleChoice", preprocessor("MultipleChoice", max_qa_length=8))


def reader(head="independent"):
    made = preprocessor("QuestionAnswerer", doc_stride=8)
    return build("QuestionAnswerer", made, head=head)


def embedder(objective="cosine"):
    return build("TextEmbedder", objective=objective)


def tf_data():
    import tensorflow as tf

    rows = (TEXTS[:UNEVEN], CLASSES[:UNEVEN])
    return tf.data.Dataset.from_tensor_slices(rows).batch(SIZE)


TASKS = {
    "classifier": (classifier, TEXTS, CLASSES),
    "regression": (lambda: classifier(1), TEXTS, SCORES),
    "labels": (lambda: classifier(3, activation="sigmoid"), TEXTS, SETS),
    "masked_lm": (masked, TEXTS, None),
    "pretrainer": (lambda: masked("Pretrainer"), PAIRS, None),
    "token_classifier": (
        lambda: build("TokenClassifier", num_classes=2),
        *toy_tags(COUNT),
    ),
    "multiple_choice": (chooser, *CHOICES),
    "question_answerer": (reader, *toy_reading(COUNT)),
    "conditional": (lambda: reader("conditional"), *toy_reading(COUNT)),
    "embedder": (embedder, *toy_pairs(COUNT)),
    "contrastive": (lambda: embedder("contrastive"), toy_pairs(COUNT)[0], None),
}


def ids():
    return preprocessor("Classifier")(TEXTS[:UNEVEN])


def clipped():
    return adamw(0.01, global_clipnorm=0.05)


def summed():
    return keras.optimizers.SGD(1.0, gradient_accumulation_steps=2)


CASES = TASKS | {
    "uneven": (classifier, TEXTS[:UNEVEN], CLASSES[:UNEVEN]),
    "uneven_masks": (masked, TEXTS[:UNEVEN], None),
    # One of two processes has no row of the last batch.
    "lonely": (masked, TEXTS[: SIZE + 1], None),
    "clipped": (classifier, TEXTS, CLASSES, {"optimizer": clipped}),
    # As many of each class would leave almost nothing of the summed gradients.
    "summed": (classifier, TEXTS, [1] * (COUNT - 2) + [0, 0], {"optimizer": summed}),
    "any_length": (lambda: classifier(sequence_length=None), TEXTS, CLASSES),
    "ids": (classifier, ids, CLASSES[:UNEVEN]),
    "tf_data": (classifier, tf_data, None, {}),
}


# How several devices share a batch, on each backend.
WAYS = {
    "tensorflow": ["mirrored_xla", "mirrored", "xla"],
    "jax": ["data_parallel"],
    "torch": [],
}[keras.config.backend()]
# Tracing takes long: the tests run what differs between tasks in the first way, and one
# task in all of them. The others run on demand: `shared_out OUT regression`, say.
ON_DEMAND = {
    *("regression", "labels", "masked_lm", "token_classifier", "multiple_choice"),
    *("question_answerer", "conditional", "embedder", "uneven", "uneven_masks"),
    *("lonely", "any_length", "ids"),
    # On JAX there is one gradient, of the whole batch, to clip and to sum.
    *(("clipped", "summed") if keras.config.backend() == "jax" else ()),
}
RUNS = [
    (name, way)
    for name in CASES
    if name not in ON_DEMAND
    for way in (WAYS if name == "classifier" else WAYS[:1])
]


def strategies():
    """What is run besides one device: for each name a scope, and whether by XLA."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        names = [device.name for device in tf.config.list_logical_devices("CPU")]
        assert len(names) == 2
        mirrored = tf.distribute.MirroredStrategy(names)
        return {
            "mirrored": (mirrored.scope, False),
            "mirrored_xla": (mirrored.scope, True),
            "xla": (contextlib.nullcontext, True),
        }
    devices = keras.distribution.list_devices()
    assert len(devices) == 2
    parallel = keras.distribution.DataParallel(devices=devices)
    return {"data_parallel": (parallel.scope, "auto")}


def as_lists(tree):
    return [np.asarray(leaf).tolist() for leaf in keras.tree.flatten(tree)]


def kept(logs):
    """Leave out what Keras averages over batches on one device, not over rows."""
    is_tensorflow = keras.config.backend() == "tensorflow"
    return (
        (key, value)
        for key, value in logs.items()
        if not (is_tensorflow and key.endswith("_loss"))
    )


def run(case, scope=contextlib.nullcontext, jit=False, preset=None):
    """Make a task in a scope, and train, judge and ask it outside, as users do."""
    make, x, y = case[:3]
    x = x() if callable(x) else x
    options = {"learning_rate": 0.01} | (case[3] if len(case) > 3 else {})
    # What `keras.distribution` sets holds for the whole process.
    stays = keras.config.backend() == "jax"
    with scope() if stays else contextlib.nullcontext():
        with scope():
            task = make()
            if "optimizer" in options:
                options = {"optimizer": options["optimizer"]()}
        task.compile(jit_compile=jit, **options)
        keras.utils.set_random_seed(1)
        history = task.fit(x, y, batch_size=SIZE, epochs=2, verbose=0).history
        if len(case) > 3:
            # Only learning differs from that of the classifier.
            return {"history": {"loss": as_lists(history["loss"])}}
        scores = task.evaluate(x, y, batch_size=SIZE, verbose=0, return_dict=True)
        outputs = task.predict(x, batch_size=SIZE, verbose=0)
        weights = as_lists(task.get_weights())
        if preset is not None:
            task.save_to_preset(preset)
    return {
        "history": {key: as_lists(value) for key, value in sorted(kept(history))},
        "scores": {key: as_lists(value) for key, value in sorted(kept(scores))},
        "outputs": as_lists(outputs),
        "weights": weights,
    }


def attempt(*args):
    try:
        return run(*args)
    except Exception:
        return {"error": traceback.format_exc()}


def errors(scope):
    """What `fit` says where a scope was forgotten."""
    task = classifier()
    with scope():
        other = classifier()
        try:
            task.fit(TEXTS, CLASSES, verbose=0)
        except ValueError as error:
            yield str(error)
    metric = keras.metrics.SparseCategoricalAccuracy()
    for arguments in ({"optimizer": keras.optimizers.SGD(0.1)}, {"metrics": [metric]}):
        other.compile(**arguments)
        try:
            other.fit(TEXTS, CLASSES, verbose=0)
        except ValueError as error:
            yield str(error)


def main():
    path, *names = sys.argv[1:]
    found = {}
    ways = {"one": (contextlib.nullcontext, False)} | strategies()
    if "mirrored" in ways:
        found["errors"] = list(errors(ways["mirrored"][0]))
    for name in names or dict(RUNS):
        found[name] = {}
        for way, (scope, jit) in ways.items():
            if names or way == "one" or (name, way) in RUNS:
                found[name][way] = attempt(CASES[name], scope, jit)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file)


if __name__ == "__main__":
    main()
