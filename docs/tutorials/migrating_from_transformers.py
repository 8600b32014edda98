"""
Title: From transformers' TFAlbert to keras_albert
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Class by class, argument by argument, with a comparison of the outputs.
Accelerator: None
"""

"""
## Introduction

Version 5 of [transformers](https://github.com/huggingface/transformers) has no
TensorFlow classes. Programs that use `TFAlbertForSequenceClassification` or a
similar class stay with version 4, or move. They can move to PyTorch, or they can
stay with Keras: `keras_albert` reads the same checkpoints on TensorFlow, JAX
and PyTorch, with heads and names of labels.

This guide shows

1. which class, argument and function corresponds to which,
2. that the numbers are the same: random models of all seven classes are made
   with transformers, loaded here, and compared,
3. the same program before and after, from text to training,
4. the way back.
"""

"""
## Setup

The packages are installed with `pip install "keras-albert[torch]" transformers`.
transformers itself needs PyTorch; `keras_albert` runs on any backend, which the
environment variable `KERAS_BACKEND` selects. Programs that only read
checkpoints need neither transformers nor PyTorch. No network is needed.
"""

import pathlib
import tempfile

import keras
import numpy as np
import torch
import transformers

import keras_albert
from keras_albert import checkpoints

keras.utils.set_random_seed(0)
transformers.utils.logging.disable_progress_bar()
folder = pathlib.Path(tempfile.mkdtemp())

"""
## Classes

| transformers 4 | keras_albert | in one line |
|---|---|---|
| `TFAlbertModel` | `AlbertBackbone` | `backbone(inputs)` |
| `TFAlbertForPreTraining` | `AlbertPretrainer` | `score_order()` |
| `TFAlbertForMaskedLM` | `AlbertMaskedLM` | `fill_mask()` |
| `TFAlbertForSequenceClassification` | `AlbertClassifier` | `classify()` |
| `TFAlbertForTokenClassification` | `AlbertTokenClassifier` | `tag()` |
| `TFAlbertForQuestionAnswering` | `AlbertQuestionAnswerer` | `answer()` |
| `TFAlbertForMultipleChoice` | `AlbertMultipleChoice` | `choose()` |
| `TFAlbertModel`, mean pooling | `AlbertTextEmbedder` | `embed()` |
| `AlbertTokenizer`, `AlbertTokenizerFast` | `AlbertTokenizer` | in each task |
| `AlbertConfig` | arguments of `AlbertBackbone` | `get_config()` |
| `pipeline()` | the method of the task | see above |

`from_pretrained()` is `from_preset()`. It takes a directory, or
`"hf://user/name"`, and detects the format. `save_pretrained()` is
`save_to_preset()`.

## Arguments of the model

| `AlbertConfig` | `AlbertBackbone` |
|---|---|
| `vocab_size` | `vocabulary_size` |
| `embedding_size` | `embedding_dim` |
| `hidden_size` | `hidden_dim` |
| `num_hidden_layers` | `num_layers` |
| `num_hidden_groups` | `num_groups` |
| `inner_group_num` | `num_inner_repetitions` |
| `num_attention_heads` | `num_heads` |
| `intermediate_size` | `intermediate_dim` |
| `hidden_act="gelu_new"` | `activation="gelu_approximate"` |
| `hidden_act="gelu"` | `activation="gelu"` |
| `hidden_dropout_prob` | `dropout` |
| `attention_probs_dropout_prob` | `attention_dropout` |
| `max_position_embeddings` | `max_sequence_length` |
| `type_vocab_size` | `num_segments` |
| `layer_norm_eps` | `layer_norm_epsilon` |
| `classifier_dropout_prob` | `dropout` of the task |
| `num_labels`, `id2label` | `num_classes`, `labels` of the task |
| `problem_type="multi_label..."` | `activation="sigmoid"` of the classifier |

## Inputs and outputs

| transformers | keras_albert |
|---|---|
| `input_ids` | `token_ids` |
| `token_type_ids` | `segment_ids`, always required |
| `attention_mask` | `padding_mask`, always required |
| `position_ids`, `head_mask`, `inputs_embeds` | none |
| `last_hidden_state` | `sequence_output` |
| `pooler_output` | `pooled_output` |
| `logits` | the output of `predict()` |
| `prediction_logits`, `sop_logits` | `masked_lm`, `sentence_order` |
| `start_logits`, `end_logits` | the same names |
| `labels=...` in the call, `loss` in the output | `y` of `fit()` and `evaluate()` |
| `training=True` | the same |

## A checkpoint of transformers

A released checkpoint would have to be downloaded, so this guide makes a small
one: a classifier with random weights, and the vocabulary of the preset that is
part of the package. The directory looks like one from a hub.
"""

tokenizer = keras_albert.AlbertTokenizer.from_preset("albert_tiny_en_uncased")
sizes = {
    "vocab_size": tokenizer.vocabulary_size(),
    "embedding_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.2,
}
torch.manual_seed(0)
names = {0: "billing", 1: "delivery", 2: "praise"}
config = transformers.AlbertConfig(**sizes, id2label=names)
theirs = transformers.AlbertForSequenceClassification(config).eval()
theirs.save_pretrained(folder / "theirs")
(folder / "theirs" / "spiece.model").write_bytes(tokenizer.proto)
print(sorted(path.name for path in (folder / "theirs").iterdir()))

"""
## Loading it

The task reads the config, the weights, the labels and the vocabulary:
"""

classifier = keras_albert.AlbertClassifier.from_preset(folder / "theirs")
print(f"backend: {keras.config.backend()}, labels: {classifier.labels}")
arguments = classifier.backbone.get_config()
for name in ("vocabulary_size", "hidden_dim", "num_layers", "num_heads", "activation"):
    print(f"{name:>16}: {arguments[name]}")

"""
Both models compute the same rows. The outputs of a deep model in float32 are never
equal to the last bit, because additions are done in another order; a difference
of about 1e-6 is normal for two correct programs. The baseline is the difference of a
model that has the same architecture and other random weights.
"""

texts = ["Where is my parcel?", "Thank you, I love it!", "I was charged twice."]
inputs = classifier.preprocessor(texts)
with torch.no_grad():
    expected = theirs(
        input_ids=torch.tensor(np.asarray(inputs["token_ids"])).long(),
        token_type_ids=torch.tensor(np.asarray(inputs["segment_ids"])).long(),
        attention_mask=torch.tensor(np.asarray(inputs["padding_mask"])).long(),
    ).logits.numpy()
logits = classifier.predict(texts, verbose=0)
unrelated = keras_albert.AlbertClassifier.from_preset(
    folder / "theirs", load_weights=False
)
baseline = unrelated.predict(texts, verbose=0)
print(np.round(expected, 4))
print(np.round(logits, 4))
print(f"largest difference: {np.abs(logits - expected).max():.1e}")
print(f"with other random weights: {np.abs(baseline - expected).max():.1e}")

"""
## All classes

`convert_checkpoint()` does this comparison for any class. It loads a
checkpoint, writes it in another format, loads the new files with the library
that they are made for, and runs a batch in both. It raises an error and writes
nothing if outputs differ by more than 2e-5. Here it converts a random model of
each class to transformers' format again:
"""

class_names = (
    "AlbertModel",
    "AlbertForPreTraining",
    "AlbertForMaskedLM",
    "AlbertForSequenceClassification",
    "AlbertForTokenClassification",
    "AlbertForQuestionAnswering",
    "AlbertForMultipleChoice",
)
for class_name in class_names:
    config = transformers.AlbertConfig(**sizes)
    model = getattr(transformers, class_name)(config)
    source = folder / class_name
    model.save_pretrained(source)
    converted = checkpoints.convert_checkpoint(
        source, folder / f"{class_name}_again", to="transformers", with_vocabulary=False
    )
    difference = max(converted.differences.values())
    print(f"{class_name:32} {converted.model:24} {difference:.1e}")

"""
The mapping of weights is a table. These are some of its rows:
"""

for path, source_name, _, shape in converted.weights[:6]:
    print(f"{path:44} {source_name:48} {shape}")

"""
## The same program, before and after

Before, with transformers 4 and TensorFlow:

```python
from transformers import AlbertTokenizer, TFAlbertForSequenceClassification
from transformers import create_optimizer

tokenizer = AlbertTokenizer.from_pretrained("albert-base-v2")
model = TFAlbertForSequenceClassification.from_pretrained(
    "albert-base-v2", num_labels=3
)
encoded = tokenizer(texts, padding=True, truncation=True, return_tensors="tf")
dataset = tf.data.Dataset.from_tensor_slices((dict(encoded), labels)).batch(32)
optimizer, _ = create_optimizer(
    init_lr=3e-5, num_train_steps=300, num_warmup_steps=30
)
model.compile(optimizer=optimizer)
model.fit(dataset, epochs=3)
probabilities = tf.nn.softmax(model(encoded).logits)
model.save_pretrained("mine")
```

After, on any backend. The task tokenizes, pads each batch to its longest text,
and has a default optimizer with warm-up and decay. Labels may be names. The
preset of the package, written in transformers' format, replaces the
downloaded checkpoint. A masked language model has no pooler, so a warning names it:
"""

masked_lm = keras_albert.AlbertMaskedLM.from_preset("albert_tiny_en_uncased")
masked_lm.export_to_transformers(folder / "pretrained")

labels = ["delivery", "praise", "billing"]
classifier = keras_albert.AlbertClassifier.from_preset(
    folder / "pretrained", labels=sorted(labels)
)
history = classifier.fit(
    texts * 8,
    labels * 8,
    batch_size=8,
    epochs=8,
    validation_data=(texts, labels),
    verbose=2,
)
for text, answer in zip(texts, classifier.classify(texts)):
    print(f"{answer['label']:>9} {answer['score']:.2f}  {text}")
classifier.save_to_preset(folder / "mine")

"""
The model is trained on three sentences only, to show that a loaded model can be
trained. [From 100 labels](hundred_labels.py) has more data and a
baseline.

| transformers 4 | keras_albert |
|---|---|
| `tokenizer(texts, padding=True)` | nothing; or `task.preprocessor(texts)` |
| `DataCollatorWithPadding` | nothing; batches have texts of similar length |
| `DataCollatorForLanguageModeling` | `AlbertMaskedLM`'s preprocessor, in `fit()` |
| `create_optimizer`, `TFTrainer` | `compile(learning_rate=...)` |
| `model.compute_loss`, `labels` in the inputs | the default loss of the task, and `y` |
| `KerasMetricCallback` | `metrics` of `compile()`, and `validation_data` |
| `PushToHubCallback` | `keras-albert push` of the directory of `save_to_preset()` |
| `model.save_pretrained(saved_model=True)` | `task.export("served/mine")`, strings in |

## The way back

`export_to_transformers()` writes a directory for `from_pretrained()`, with the
vocabulary and the labels. transformers has the classes for PyTorch:
"""

classifier.export_to_transformers(folder / "for_transformers")
again = transformers.AlbertForSequenceClassification.from_pretrained(
    folder / "for_transformers"
).eval()
fast_tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "for_transformers")
encoded = fast_tokenizer(texts, padding=True, return_tensors="pt")
with torch.no_grad():
    expected = again(**encoded).logits.numpy()
difference = np.abs(expected - classifier.predict(texts, verbose=0)).max()
print(f"labels: {again.config.id2label}")
print(f"largest difference, from texts, with both tokenizers: {difference:.1e}")

"""
## What differs

- **Segments.** A pair has the segments 0 and 1. transformers' tokenizer for
  ALBERT leaves them out unless `return_token_type_ids=True` is passed, and then
  all tokens are in segment 0.
- **Token ids** follow google-research's code. The tokenizer that
  transformers builds from a `spiece.model` begins a new word after a quotation
  mark or a hyphen, so a few ids differ. An export contains a `tokenizer.json`
  without this difference.
- **Padding and truncation.** Without `sequence_length`, a batch is padded to
  its longest text. transformers' examples often pad all texts to one length,
  which takes many times as long.
- **Masks.** The scores of the question answerer are masked outside the context.
- **Added tokens.** A vocabulary cannot be extended, and embeddings cannot be
  resized.
- **Attention weights** and the outputs of each layer are not among the outputs of
  a task. `all_outputs()` of its backbone returns them.

transformers has hundreds of architectures and a large ecosystem; programs that need
those stay with it. Programs that use ALBERT with Keras can keep their framework,
their checkpoints and their numbers.

## At full size

The same calls load the released models:
`AlbertBackbone.from_preset("hf://albert/albert-base-v2")` is a download of about
50 MB, and the larger ones need more memory. A CPU is enough to load, compare and
convert a model; to fine-tune ALBERT base needs a GPU.

## Conclusion

A checkpoint of transformers is loaded with `from_preset()`, and computes the same: the
outputs of all seven classes differ by rounding, a few millionths at most, where other
random weights differ by 1.4. Tokenization, padding, the loss and the optimizer are part
of the task.

What to try next:

- A checkpoint from a hub: `AlbertClassifier.from_preset("hf://user/name")`.
- `keras-albert convert SOURCE TARGET --to transformers` on the command line.
- [Checkpoints](checkpoints.py) of google-research and KerasHub.
- [Serving strings](serving_strings.py), instead of `TFAutoModel` in a
  SavedModel.
"""
