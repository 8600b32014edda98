"""Classifiers with exits whose answers differ between texts and depths."""

import numpy as np

from keras_albert.utils.keras_internals import all_layers

LAYERS = 6


def scale(classifier, by=3.0):
    """Larger weights than new ones, or all texts look much alike."""
    random = np.random.default_rng(0)
    classifier.set_weights(
        [by * w + random.normal(0, 0.05, w.shape) for w in classifier.get_weights()]
    )
    return classifier


def by_depth(classifier, texts):
    """The outputs of each exit, by running the model at each depth."""
    return np.stack(
        [
            classifier.predict(texts, num_layers=n, verbose=0)
            for n in range(1, LAYERS + 1)
        ]
    )


def spread(classifier, texts):
    """Heads whose answers differ between texts and depths."""
    heads = by_depth(scale(classifier), texts)
    factors = 1.5 / heads.std(axis=1, keepdims=True)
    kernel, bias = classifier.output_dense.get_weights()
    bias = (bias - heads.mean(axis=1)) * factors[:, 0]
    classifier.output_dense.set_weights([kernel * factors, bias])
    return classifier


def add_lora(classifier, value=0.1):
    classifier.backbone.enable_lora(2)
    for layer in all_layers(classifier.backbone):
        if getattr(layer, "lora_enabled", False):
            kernel = layer.lora_kernel_b
            kernel.assign(np.full(kernel.shape, value))
