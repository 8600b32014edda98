"""Tasks with a WordPiece vocabulary return the same in ONNX Runtime."""

import importlib.util

import numpy as np
import pytest

from keras_albert import AlbertTokenizer
from keras_albert.text.tokenizer.word_piece import WordPieceRules
from tests.serving.onnx.onnx_sessions import ask
from tests.serving.saved_model.served_answers import assert_fillings
from tests.serving.served_models import HARD, MASKED, make_task
from tests.word_pieces import WORD_PIECES, word_proto

pytest.importorskip("onnxscript")
if importlib.util.find_spec("onnxruntime_extensions") is None:
    pytest.skip("needs onnxruntime_extensions", allow_module_level=True)

# One length, so that the backend compiles once.
LENGTHS = {"length_buckets": [40]}


def test_fills_masks(tmp_path):
    task = make_task("MaskedLM", word_proto(), lengths=LENGTHS)
    (found,) = ask(task, tmp_path, {"text": MASKED})
    assert_fillings(found, task.fill_mask(MASKED))


def test_answers(tmp_path):
    lengths = LENGTHS | {"doc_stride": 9, "max_query_length": 8}
    task = make_task("QuestionAnswerer", word_proto(), lengths=lengths)
    questions, contexts = ["What runs?"] * 3, HARD[2:5]
    (found,) = ask(task, tmp_path, {"question": questions, "context": contexts})
    for row, answer in enumerate(task.answer(questions, contexts)):
        assert found["score"][row] == pytest.approx(answer["score"], abs=1e-5)
        assert found["start"][row] == answer["start"]
        assert found["end"][row] == answer["end"]


def test_tokens_that_are_never_split(tmp_path):
    rules = WordPieceRules(never_split=("[E1]", "[E12]"))
    # U+FFFD is removed from texts, and no other character becomes it.
    proto = AlbertTokenizer([*WORD_PIECES, "[E1]", "[E12]", "\ufffd"], rules).proto
    task = make_task("TextEmbedder", proto, lengths=LENGTHS)
    texts = ["the [E1]river[E12] [E2]", "[E12]", "in 🙂 town", ""]
    (found,) = ask(task, tmp_path, {"text": texts})
    np.testing.assert_allclose(found["embedding"], task.embed(texts), atol=1e-5)
