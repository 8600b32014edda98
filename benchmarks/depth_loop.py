"""Depth as a loop against depth written out, with and without XLA.

    KERAS_BACKEND=tensorflow python benchmarks/depth_loop.py

Prints the time to the first training step (tracing, compiling and running), and the
medians of a training and a prediction step, the variants taking turns. It is what the
defaults of `unroll` and `jit_compile` were chosen by. The numbers that the variants
compute are compared first.
"""

import argparse
import time

import keras
import numpy as np

from keras_albert import AlbertBackbone, AlbertClassifier

# (unroll, jit_compile)
VARIANTS = {
    "tensorflow": [(False, False), (True, False), (False, True), (True, True)],
    "jax": [(False, True), (True, True)],
    "torch": [(True, False)],
}


def build(unroll: bool, jit_compile: bool, hidden_dim: int, depth: int):
    backbone = AlbertBackbone(
        vocabulary_size=8000,
        num_layers=depth,
        num_heads=hidden_dim // 64,
        embedding_dim=128,
        hidden_dim=hidden_dim,
        intermediate_dim=4 * hidden_dim,
        unroll=unroll,
        seed=0,
    )
    classifier = AlbertClassifier(backbone, num_classes=2)
    classifier.compile(learning_rate=1e-5, jit_compile=jit_compile)
    return classifier


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hidden-dim", type=int, default=256)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()

    shape = (arguments.batch_size, arguments.length)
    generator = np.random.default_rng(0)
    x = {
        "token_ids": generator.integers(5, 8000, shape, np.int32),
        "segment_ids": np.zeros(shape, np.int32),
        "padding_mask": np.ones(shape, np.int32),
    }
    y = generator.integers(0, 2, shape[0])

    models, first, outputs = {}, {}, []
    for variant in VARIANTS[keras.config.backend()]:
        model = build(*variant, arguments.hidden_dim, arguments.depth)
        features = model.backbone.predict(x, verbose=0)["sequence_output"]
        outputs.append(features)
        started = time.perf_counter()
        model.train_on_batch(x, y)
        first[variant] = time.perf_counter() - started
        model.predict_on_batch(x)
        models[variant] = model
    assert all(np.allclose(outputs[0], other, atol=1e-4) for other in outputs)

    times = {variant: ([], []) for variant in models}
    for _ in range(arguments.repeats):
        for variant, model in models.items():
            training, prediction = times[variant]
            started = time.perf_counter()
            model.train_on_batch(x, y)
            training.append(time.perf_counter() - started)
            started = time.perf_counter()
            model.predict_on_batch(x)
            prediction.append(time.perf_counter() - started)

    print(f"{keras.config.backend()}, Keras {keras.__version__}, {vars(arguments)}")
    print("unroll  XLA    first step   training step   prediction step")
    for (unroll, jit_compile), (training, prediction) in times.items():
        print(
            f"{unroll!s:7} {jit_compile!s:6} {first[unroll, jit_compile]:8.1f} s "
            f"{np.median(training) * 1e3:12.0f} ms "
            f"{np.median(prediction) * 1e3:14.0f} ms"
        )


if __name__ == "__main__":
    main()
