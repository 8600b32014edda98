"""What is asked of the served models, and the program that asks."""

import numpy as np

from keras_albert.text.examples import pack_all
from tests.serving.served_models import HARD, MASKED

QUESTIONS = ["What do you hear?", "who _ the _?", "_", "When? " * 40]
CHOICES = [
    ["the wind", "lamps", ""],
    ["met", "", ""],
    ["bread_", "rain", "the answer is in the question " * 20],
    ["a", "b", "c"],
]

PROGRAM = """
from tensorflow.core.protobuf import saved_model_pb2
models = {name: tf.saved_model.load(path) for name, path in given["paths"].items()}
for name, (model, signature, inputs) in given["calls"].items():
    function = models[model].signatures[signature]
    specs = function.structured_input_signature[1]
    assert sorted(specs) == sorted(inputs)
    keep(name, function(**{
        key: tf.constant(rows, specs[key].dtype)
        if rows else tf.zeros([0] * specs[key].shape.rank, specs[key].dtype)
        for key, rows in inputs.items()
    }))
for model, loaded in models.items():
    with open(given["paths"][model] + "/saved_model.pb", "rb") as file:
        (meta,) = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs
    graph = meta.graph_def
    functions = [function.node_def for function in graph.library.function]
    operations = {node.op for nodes in [graph.node, *functions] for node in nodes}
    answers[f"operations/{model}"] = np.array(sorted(operations))
    for name, function in loaded.signatures.items():
        specs = function.structured_input_signature[1]
        if all(spec.dtype == tf.string for spec in specs.values()):
            bad = np.array([b"\\xff caf\\xe9 \\xf0\\x9f", b"\\0"], object)
            keep(f"bad/{model}/{name}", function(**{
                key: tf.constant(bad.reshape((2, 1)[:spec.shape.rank]))
                for key, spec in specs.items()
            }))
"""


def make_calls(tasks):
    """Give all requests by name: the model, its signature and the inputs."""
    texts = {"text": HARD}
    read = {
        "question": [q for q in QUESTIONS for _ in HARD],
        "context": HARD * len(QUESTIONS),
    }
    choose = {"context": HARD[:4], "question": QUESTIONS, "choices": CHOICES}
    calls = {
        "embed": ("embedder", "serving_default", texts),
        "embed_rounded": ("rounded", "serving_default", texts),
        "embed_pair": ("embedder", "serve_pair", texts | {"text_pair": HARD[::-1]}),
        "choose": ("chooser", "serving_default", choose),
        "choose_question": (
            "chooser",
            "serve_question",
            {"question": QUESTIONS, "choices": CHOICES},
        ),
        "nothing_to_choose": (
            "chooser",
            "serve_question",
            {"question": QUESTIONS[:2], "choices": [["", ""], ["", "a"]]},
        ),
        "tag": ("tagger", "serving_default", texts),
        "words": ("tagger", "serve_words", texts),
        "bare_tag": ("bare_tagger", "serving_default", texts),
        "bare_words": ("bare_tagger", "serve_words", texts),
        "read": ("reader", "serving_default", read),
        "doubt": ("doubter", "serving_default", read),
        "fill": ("filler", "serving_default", {"text": MASKED}),
        "fill_hard": ("filler", "serving_default", texts),
        "fill_pair": (
            "pretrainer",
            "fill_mask_pair",
            {"text": MASKED, "text_pair": MASKED[::-1]},
        ),
        "order": ("pretrainer", "serving_default", texts | {"text_pair": HARD[::-1]}),
    }
    for name, (model, signature, inputs) in list(calls.items()):
        one = {key: rows[2:3] for key, rows in inputs.items()}
        none = {key: [] for key in inputs}
        calls |= {
            f"{name}_{n}": (model, signature, x) for n, x in (("1", one), ("0", none))
        }
    for model, x in (
        ("embedder", HARD),
        ("tagger", HARD),
        ("reader", ([QUESTIONS[0]], ["The wind and the sea."])),
        ("doubter", ([QUESTIONS[0]], ["The wind and the sea."])),
        ("chooser", (HARD[2:4], QUESTIONS[:2], [["a", "b"], ["c", "d"]])),
        ("pretrainer", (HARD, HARD[::-1])),
        ("filler", MASKED),
    ):
        examples, _ = tasks[model].preprocessor.encode_for_prediction(x)
        packed = pack_all(examples, tasks[model].preprocessor.padded_length, True)[0]
        ids = {
            name: np.asarray(packed[name])
            for name in ("token_ids", "segment_ids", "padding_mask")
        }
        # As a server pads: with each row's first element.
        ids["padding_mask"] = np.ones_like(ids["padding_mask"])
        calls[f"{model}_tokens"] = (
            model,
            "serve_tokens",
            {name: rows.tolist() for name, rows in ids.items()},
        )
    return calls
