"""What google-research/albert's tests and data code assert, of our classes.

Its test files are `tokenization_test.py`, `modeling_test.py`, `optimization_test.py`
and `run_pretraining_test.py`. Other modules have no tests, and what they compute is
held elsewhere, against the same rules written anew:

- `lamb_optimizer.py`: `tests/pretraining/test_lamb.py`.
- `create_pretraining_data.py`: `tests/pretraining/prepare/test_sentence_pairs.py`,
  `tests/text/test_masking.py`.
- `squad_utils.py`: scores `tests/tasks/question_answering/test_squad_scores.py`,
  windows `tests/text/test_packing.py`, answers
  `tests/tasks/question_answering/test_answers.py`.
- `race_utils.py`: rows `tests/text/tasks/test_multiple_choice.py`; its texts are
  here.
- `run_pretraining_test.py`, a run of one step and its files:
  `tests/pretraining/test_pretrain.py`.

Not here, for they have no counterpart: `einsum_via_matmul`; WordPiece, and the
`BasicTokenizer` before it, which splits at punctuation and around Chinese characters
(BERT's vocabularies; ALBERT's are SentencePiece's); `all_encoder_layers` as an output
of the model (`tests/peers/test_transformers_models.py` asks the encoder for them).
"""

import json

import keras
import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertMultipleChoicePreprocessor,
    AlbertTokenizer,
)
from keras_albert.pretraining import Lamb
from keras_albert.tasks.optimizers import AdamW
from keras_albert.text import TextRules
from keras_albert.text.packing import truncated_lengths

SIZES = {
    "vocabulary_size": 99,
    "num_layers": 5,
    "num_heads": 4,
    "embedding_dim": 32,
    "hidden_dim": 32,
    "intermediate_dim": 37,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "num_segments": 16,
    "use_embedding_projection": True,
}


class TestTokenization:
    """`tokenization_test.py`, as far as SentencePiece answers its questions."""

    @pytest.fixture
    def tokenizer(self, tiny_proto):
        return AlbertTokenizer(tiny_proto)

    def test_basic_tokenizer_lower(self, tokenizer):
        ids = tokenizer(" \tHeLLo,how  \n Are yoU?  ")
        assert tokenizer.detokenize(ids) == "hello,how are you?"
        np.testing.assert_array_equal(tokenizer("H\u00e9llo"), tokenizer("hello"))

    def test_basic_tokenizer_no_lower(self, tiny_proto):
        from keras_albert.text import train_vocabulary

        cased = TextRules(lowercase=False, strip_accents=False)
        proto = train_vocabulary(
            ["HeLLo you, Are yoU?", "H\u00e9llo how"] * 9,
            vocabulary_size=32,
            text_rules=cased,
        )
        tokenizer = AlbertTokenizer(proto)
        text = " \tHeLLo  \n Are yoU?  "
        assert tokenizer.detokenize(tokenizer(text)) == "HeLLo Are yoU?"

    @pytest.mark.parametrize("blank", [" ", "\t", "\r", "\n", "\u00a0"])
    def test_is_whitespace(self, tokenizer, blank):
        expected = tokenizer("the town")
        np.testing.assert_array_equal(tokenizer(f"the{blank}town"), expected)

    def test_is_control(self, tokenizer):
        np.testing.assert_array_equal(tokenizer("to\u0005wn"), tokenizer("town"))

    def test_unknown_characters(self, tokenizer):
        """`test_chinese` and `test_wordpiece_tokenizer`: they are `[UNK]`."""
        ids = tokenizer("the \u535a\u63a8 town")
        assert (ids == tokenizer.unk_token_id).any()
        known = tokenizer("the town").tolist()
        assert [i for i in ids if i in known] == known
        assert tokenizer("").tolist() == []

    def test_convert_tokens_to_ids(self, tokenizer):
        ids = tokenizer("unwanted running").tolist()
        tokens = [tokenizer.id_to_token(token_id) for token_id in ids]
        assert "".join(tokens).replace("▁", " ").strip() == "unwanted running"
        assert [tokenizer.token_to_id(token) for token in tokens] == ids


class TestModel:
    """`modeling_test.py`."""

    def test_default(self):
        backbone = AlbertBackbone(**SIZES)
        rng = np.random.default_rng(0)
        inputs = {
            "token_ids": rng.integers(0, 99, (13, 7)),
            "segment_ids": rng.integers(0, 16, (13, 7)),
            "padding_mask": rng.integers(0, 2, (13, 7)),
        }
        embedded = backbone.embedding(inputs["token_ids"], inputs["segment_ids"])
        assert tuple(embedded.shape) == (13, 7, 32)
        outputs = backbone(inputs)
        assert tuple(outputs["sequence_output"].shape) == (13, 7, 32)
        assert tuple(outputs["pooled_output"].shape) == (13, 32)
        for output in outputs.values():
            assert np.isfinite(keras.ops.convert_to_numpy(output)).all()

    def test_config_to_json_string(self):
        config = json.loads(json.dumps(AlbertBackbone(**SIZES).get_config()))
        assert (config["vocabulary_size"], config["hidden_dim"]) == (99, 32)


@pytest.mark.parametrize(
    ("optimizer", "atol"),
    [
        (AdamW(0.2, beta_1=0.9, beta_2=0.999, weight_decay=0.0), 1e-2),
        # Its steps are as long as the weights, and don't get shorter by themselves.
        (Lamb(keras.optimizers.schedules.CosineDecay(0.2, 100), decay_rate=0.0), 2e-2),
    ],
    ids=["adam", "lamb"],
)
def test_optimization(optimizer, atol):
    """`optimization_test.py`: a hundred steps down a parabola end at its foot."""
    weights = keras.Variable([0.1, -0.2, -0.1], name="w")
    target = np.array([0.4, 0.2, -0.5], "float32")
    for _ in range(100):
        error = keras.ops.convert_to_numpy(weights.value) - target
        optimizer.apply([keras.ops.array(2 * error / 3)], [weights])
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(weights.value), target, rtol=1e-2, atol=atol
    )


def test_pairs_are_cut_as_the_reference_cuts_them():
    """`_truncate_seq_pair`: of the longer one, of the second where both are alike."""
    for first in range(9):
        for second in range(9):
            for room in range(2, 12):
                a, b = first, second
                while a + b > room:
                    if a > b:
                        a -= 1
                    else:
                        b -= 1
                lengths = (np.array([first]), np.array([second]))
                found = truncated_lengths(lengths, room, "round_robin")
                assert [int(each[0]) for each in found] == [a, b]


def test_texts_of_race(tiny_proto):
    """`RaceProcessor`: a choice fills the blank, or follows the question."""
    tokenizer = AlbertTokenizer(tiny_proto)
    preprocessor = AlbertMultipleChoicePreprocessor(tokenizer, sequence_length=64)
    article = "The baker sold eleven loaves."
    questions = ["He sold _ loaves.", "Who sold them?"]
    choices = [["ten", "eleven"], ["the baker", "nobody"]]
    packed = preprocessor(([article] * 2, questions, choices))
    for question, row, options in zip(
        questions, packed["token_ids"], choices, strict=True
    ):
        for ids, choice in zip(row, options, strict=True):
            text = f"{question} {choice}"
            if "_" in question:
                text = question.replace("_", choice)
            expected = tokenizer.build_inputs_with_special_tokens(
                *(tokenizer(each).tolist() for each in (article, text))
            )
            assert ids[: len(expected)].tolist() == expected
