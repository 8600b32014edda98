"""
Title: Checkpoints of transformers, KerasHub and google-research
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Load, write, compare and share ALBERT models in four formats.
Accelerator: None
"""

"""
## Introduction

ALBERT models are published in several formats: the original TensorFlow
checkpoints of google-research, the files of the transformers library, presets of
KerasHub. All contain the same matrices, with other names and sometimes transposed.
`keras_albert` reads and writes each of them:

| format | read | write |
|---|---|---|
| presets of keras_albert | `from_preset()` | `save_to_preset()` |
| transformers | `from_preset()` | `export_to_transformers()` |
| KerasHub | `from_preset()` | `export_checkpoint(..., "keras-hub")` |
| google-research/albert | `from_preset()` | `export_checkpoint(..., "google")` |

A conversion without an error message may still be wrong: a model with one random matrix
also returns answers, but worse ones. A missing tensor, an unexpected one or one of
another shape therefore raises an error, and this guide compares the outputs of each
pair of libraries on the same texts. The baseline is the difference between two models
that have nothing in common but the architecture.
"""

"""
## Setup

The packages are installed with
`pip install "keras-albert[tensorflow,torch]" transformers`. On any Keras backend,
this guide uses `transformers`, which needs PyTorch, and TensorFlow for the
checkpoint of google-research. No network is needed: the preset
`albert_tiny_en_uncased` is part of the package.
"""

import csv
import pathlib
import tempfile

import keras
import keras_hub
import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file

import keras_albert
from keras_albert.checkpoints import convert_checkpoint, export_checkpoint

keras.utils.set_random_seed(0)
transformers.utils.logging.disable_progress_bar()
preset = "albert_tiny_en_uncased"
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.
folder = pathlib.Path(tempfile.mkdtemp())

"""
## Names and handles

`from_preset()` takes a built-in name, a local directory, or a handle of a hub:
`hf://user/model` or `kaggle://user/model/keras/variation`. The format is detected
from the files. These are the built-in names and where their files are from; the
models without an address are part of the package.
"""

for name, entry in keras_albert.AlbertBackbone.presets.items():
    print(f"{name:<38} {entry['metadata']['handle'] or ''}")

"""
## A model to convert

The model is a classifier of support messages, trained for four epochs on four fifths of
them. It has weights that differ from the preset's, a head, and names of classes: each
conversion must keep all of them.

The activation matters, too. The code of google-research and of KerasHub has one
form of GELU, an approximation with tanh. transformers and `keras_albert` also
have the exact form. A model with the exact form computes other outputs with the
approximation, so its export to these two formats is an error. So is an export of a
classifier whose pooler reads the mean of the tokens, as this preset's does:
poolers of other libraries read the vector of `[CLS]`. Loaded with both before it is
fine-tuned, a model adapts to them:
"""

with open(data_path / "support_messages.tsv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
texts = [row["text"] for row in rows]
labels = [row["label"] for row in rows]
backbone = keras_albert.AlbertBackbone.from_preset(
    preset, activation="gelu_approximate", pooler_input="cls"
)
classifier = keras_albert.AlbertClassifier.from_preset(
    preset, labels=sorted(set(labels)), backbone=backbone
)
train_count = len(rows) - len(rows) // 5
validation_texts = texts[train_count:]
classifier.fit(
    texts[:train_count],
    labels[:train_count],
    epochs=4,
    verbose=2,
    validation_data=(validation_texts, labels[train_count:]),
)
logits = classifier.predict(validation_texts, verbose=0)
predicted = logits.argmax(axis=-1)

"""
The baseline: the same architecture and vocabulary, with random weights.
"""

unrelated = keras_albert.AlbertClassifier.from_preset(
    preset, labels=classifier.class_names, load_weights=False
)
comparisons = {}


def compare(name, other_logits):
    difference = np.abs(other_logits - logits).max()
    agreement = np.mean(other_logits.argmax(axis=-1) == predicted)
    comparisons[name] = difference, agreement
    print(f"{name}: largest difference {difference:.1e}, {agreement:.1%} same labels")


compare("random weights", unrelated.predict(validation_texts, verbose=0))

"""
## Presets of keras_albert

A preset is a directory. `config.json` describes the encoder, `task.json` the head
with the names of the classes, and `assets` contains the vocabulary. It is written
atomically: if the program is killed, either the old preset or the new one is
there.
"""

classifier.save_to_preset(folder / "own")
for path in sorted((folder / "own").rglob("*")):
    if path.is_file():
        print(f"{path.stat().st_size:>10,}  {path.relative_to(folder / 'own')}")
again = keras_albert.AlbertClassifier.from_preset(folder / "own")
compare("preset", again.predict(validation_texts, verbose=0))

"""
## transformers

`export_to_transformers()` writes the files that `from_pretrained()` of
transformers loads, with the vocabulary and the names of the classes.
"""

classifier.export_to_transformers(folder / "transformers")
theirs = transformers.AutoModelForSequenceClassification.from_pretrained(
    folder / "transformers"
)
print(type(theirs).__name__, theirs.config.id2label)

"""
Both models compute the same from the same ids. The arrays of the preprocessor
have other names in transformers:
"""

ids = classifier.preprocessor(validation_texts)
with torch.no_grad():
    outputs = theirs.eval()(
        input_ids=torch.tensor(np.asarray(ids["token_ids"])),
        token_type_ids=torch.tensor(np.asarray(ids["segment_ids"])),
        attention_mask=torch.tensor(np.asarray(ids["padding_mask"])),
    )
compare("transformers, same ids", outputs.logits.numpy())

"""
Each library has its own tokenizer code, too. From a `spiece.model` alone,
transformers builds a tokenizer that starts a new word after a quotation mark or a
hyphen, where google-research's code does not. Such a text has other ids, and so other
outputs. The export therefore contains a `tokenizer.json` without this difference,
which transformers prefers:
"""

tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "transformers")
batch = tokenizer(validation_texts, padding=True, return_tensors="pt")
with torch.no_grad():
    outputs = theirs(**batch)
compare("transformers, own ids", outputs.logits.numpy())
text = 'my "new" phone is second-hand'
own_ids = classifier.preprocessor.tokenizer(text)
own_pieces = [classifier.preprocessor.tokenizer.id_to_token(int(i)) for i in own_ids]
print("keras_albert:", *own_pieces)
print("transformers:", *tokenizer.tokenize(text))

"""
The other direction is `from_preset()` with the directory, or with a handle such
as `hf://albert/albert-base-v2`. The class decides what is loaded.
`AlbertClassifier` keeps the head and its classes; with `num_classes` or `labels`
the head is new; another task or `AlbertBackbone` takes the encoder only.
"""

again = keras_albert.AlbertClassifier.from_preset(folder / "transformers")
print(again.class_names)
compare("from transformers", again.predict(validation_texts, verbose=0))
embedder = keras_albert.AlbertTextEmbedder.from_preset(folder / "transformers")
print("shape of a text's vector:", embedder.embed("where is my parcel?").shape)

"""
## KerasHub

With `keras_albert` imported, KerasHub's own `from_preset()` loads a preset of
`keras_albert`: its files have KerasHub's format, and name the classes of this
package. For programs without `keras_albert`, `export_checkpoint()` writes a
preset of KerasHub's classes.
"""

task = keras_hub.models.TextClassifier.from_preset(str(folder / "own"))
print(type(task).__module__.split(".")[0], type(task).__name__)
export_checkpoint(classifier, folder / "keras_hub", "keras-hub")
task = keras_hub.models.AlbertTextClassifier.from_preset(
    str(folder / "keras_hub"), preprocessor=None
)
print(type(task).__module__.split(".")[0], type(task).__name__)
compare("KerasHub, same ids", task.predict(ids, verbose=0))
again = keras_albert.AlbertClassifier.from_preset(folder / "keras_hub")
compare("from KerasHub", again.predict(validation_texts, verbose=0))

"""
## google-research/albert

The original code reads TensorFlow 1 checkpoints. Their variables have the names
of the first ALBERT program. The files do not contain the names of the classes, so
they are assigned after loading. As an argument of `from_preset()`, `labels` would
mean new classes, and a new head.
"""

export_checkpoint(classifier, folder / "google", "google")
print(sorted(path.name for path in (folder / "google").iterdir()))
again = keras_albert.AlbertClassifier.from_preset(folder / "google")
again.labels = classifier.class_names
print(again.classify("Where is my parcel? It was due on Monday."))
compare("from google-research", again.predict(validation_texts, verbose=0))

"""
## One call with a check

`convert_checkpoint()`, and the command `keras-albert convert`, convert any format
to any other, load the new files with the other library, and compare outputs on a
small batch. If they differ, nothing is written. The result lists where each
weight is from.
"""

done = convert_checkpoint(folder / "transformers", folder / "copy", "keras-hub")
print(done.model, {name: f"{value:.1e}" for name, value in done.differences.items()})
for _, source, target, shape in done.weights[:6]:
    print(f"{shape!s:<12} {source}\n{'':<12} -> {target}")

"""
## Damaged files

Here a tensor is removed from the file, as an incomplete download or another
version of a program might do. The error names it:
"""

weights_file = folder / "transformers" / "model.safetensors"
tensors = load_file(weights_file)
tensors.pop("classifier.weight")
save_file(tensors, weights_file)
try:
    keras_albert.AlbertClassifier.from_preset(folder / "transformers")
except ValueError as error:
    print(error)

"""
## Share a model

A preset is shared by uploading its directory. This needs an account and a token of
the hub, and is not run here:

```shell
hf auth login
keras-albert push own hf://your_name/support_messages
```

Others load it with the handle:

```python
keras_albert.AlbertClassifier.from_preset("hf://your_name/support_messages")
```

A `README.md` in the directory becomes the model's page, and is required;
`save_to_preset()` leaves such files in place. State what the model was trained on,
how good it is on data that it has not seen, and what it is not for. For users of
transformers, `--to transformers` converts the files first.
"""

"""
## Conclusion
"""

print(f"{'':<24} {'difference':>10} {'same labels':>12}")
for name, (difference, agreement) in comparisons.items():
    print(f"{name:<24} {difference:>10.1e} {agreement:>12.1%}")

"""
All formats return the same outputs up to the rounding of float32. Only the model
with random weights differs.

A full-size model is loaded with the same calls: `albert_base_v2_en_uncased` is a
download of about 50 MB, and needs no GPU to be converted.

What to try next:

- `keras-albert convert albert_base_v2_en_uncased mine --to transformers` on the
  command line, which prints the whole mapping;
- [moving from transformers](migrating_from_transformers.py), for programs with
  `TFAlbert*` classes;
- [serving strings](serving_strings.py): files for programs without Keras.
"""
