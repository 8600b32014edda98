"""Tasks with a WordPiece vocabulary are served as with SentencePiece."""

import numpy as np
import pytest

from keras_albert import AlbertTokenizer
from keras_albert.serving import verify
from keras_albert.text.tokenizer.word_piece import WordPieceRules
from tests.one_backend import on_one_backend
from tests.serving.saved_model.served_answers import (
    assert_fillings,
    assert_rows,
    rows_of,
)
from tests.serving.served_calls import ask
from tests.serving.served_models import (
    HARD,
    MASKED,
    TAGS,
    balance,
    make_task,
    write,
)
from tests.serving.tried_operations import OLDER_PYTHONS
from tests.word_pieces import WORD_PIECES, word_proto

pytest.importorskip("tensorflow_text")


@on_one_backend
def test_texts_words_masks_and_spans(tmp_path):
    proto = word_proto()
    lengths = {"doc_stride": 9, "max_query_length": 8}
    never_split = WordPieceRules(never_split=("[E1]", "[E12]"))
    marked = AlbertTokenizer([*WORD_PIECES, "[E1]", "[E12]"], never_split).proto
    bert = {"num_groups": 2, "activation": "gelu"}
    tasks = {
        "filler": make_task("MaskedLM", proto),
        "tagger": make_task("TokenClassifier", proto, labels=TAGS),
        "reader": make_task("QuestionAnswerer", proto, lengths=lengths),
        "embedder": make_task("TextEmbedder", marked, sizes=bert),
    }
    balance(tasks["tagger"], tasks["tagger"].output_dense.bias, HARD)
    arguments = []
    for name, task in tasks.items():
        task.save_to_preset(tmp_path / "presets" / name)
        arguments += [tmp_path / "presets" / name, tmp_path / name, "{}"]
    write("saved_model", *arguments)
    questions, contexts = ["What runs?"] * 3, HARD[2:5]
    inputs = {
        "filler": {"text": MASKED},
        "tagger": {"text": HARD},
        "reader": {"question": questions, "context": contexts},
        "embedder": {"text": [*HARD, "the [E1]river[E12] [E2]", "[E12]"]},
    }
    found = {}
    for name, texts in inputs.items():
        answers = ask(tmp_path / name, {"call": ("serving_default", texts)})
        found[name] = {
            key.removeprefix("call/"): array
            for key, array in answers.items()
            if key.startswith("call/")
        }
    assert_fillings(found["filler"], tasks["filler"].fill_mask(MASKED))
    keys = ("label", "score", "start", "end", "text")
    assert_rows(rows_of(found["tagger"], *keys), tasks["tagger"].tag(HARD))
    expected = tasks["reader"].answer(questions, contexts)
    for row, answer in enumerate(expected):
        served = {key: array[row] for key, array in found["reader"].items()}
        assert_rows([[served]], [[answer]])
    vectors = tasks["embedder"].embed(inputs["embedder"]["text"])
    np.testing.assert_allclose(found["embedder"]["embedding"], vectors, atol=1e-5)
    for name in tasks:
        for python in OLDER_PYTHONS:
            assert verify(tmp_path / name, python).largest_difference < 1e-5
