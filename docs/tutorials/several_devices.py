"""
Title: Several devices and TPUs
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Train on several devices from raw strings, with the losses of one device.
Accelerator: GPU
"""

"""
## Introduction

Data parallelism is the usual way to use several GPUs or the cores of a TPU. Each
device has a copy of the weights and computes a part of the batch; then the gradients
of all parts are averaged, and each copy makes the same step.

Two errors are easy to make and hard to see, because training continues with both:

- the loss of a part is divided by the size of the part, and a smaller last part
  counts too much;
- gradients are clipped before they are averaged, which is not the clipped average.

So it is not enough that a distributed setup runs: it must have the losses of one
device. ALBERT fits data parallelism well: all of its layers share their weights,
so the devices exchange the gradients of one layer, whatever the depth.

This tutorial trains the same classifier on one device and on four, and compares the
losses. It needs one CPU: JAX and TensorFlow can divide it into several virtual
devices, which run the same program as real ones. They are not faster, since they
share the cores. The baseline is therefore the run on one device.
"""

"""
## Setup

The package is installed with `pip install "keras-albert[jax,examples]"`, or with
`tensorflow` instead of `jax`. No network is needed: the preset
`albert_tiny_en_uncased` is part of the package.

The number of devices is fixed when the backend starts, so it is set first. JAX reads
an environment variable, TensorFlow has a function for it. The outputs on this page
are for JAX; `KERAS_BACKEND=tensorflow` runs the same tutorial on TensorFlow.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")
device_count = 4
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + f" --xla_force_host_platform_device_count={device_count}"
)

import csv
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np

backend = keras.config.backend()
if backend == "tensorflow":
    import tensorflow as tf

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * device_count,
    )

import keras_albert

preset = "albert_tiny_en_uncased"
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.
batch_size, epochs = 32, 3

"""
## The data

122 support messages to train and 60 to validate. The number is no multiple of the
batch size, on purpose: the last batch has 26 rows, which four devices cannot share
evenly.
"""

with open(data_path / "support_messages.tsv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
texts = [row["text"] for row in rows]
labels = [row["label"] for row in rows]
class_names = sorted(set(labels))
train_texts, train_labels = texts[:122], labels[:122]
validation_texts, validation_labels = texts[-60:], labels[-60:]
majority = max(validation_labels.count(label) for label in set(validation_labels))
print(f"always the most frequent class: {majority / 60:.1%}")

"""
## The model

The function below contains nothing about devices. Two settings are useful for all of
them:

- **A fixed length.** By default a batch is padded to its longest text. XLA, the
  compiler of JAX and of TPUs, compiles a program for each length. With
  `sequence_length` there is one.
- **No dropout**, so that runs can be compared: its random masks are drawn for each
  device.
"""

preprocessor = keras_albert.AlbertClassifierPreprocessor.from_preset(
    preset, sequence_length=32
)


def make_classifier():
    keras.utils.set_random_seed(0)
    return keras_albert.AlbertClassifier.from_preset(
        preset, labels=class_names, preprocessor=preprocessor, dropout=0.0
    )


def train(classifier):
    keras.utils.set_random_seed(1)
    losses = []
    collect = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: losses.append(float(logs["loss"]))
    )
    history = classifier.fit(
        train_texts,
        train_labels,
        validation_data=(validation_texts, validation_labels),
        batch_size=batch_size,
        epochs=epochs,
        callbacks=[collect],
        verbose=2,
    )
    outputs = classifier.predict(validation_texts, verbose=0)
    return losses, history.history, outputs


"""
## One device
"""

runs = {"one device": train(make_classifier())}

"""
## Four devices

`batch_size` is the size of the whole batch: 32 texts, 8 for each device. Strings are
tokenized on the host, and only ids are sent to the devices.

- **JAX**: `keras.distribution.DataParallel` applies to all that is created while it
  is set. `keras.distribution.set_distribution()` sets it for the rest of the program;
  here a scope sets it for one run.
- **TensorFlow**: the model is created in the scope of a `tf.distribute` strategy, and
  `fit()` may be called outside of it. With real GPUs,
  `tf.distribute.MirroredStrategy()` without arguments finds them.
- **PyTorch**: a process uses one device, and `torchrun` starts a process for each, as
  the last section shows. Here, in one process, nothing is trained.
"""

if backend == "jax":
    devices = keras.distribution.list_devices()
    print(devices)
    distribution = keras.distribution.DataParallel(devices=devices)
    with distribution.scope():
        runs["four devices"] = train(make_classifier())
elif backend == "tensorflow":
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    print(devices)
    strategy = tf.distribute.MirroredStrategy(devices)
    with strategy.scope():
        classifier = make_classifier()
    runs["four devices"] = train(classifier)
else:
    print("PyTorch: one device; see the section on torchrun")

"""
## The comparison

The table shows the losses of each epoch. The line below it shows the largest
difference of any number that the model returns for the validation set. Sums in
another order differ in the last digits of float32, and training amplifies this:
differences of about a thousandth of the outputs are normal. An error of the kinds
above is far larger.
"""

print(
    f"{'':<14} loss of each epoch             validation loss                accuracy"
)
for name, (_, history, _) in runs.items():
    columns = [
        "  ".join(f"{value:.5f}" for value in history[key])
        for key in ("loss", "val_loss")
    ]
    print(f"{name:<14} {'     '.join(columns)}     {history['val_accuracy'][-1]:.1%}")
if "four devices" in runs:
    one, four = (outputs for _, _, outputs in runs.values())
    difference = np.abs(one - four).max()
    print(
        f"largest difference: {difference:.2g}, of outputs to {np.abs(one).max():.2g}"
    )

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
for (name, (losses, _, _)), style in zip(runs.items(), ("-", "o")):
    axis.plot(range(1, len(losses) + 1), losses, style, label=name)
axis.set(xlabel="step", ylabel="loss, mean of the epoch so far")
axis.xaxis.get_major_locator().set_params(integer=True)
axis.grid(alpha=0.3)
axis.legend()
plt.show()

"""
## Why the losses are equal

The mean of the losses of equal parts is the loss of the whole batch. For unequal
parts it is not: each part has to be weighted by its rows. This is easy to check
without any devices, on every backend.
"""

numbers = np.array([class_names.index(label) for label in validation_labels[:26]])
row_losses = keras.ops.convert_to_numpy(
    keras.losses.sparse_categorical_crossentropy(
        numbers, runs["one device"][2][:26], from_logits=True
    )
)
parts = [row_losses[start : start + 8] for start in range(0, 26, 8)]
sizes = [len(part) for part in parts]
means = [part.mean() for part in parts]
print(f"parts of {sizes} rows, with the losses {np.round(means, 3)}")
print(f"whole batch         {row_losses.mean():.6f}")
print(f"weighted by rows    {np.average(means, weights=sizes):.6f}")
print(f"mean of the parts   {np.mean(means):.6f}")

"""
The same holds for the gradients, which are sums over rows as well. `fit()` therefore
divides a batch that cannot be shared evenly in another way: on JAX it is padded with
rows of weight zero, and with `tf.distribute` each device computes the whole batch.
The default optimizer clips gradients after they are summed.

What the devices exchange in each step is one gradient per weight. Sharing layers
makes this small. The table is for the size of the preset, with its four layers shared,
in two groups and separate.
"""

for num_groups, name in (
    (1, "all layers shared"),
    (2, "two groups"),
    (4, "no sharing"),
):
    backbone = keras_albert.AlbertBackbone.from_preset(
        preset, load_weights=False, num_groups=num_groups
    )
    print(f"{name:<18} {backbone.count_params() * 4 / 1e6:5.1f} MB per step")

"""
## GPUs

With several GPUs only the list of devices changes:

```python
# JAX
keras.distribution.set_distribution(keras.distribution.DataParallel())
# TensorFlow
strategy = tf.distribute.MirroredStrategy()
```

Multiply the batch size by the number of devices, or each of them has too little to
do. A larger batch makes fewer steps; the learning rate often has to be larger too.

## TPUs

A TPU needs three more settings:

```python
resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
strategy = tf.distribute.TPUStrategy(resolver)

preprocessor = keras_albert.AlbertClassifierPreprocessor.from_preset(
    "albert_base_en_uncased", sequence_length=128
)
with strategy.scope():
    classifier = keras_albert.AlbertClassifier.from_preset(
        "albert_base_en_uncased",
        num_classes=6,
        preprocessor=preprocessor,
        dtype="mixed_bfloat16",
    )
classifier.fit(texts, labels, batch_size=256, epochs=3)
```

- `sequence_length`, because every new length is compiled, which takes a minute or
  more;
- `dtype="mixed_bfloat16"`, the precision that a TPU computes fastest;
- large batches: texts are tokenized on the host, and with small batches a TPU has to
  wait.

On JAX, `DataParallel()` uses the cores of a TPU like GPUs. These steps were compiled
by the TPU compiler; they were not run on a TPU by the authors.

## PyTorch and torchrun

On PyTorch, `torchrun` starts the same program once for each device. `fit()` then trains
one model in all processes, and so do `keras-albert finetune` and `pretrain`:

```shell
KERAS_BACKEND=torch torchrun --nproc-per-node=8 train.py
```

Each process receives all texts, and takes its rows of each batch; `batch_size` is the
size of the whole batch, as above. On GPUs, `train.py` first calls
`torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`.

## Conclusion

A few lines distribute `fit()`, from raw strings. The losses of four devices equal the
losses of one to five decimals, where the mean of unequal parts would be wrong in the
second. Compare them before a long run: this takes minutes, and shows errors that a
training curve does not show.

At full size: ALBERT base in mixed precision, rows of 128 tokens, a batch of 32 for
each GPU. Compare the losses on a few batches first, as here.

What to try next:

- [several processes](../several_processes.md), on one host or many, which may be stopped;
- [pretraining](pretraining.py), which several devices are most useful for;
- [LoRA](lora_and_int8.py), which has far fewer gradients to exchange.
"""
