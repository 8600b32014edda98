"""Small models of all tasks whose predictions differ visibly between texts."""

import random

import keras
import numpy as np

import keras_albert
from keras_albert import AlbertBackbone, AlbertTokenizer
from keras_albert.text.tokenizer.word_piece import WordPieceRules
from tests.programs import run_python
from tests.random_weights import add_noise
from tests.word_pieces import WORD_PIECES, word_proto

WORDS = "the river runs through town and captain said not today , . wind comes in"
# A text of many different windows; between equal ones, rounding would decide.
LONG = " ".join(random.Random(3).choices(WORDS.split(), k=360))
# Difficult texts: empty, blanks, marks and joiners, a text of many windows.
HARD = [
    "",
    " \t ",
    "🙂 naïve CAFÉ, in 2011; e\u0301t 👩\u200d👧 🇬🇧🇫🇷 日本",
    "[SEP] [CLS] \u200b <pad>",
    LONG,
    "\u200d\ufe0f",
]
MASKED = [
    "[MASK] the river[MASK]s through[MASK] the\u3000[MASK].",
    "[MASK]",
    "In 2011, the old [MASK] opened.",
    "[MASK][MASK] \u200b[MASK]\n[MASK], [MASK]É[MASK]\u2003x",
]
TAGS = ("B-person", "B-place", "I-person", "I-place", "O")


def make_task(
    name, proto, max_length=40, lengths=None, num_layers=2, sizes=None, **kwargs
):
    """Make `keras_albert.Albert<name>` with its preprocessor and random weights."""
    tokenizer = AlbertTokenizer(proto)
    preprocessor_cls = getattr(keras_albert, f"Albert{name}Preprocessor")
    preprocessor = preprocessor_cls(
        tokenizer, max_sequence_length=max_length, **(lengths or {})
    )
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=num_layers,
        num_heads=2,
        embedding_dim=8,
        hidden_dim=16,
        intermediate_dim=32,
        max_sequence_length=max_length,
        unroll=True,
        seed=5,
        **(sizes or {}),
    )
    task = getattr(keras_albert, f"Albert{name}")(
        backbone, preprocessor=preprocessor, **kwargs
    )
    return add_noise(task)


def make_tasks(proto):
    """Make models of each task."""
    words, rules = word_proto(), WordPieceRules(never_split=("[E1]", "[E12]"))
    # U+FFFD is removed from texts, and no other character becomes it.
    marked = AlbertTokenizer([*WORD_PIECES, "[E1]", "[E12]", "\ufffd"], rules)
    spread = {"stride": 11, "label_all_pieces": True}
    tasks = {
        "embedder": make_task(
            "TextEmbedder", proto, pooling_mode="cls", dim=12, sizes={"adapter_rank": 2}
        ),
        "rounded": make_task(
            *("TextEmbedder", proto),
            **{"inverse_frequency": 0.01, "dim": 12, "sizes": {"adapter_rank": 2}},
        ),
        "chooser": make_task("MultipleChoice", proto, lengths={"max_qa_length": 9}),
        "tagger": make_task("TokenClassifier", proto, labels=TAGS),
        "bare_tagger": make_task(
            "TokenClassifier", proto, lengths=spread, labels=("O", "a", "b")
        ),
        "reader": make_task(
            "QuestionAnswerer", proto, lengths={"doc_stride": 9, "max_query_length": 8}
        ),
        "doubter": make_task(
            "QuestionAnswerer", proto, head="conditional", start_n_top=3, end_n_top=2
        ),
        "labeler": make_task(
            "Classifier", proto, labels=("a", "é", "c"), activation="sigmoid"
        ),
        "filler": make_task("MaskedLM", proto),
        "pretrainer": make_task("Pretrainer", proto),
        # Of WordPiece vocabularies.
        "word_embedder": make_task(
            "TextEmbedder", marked.proto, sizes={"num_groups": 2, "activation": "gelu"}
        ),
        "word_tagger": make_task("TokenClassifier", words, labels=TAGS),
        "word_reader": make_task(
            "QuestionAnswerer", words, lengths={"doc_stride": 9, "max_query_length": 8}
        ),
        "word_filler": make_task("MaskedLM", words),
    }
    for name in ("tagger", "bare_tagger", "word_tagger"):
        balance(tasks[name], tasks[name].output_dense.bias, HARD)
    tasks["rounded"].quantize("int8")
    # With the median, some questions have an answer and some have none.
    doubter = tasks["doubter"]
    windows = (["What do you hear?"] * 3, HARD[2:5])
    doubts = np.sort(doubter.predict(windows, verbose=0)["answerability"], axis=None)
    # Between two of them: of one that equals the threshold, rounding would decide.
    doubter.null_threshold = float(doubts[len(doubts) // 2 - 1 :][:2].mean())
    return tasks


_PROGRAM = """
import json, sys
from keras_albert.exports.{} import write_{} as write
for source, target, options in zip(*[iter(sys.argv[1:])] * 3):
    write(source, target, **json.loads(options))
"""


def write(program, *arguments):
    """Write exports as `export` does, but many in one process."""
    variables = {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}
    module = {"saved_model": "saved_model.write", "litert": "write_litert"}[program]
    run_python("-c", _PROGRAM.format(module, program), *arguments, **variables)


def balance(task, bias, x):
    """Shift the scores of classes so that each is the best of some text."""
    outputs = np.asarray(task.predict(x, verbose=0))
    outputs = outputs.reshape(-1, outputs.shape[-1])
    bias.assign(keras.ops.convert_to_numpy(bias) - np.median(outputs, axis=0))
