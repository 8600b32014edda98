"""What KerasHub's tests of ALBERT assert, of our classes.

KerasHub's files (`keras_hub/src/models/albert/*_test.py`, version 0.32) run as they are
on our classes once the imports name them, but for what `docs/differences.md` lists
under "KerasHub". The same assertions stand here in our words, each test under the name
of the one that it is for; a test of a difference asserts what happens instead.

Not here: `test_smallest_preset` and `test_all_presets`, which download weights
(`tests/presets/test_builtin.py` has the names), and `test_litert_export`, which is
skipped there where `litert-torch` is absent (`tests/exports/test_litert.py`).
"""

import keras
import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertClassifierPreprocessor,
    AlbertMaskedLM,
    AlbertMaskedLMPreprocessor,
    AlbertTextClassifier,
    AlbertTextClassifierPreprocessor,
    AlbertTokenizer,
)
from tests.one_backend import on_one_backend_except
from tests.peers.keras_hub_checks import (
    assert_close,
    check_precision,
    check_preprocessor,
    check_quantization,
    check_saving,
    check_serialization,
)

# PyTorch lacks half precision on a CPU; the rest is the same on each backend.
pytestmark = on_one_backend_except("TestBackbone::test_precision_and_quantization")

FOX = ["the quick brown fox"]
TEXTS = ["the quick brown fox.", "the slow brown fox."]
SMALL = {
    "num_layers": 2,
    "num_heads": 2,
    "hidden_dim": 2,
    "embedding_dim": 2,
    "intermediate_dim": 4,
}


def data_set(elements):
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    return tf.data.Dataset.from_tensor_slices(elements)


def test_names_of_keras_hub():
    assert AlbertTextClassifier is AlbertClassifier
    assert AlbertTextClassifierPreprocessor is AlbertClassifierPreprocessor


class TestBackbone:
    """`AlbertBackboneTest`."""

    arguments = SMALL | {
        "vocabulary_size": 10,
        "num_groups": 1,
        "num_inner_repetitions": 1,
        "embedding_dim": 16,
        "max_sequence_length": 5,
    }

    @pytest.fixture
    def inputs(self):
        return {
            "token_ids": keras.ops.ones((2, 5), dtype="int32"),
            "segment_ids": keras.ops.zeros((2, 5), dtype="int32"),
            "padding_mask": keras.ops.ones((2, 5), dtype="int32"),
        }

    def test_backbone_basics(self, inputs):
        backbone = AlbertBackbone(**self.arguments)
        check_serialization(backbone)
        outputs = backbone(inputs)
        assert tuple(outputs["sequence_output"].shape) == (2, 5, 2)
        assert tuple(outputs["pooled_output"].shape) == (2, 2)
        embedded = backbone.token_embedding(keras.ops.zeros((2, 3), dtype="int32"))
        assert tuple(embedded.shape) == (2, 3, 16)
        for length in (2, 3, 4):
            shorter = {name: ids[:, :length] for name, ids in inputs.items()}
            found = backbone(shorter)["sequence_output"]
            assert tuple(found.shape) == (2, length, 2)
        assert backbone.name.startswith("albert_backbone")

    def test_predict(self, inputs):
        """`run_backbone_test`, arrays and a data set of them."""
        backbone = AlbertBackbone(**self.arguments)
        arrays = {name: np.asarray(ids) for name, ids in inputs.items()}
        outputs = backbone.predict(arrays, verbose=0)
        batches = data_set(arrays).batch(2)
        assert_close(backbone.predict(batches, verbose=0), outputs)

    @pytest.mark.skipif(
        keras.config.backend() == "torch", reason="KerasHub skips it on PyTorch"
    )
    def test_precision_and_quantization(self, inputs):
        """`run_backbone_test`, its two last checks."""
        check_precision(AlbertBackbone, self.arguments, inputs)
        check_quantization(AlbertBackbone, self.arguments, inputs)

    def test_saved_model(self, inputs, tmp_path):
        check_saving(AlbertBackbone(**self.arguments), inputs, tmp_path)

    def test_error_for_invalid_num_groups(self):
        """A difference: groups need not divide layers."""
        backbone = AlbertBackbone(**self.arguments | {"num_layers": 3, "num_groups": 2})
        assert backbone.num_groups == 2


class TestTextClassifierPreprocessor:
    """`AlbertTextClassifierPreprocessorTest`."""

    @pytest.fixture
    def preprocessor(self, hub_proto):
        return AlbertTextClassifierPreprocessor(
            AlbertTokenizer(hub_proto), sequence_length=8
        )

    def test_preprocessor_basics(self, preprocessor):
        x = {
            "token_ids": [[2, 5, 10, 6, 8, 3, 0, 0]],
            "segment_ids": [[0] * 8],
            "padding_mask": [[1, 1, 1, 1, 1, 1, 0, 0]],
        }
        check_preprocessor(preprocessor, (FOX, [1], [1.0]), (x, [1], [1.0]))

    def test_errors_for_2d_list_input(self, preprocessor):
        with pytest.raises(ValueError, match=r"\(list\), not a text"):
            preprocessor([["one", "two"], ["three", "four"]])


class TestMaskedLMPreprocessor:
    """`AlbertMaskedLMPreprocessorTest`."""

    def test_preprocessor_basics(self, hub_proto):
        preprocessor = AlbertMaskedLMPreprocessor(
            AlbertTokenizer(hub_proto),
            mask_selection_rate=1.0,
            mask_token_rate=1.0,
            random_token_rate=0.0,
            mask_selection_length=4,
            sequence_length=12,
        )
        x = {
            "token_ids": [[2, 4, 4, 4, 4, 3, 0, 0, 0, 0, 0, 0]],
            "segment_ids": [[0] * 12],
            "padding_mask": [[1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]],
            "mask_positions": [[1, 2, 3, 4]],
        }
        expected = (x, [[5, 10, 6, 8]], [[1.0, 1.0, 1.0, 1.0]])
        check_preprocessor(preprocessor, FOX, expected, in_graph=False)

    def test_mapped_over_a_data_set(self, hub_proto):
        """A difference: masks are not drawn inside a graph of `tf.data`."""
        preprocessor = AlbertMaskedLMPreprocessor(AlbertTokenizer(hub_proto))
        with pytest.raises(TypeError, match="the data set of raw batches to the task"):
            data_set(FOX).map(preprocessor)


def backbone_for(preprocessor):
    return AlbertBackbone(
        vocabulary_size=preprocessor.tokenizer.vocabulary_size(),
        max_sequence_length=preprocessor.sequence_length,
        **SMALL,
    )


class TestTextClassifier:
    """`AlbertTextClassifierTest`."""

    @pytest.fixture
    def arguments(self, hub_proto):
        # KerasHub's test gives no length, and `None` is no size of a backbone.
        preprocessor = AlbertTextClassifierPreprocessor(
            AlbertTokenizer(hub_proto, sequence_length=5), sequence_length=12
        )
        return {
            "preprocessor": preprocessor,
            "backbone": backbone_for(preprocessor),
            "num_classes": 2,
        }

    def test_classifier_basics(self, arguments):
        task = AlbertTextClassifier(**arguments)
        preprocessor = task.preprocessor
        check_serialization(task)
        keras.tree.assert_same_structure(preprocessor(TEXTS), task.input)
        elements = data_set((TEXTS, [1, 0])).batch(2)
        mapped = elements.map(preprocessor)

        outputs = task.predict(TEXTS, verbose=0)
        assert outputs.shape == (2, 2)
        assert_close(task.predict(elements, verbose=0), outputs)
        task.preprocessor = None
        assert_close(task.predict(mapped, verbose=0), outputs)
        task.fit(mapped, verbose=0)
        task.preprocessor = preprocessor
        task.fit(TEXTS, [1, 0], verbose=0)
        task.fit(elements, verbose=0)


class TestMaskedLM:
    """`AlbertMaskedLMTest`."""

    @pytest.fixture
    def arguments(self, hub_proto):
        preprocessor = AlbertMaskedLMPreprocessor(
            AlbertTokenizer(hub_proto, sequence_length=5),
            mask_selection_rate=1.0,
            mask_token_rate=1.0,
            random_token_rate=0.0,
            mask_selection_length=5,
            sequence_length=5,
        )
        return {"preprocessor": preprocessor, "backbone": backbone_for(preprocessor)}

    def test_masked_lm_basics(self, arguments):
        task = AlbertMaskedLM(**arguments)
        preprocessor = task.preprocessor
        check_serialization(task)
        masked = preprocessor(TEXTS)
        keras.tree.assert_same_structure(masked[0], task.input)
        # Preprocessed ahead, as no graph masks.
        mapped = data_set(masked).batch(2)
        outputs = task.predict(masked[0], verbose=0)
        assert outputs.shape == (2, 5, 12)
        task.preprocessor = None
        assert_close(task.predict(mapped, verbose=0), outputs)
        task.fit(mapped, verbose=0)
        task.preprocessor = preprocessor
        task.fit(TEXTS, verbose=0)
        task.fit(data_set(TEXTS).batch(2), verbose=0)

    def test_predict_on_texts(self, arguments):
        """A difference: `predict` masks nothing, of lists and data sets alike."""
        task = AlbertMaskedLM(**arguments)
        texts = ["the [MASK] brown fox", "the fox"]
        outputs = task.predict(texts, verbose=0)
        assert outputs.shape == (2, 1, 12)
        batches = data_set(texts).batch(2)
        assert_close(task.predict(batches, verbose=0), outputs)
        assert_close(task.predict(texts, verbose=0), outputs)
