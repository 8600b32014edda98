"""Requests to the served models, and what their answers are compared with."""

import os
from itertools import chain

import numpy as np
import pytest

from keras_albert.exports.verification import read_signatures
from keras_albert.text.packing import pack_all
from tests.exports.served_models import HARD, MASKED

# The paths of interpreters, separated by spaces, that have tensorflow and
# tensorflow-text of other versions than this one.
OLDER_PYTHONS = os.environ.get("KERAS_ALBERT_OLDER_TENSORFLOWS", "").split()

# `tf.version.GRAPH_DEF_VERSION` of 2.19.
OLDEST_CONSUMER = 2129

# The operations with which exports were tested in TensorFlow 2.19, 2.20 and 2.21. Load
# an export with another one in the older versions (`OLDER_PYTHONS`), and add it here.
_NAMES = """
Abs AddV2 All Any ArgMax Assert AssignVariableOp BatchMatMulV2 BatchMatMulV3 BiasAdd
BitwiseAnd BroadcastTo Cast ConcatV2 Const Cumsum DenseBincount DisableCopyOnRead Einsum
EnsureShape Equal Erfc Exp ExpandDims FastWordpieceTokenizeWithOffsets Fill FloorDiv
FloorMod GatherNd GatherV2 Greater GreaterEqual Identity IdentityN If Less LessEqual
LogSoftmax LogicalAnd LogicalNot LogicalOr LowerBound MatMul Max Maximum Mean
MergeV2Checkpoints Minimum Mul Neg NoOp NotEqual OnesLike Pack Pad PadV2 PartitionedCall
Placeholder Pow Prod RaggedGather RaggedRange RaggedTensorToTensor Range ReadVariableOp
RealDiv ReduceJoin RegexSplitWithOffsets Reshape RestoreV2 Round Rsqrt SaveV2 Select
SelectV2 SentencepieceOp SentencepieceTokenizeOp SentencepieceTokenizeWithOffsetsOp
Shape ShardedFilename Sigmoid Size Slice Softmax SplitV Sqrt Square SquaredDifference
Squeeze StatefulPartitionedCall StaticRegexFullMatch StaticRegexReplace StopGradient
StridedSlice StringJoin StringLength StringSplitV2 Sub Sum TFText>RoundRobinTrim Tanh
TensorListFromTensor TensorListGetItem TensorListReserve TensorListSetItem
TensorListStack Tile TopKV2 Transpose UnicodeDecode UnicodeDecodeWithOffsets
UnicodeEncode UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentSum UpperBound
VarHandleOp Where While
"""
TRIED_OPERATIONS = frozenset(_NAMES.split())

QUESTIONS = ["What do you hear?", "who _ the _?", "_", "When? " * 40]
CHOICES = [
    ["the wind", "lamps", ""],
    ["met", "", ""],
    ["bread_", "rain", "the answer is in the question " * 20],
    ["a", "b", "c"],
]

# Texts of which each follows one of `HARD`, or not.
ORDERED = [*MASKED, *HARD[1::-1]]

# Requests that no client should send: bytes that are not UTF-8, and 100,000 tokens.
STRANGE = {
    "bad": [b"\xff caf\xe9 \xf0\x9f", b"\0"],
    "large": [b"The river runs through the town, and nobody asked. " * 5_000],
}


# Calls of whose rows there are requests of one, and of all in turn up to 65.
REPEATED = "embed embed_document choose label label_document tag words bare_tag read"
REPEATED = (*REPEATED.split(), "doubt")
# Texts with tokens that are never split.
NEVER = ["the [E1]river[E12] [E2]", "[E12]", "in 🙂 town"]
# Words and answers have a place in texts: here also in texts that end in blanks.
PLACED = [*HARD, "abc  ", "  two words \n", "naïve\u200d café\u200b "]


def asked_for(kind, names):
    """Return the names of the models that are tested with strange requests.

    For long texts one model of each task.
    """
    others = ("rounded", "bare_tagger", "reader")
    if kind == "bad":
        return names
    return [n for n in names if n not in others and not n.startswith("word_")]


class ServedModel:
    """A SavedModel in this process: TensorFlow's import takes seconds."""

    def __init__(self, path):
        from keras_albert.exports import replay_program

        self._run, self.model = replay_program.run, replay_program.load(str(path))
        self.signatures = read_signatures(
            replay_program.describe(self.model.signatures)
        )
        self.operations = set(replay_program.operations(path))

    def run(self, name, inputs):
        return self._run(self.model.signatures[name], inputs)


def as_arrays(signature, inputs):
    """Return a request's rows as arrays with the dtypes of a signature."""
    assert sorted(signature.inputs) == sorted(inputs)
    return {
        name: np.array(
            [*map(_to_bytes, inputs[name])] or np.zeros((0,) * len(spec.shape)),
            object if spec.dtype == "string" else spec.dtype,
        )
        for name, spec in signature.inputs.items()
    }


def _to_bytes(row):
    if isinstance(row, list):
        return [_to_bytes(value) for value in row]
    return row.encode() if isinstance(row, str) else row


def ask(path, calls):
    """Return a model's outputs for calls by name, `(signature, inputs)`.

    They are named `name/output`. There are additional requests: the `STRANGE` ones
    (`bad/...`, `large/...`), and inputs with different numbers of rows (`uneven/...`,
    with an error message as the result).
    """
    import tensorflow as tf

    model, calls, found = ServedModel(path), dict(calls), {}
    signatures = model.signatures
    for name, signature in signatures.items():
        if any(spec.dtype != "string" for spec in signature.inputs.values()):
            continue
        bad, large = (
            {
                key: [[text] for text in texts] if len(spec.shape) == 2 else texts
                for key, spec in signature.inputs.items()
            }
            for texts in STRANGE.values()
        )
        calls[f"bad/{path.name}/{name}"] = (name, bad)
        reads_it = name in ("serving_default", "serve_document")
        if reads_it and asked_for("large", [path.name]):
            calls[f"large/{path.name}/{name}"] = (name, large)
        for key in bad if len(bad) > 1 else ():
            uneven = bad | {key: bad[key][:1]}
            calls[f"uneven/{path.name}/{name}/{key}"] = (name, uneven)
    for call, (name, inputs) in calls.items():
        try:
            outputs = model.run(name, as_arrays(signatures[name], inputs))
        except tf.errors.OpError as error:
            found[call] = str(error)
        else:
            found |= {f"{call}/{name}": array for name, array in outputs.items()}
    assert model.operations <= TRIED_OPERATIONS
    return found


def make_calls(tasks):
    """Return all requests by name: the model, its signature and the inputs."""
    texts = {"text": HARD}
    read = {
        "question": [q for q in QUESTIONS for _ in PLACED],
        "context": PLACED * len(QUESTIONS),
    }
    placed = {"text": PLACED}
    asked = {"question": QUESTIONS, "choices": CHOICES}
    choose = asked | {"context": HARD[2:6]}
    nothing = {"question": QUESTIONS[:2], "choices": [["", ""], ["", "a"]]}
    masks = {"text": MASKED, "text_pair": MASKED[::-1]}
    calls = {
        "embed": ("embedder", "serving_default", texts),
        "embed_rounded": ("rounded", "serving_default", texts),
        "embed_pair": ("embedder", "serve_pair", texts | {"text_pair": HARD[::-1]}),
        "embed_document": ("embedder", "serve_document", texts),
        "choose": ("chooser", "serving_default", choose),
        "choose_question": ("chooser", "serve_question", asked),
        "nothing_to_choose": ("chooser", "serve_question", nothing),
        "label": ("labeler", "serving_default", texts),
        "label_pair": ("labeler", "serve_pair", texts | {"text_pair": HARD[::-1]}),
        "label_document": ("labeler", "serve_document", texts),
        "tag": ("tagger", "serving_default", placed),
        "words": ("tagger", "serve_words", placed),
        "bare_tag": ("bare_tagger", "serving_default", placed),
        "bare_words": ("bare_tagger", "serve_words", placed),
        "read": ("reader", "serving_default", read),
        "doubt": ("doubter", "serving_default", read),
        "fill": ("filler", "serving_default", {"text": MASKED}),
        "fill_hard": ("filler", "serving_default", texts),
        "fill_pair": ("filler", "serve_pair", masks),
        "fill_of_pretrainer": ("pretrainer", "fill_mask_pair", masks),
        "order": ("pretrainer", "serving_default", texts | {"text_pair": ORDERED}),
        "word_embed": ("word_embedder", "serving_default", {"text": [*HARD, *NEVER]}),
        "word_tag": ("word_tagger", "serving_default", placed),
        "word_words": ("word_tagger", "serve_words", placed),
        "word_read": (
            *("word_reader", "serving_default"),
            {"question": ["What runs?"] * 3, "context": HARD[2:5]},
        ),
        "word_fill": ("word_filler", "serving_default", {"text": MASKED}),
    }
    for name, (model, signature, inputs) in list(calls.items()):
        one = {key: rows[2:3] for key, rows in inputs.items()}
        none = {key: [] for key in inputs}
        others = {"1": one, "0": none}
        if name in REPEATED:
            others["65"] = {key: (rows * 65)[:65] for key, rows in inputs.items()}
        calls |= {f"{name}_{n}": (model, signature, x) for n, x in others.items()}
    for model, x in (
        ("embedder", HARD),
        ("tagger", HARD),
        ("labeler", HARD),
        ("reader", ([QUESTIONS[0]], ["The wind and the sea."])),
        ("doubter", ([QUESTIONS[0]], ["The wind and the sea."])),
        ("chooser", (HARD[2:4], QUESTIONS[:2], [["a", "b"], ["c", "d"]])),
        ("pretrainer", (HARD, ORDERED)),
        ("filler", MASKED),
    ):
        examples, _ = tasks[model].preprocessor.encode_for("prediction", x)
        packed = pack_all(examples, tasks[model].preprocessor.padded_length, True)[0]
        ids = {
            name: np.asarray(packed[name])
            for name in ("token_ids", "segment_ids", "padding_mask")
        }
        # A server pads with each row's first element.
        ids["padding_mask"] = np.ones_like(ids["padding_mask"])
        inputs = {name: rows.tolist() for name, rows in ids.items()}
        calls[f"{model}_tokens"] = (model, "serve_tokens", inputs)
    return calls


def ask_onnx(tasks, calls, folder):
    """Return ONNX models' outputs for the calls that they can answer; see `ask`."""
    from tests.exports.onnx.onnx_sessions import ask

    # A model of texts, and one of pairs; without a context, a question stands alone.
    own = {"serving_default": False, "serve_question": False, "serve_pair": True}
    asked = {}
    for name, (model, signature, inputs) in calls.items():
        if signature not in own or model == "rounded":
            continue
        context = {"context": [""] * len(inputs.get("question", ()))}
        more = context if signature == "serve_question" else {}
        asked.setdefault((model, own[signature]), {})[name] = inputs | more
    found = {}
    for (model, pairs), inputs in asked.items():
        outputs = ask(tasks[model], folder, *inputs.values(), pairs=pairs)
        for name, arrays in zip(inputs, outputs, strict=True):
            found |= {f"{name}/{key}": array for key, array in arrays.items()}
    return found


def rows_of(outputs, *keys):
    """Return dense outputs as lists of dicts, without padding."""
    return [
        [dict(zip(keys, values, strict=True)) for values in row[:count]]
        for count, row in zip(
            outputs["count"],
            np.array([outputs[key].astype(object) for key in keys]).transpose(1, 2, 0),
            strict=True,
        )
    ]


def text_of(value):
    return value.decode() if isinstance(value, bytes) else value


def assert_rows(found, expected):
    """Check that lists of dicts agree: scores approximately, the rest exactly."""
    assert [len(row) for row in found] == [len(row) for row in expected]
    for a, b in zip(chain(*found), chain(*expected), strict=True):
        assert sorted(a) == sorted(b)
        for key, value in b.items():
            if key == "score":
                assert a[key] == pytest.approx(value, abs=1e-5)
            else:
                assert text_of(a[key]) == value, (a, b)


def assert_same(found, expected):
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected)


def assert_same_in_turn(few, many):
    for key, array in many.items():
        assert_same(array, np.resize(few[key], array.shape))


def assert_fillings(outputs, expected):
    """Check that the tokens for each mask agree with those of `fill_mask`."""
    for row, answers in enumerate(expected):
        # The results for a single mask are not nested in another list.
        masks = answers if isinstance(answers[0], list) else [answers]
        assert outputs["count"][row] == len(masks)
        for mask, tokens in enumerate(masks):
            keys = ("token", "token_str", "score")
            found = [outputs[key][row, mask] for key in keys]
            rows = [dict(zip(keys, t, strict=True)) for t in zip(*found, strict=True)]
            wanted = [{key: answer[key] for key in keys} for answer in tokens]
            assert_rows([rows], [wanted])
