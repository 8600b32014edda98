"""What transformers' tests of ALBERT's tokenizer and pipelines assert, of our classes.

The files are `tests/models/albert/test_tokenization_albert.py` and
`tests/test_tokenization_common.py` of transformers 5 (`TokenizerTesterMixin`), and of
`tests/pipelines/` those that `test_modeling_albert.py` asks for. `docs/differences.md`
says under "transformers" where ids and texts differ.

Not here, for they have no counterpart:

- Tokens added after training, other special tokens, `bos_token`, `clean_up_...`: the
  vocabulary is the checkpoint's.
- Chat templates, seq2seq batches, left padding, left truncation: of decoders.
- Subword regularization: sampled pieces would differ between Python, graph and server.
- `model_max_length` and its warning: rows are cut, to the length that a model reads.
- Overflowing tokens: windows are made by the preprocessors that read long texts,
  `tests/text/test_packing.py`.
- Slow and fast tokenizers: there is one, in Python and in graphs,
  `tests/text/tokenizer/test_albert_tokenizer.py`; offsets are tested there as well.
"""

import numpy as np
import pytest
import sentencepiece

from keras_albert import (
    AlbertClassifierPreprocessor,
    AlbertTokenClassifierPreprocessor,
    AlbertTokenizer,
)
from keras_albert.text import TextRules
from tests.serving.served_models import make_task

FIRST, SECOND = "In 2011, the old café opened again.", "It rained in the town."


@pytest.fixture(scope="module")
def tokenizer(tiny_proto):
    return AlbertTokenizer(tiny_proto)


class TestVocabulary:
    def test_get_vocab(self, tokenizer):
        """And `test_vocab_size`."""
        vocabulary = tokenizer.get_vocabulary()
        assert vocabulary[:5] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
        assert len(vocabulary) == tokenizer.vocabulary_size() == len(set(vocabulary))

    def test_conversion_reversible(self, tokenizer):
        """And `test_convert_token_and_id`."""
        for token_id, token in enumerate(tokenizer.get_vocabulary()):
            assert tokenizer.token_to_id(token) == token_id
            assert tokenizer.id_to_token(token_id) == token
        assert tokenizer.token_to_id("no token of it") == 1

    def test_save_and_load(self, tiny_proto, tokenizer, tmp_path):
        """`test_save_and_load_tokenizer`; a preset is a model's, as KerasHub's."""
        expected = tokenizer(FIRST)
        make_task("MaskedLM", tiny_proto).save_to_preset(tmp_path / "preset")
        loaded = AlbertTokenizer.from_preset(tmp_path / "preset")
        assert loaded.get_vocabulary() == tokenizer.get_vocabulary()
        np.testing.assert_array_equal(loaded(FIRST), expected)
        (path,) = tokenizer.save_vocabulary(tmp_path / "file")
        by_its_file = sentencepiece.SentencePieceProcessor(model_file=path)
        assert by_its_file.Encode(FIRST) == expected.tolist()


class TestEncoding:
    def test_internal_consistency(self, tokenizer):
        text = "it rained in the old town."
        ids = tokenizer(text)
        assert tokenizer.detokenize(ids) == text
        tokens = [tokenizer.id_to_token(token_id) for token_id in ids]
        assert [tokenizer.token_to_id(token) for token in tokens] == ids.tolist()
        pieces = AlbertTokenizer(tokenizer.proto, dtype="string")([text])
        assert pieces == [tokens]

    def test_sequence_builders(self, tokenizer):
        """And `test_number_of_added_tokens`, `test_special_tokens_mask`."""
        first, second = (tokenizer(text).tolist() for text in (FIRST, SECOND))
        row = tokenizer.build_inputs_with_special_tokens(first)
        assert row == [2, *first, 3]
        pair = tokenizer.build_inputs_with_special_tokens(first, second)
        assert pair == [2, *first, 3, *second, 3]
        for ids, parts in ((row, (first,)), (pair, (first, second))):
            mask = tokenizer.get_special_tokens_mask(*parts)
            found = [i for i, special in zip(ids, mask, strict=True) if not special]
            assert found == [i for part in parts for i in part]

    def test_token_type_ids(self, tokenizer):
        """And `test_mask_output`, `test_sequence_ids`: segments of text and pair."""
        preprocessor = AlbertClassifierPreprocessor(tokenizer)
        first, second = tokenizer(FIRST).tolist(), tokenizer(SECOND).tolist()
        packed = preprocessor((FIRST, SECOND))
        expected = tokenizer.create_token_type_ids_from_sequences(first, second)
        assert packed["segment_ids"][: len(expected)].tolist() == expected
        assert not preprocessor(FIRST)["segment_ids"].any()

    def test_padding(self, tokenizer):
        """`test_encode_basic_padding`, `test_encode_plus_with_padding` to the right."""
        ids = tokenizer(FIRST).tolist()
        length = len(ids) + 2 + 10
        packed = AlbertClassifierPreprocessor(tokenizer, sequence_length=length)(FIRST)
        assert packed["token_ids"].tolist() == [2, *ids, 3] + [0] * 10
        assert packed["padding_mask"].tolist() == [1] * (length - 10) + [0] * 10
        assert packed["segment_ids"].tolist() == [0] * length

    def test_padding_to_multiple_of(self, tokenizer):
        buckets = range(8, 65, 8)
        preprocessor = AlbertClassifierPreprocessor(tokenizer, length_buckets=buckets)
        for text in ("", "this", FIRST, [FIRST, SECOND]):
            for ids in preprocessor(text).values():
                assert ids.shape[-1] % 8 == 0

    def test_batches(self, tokenizer):
        """`test_call`, `test_batch_encode_plus_...`: one text as in a batch."""
        preprocessor = AlbertClassifierPreprocessor(tokenizer, sequence_length=64)
        for texts in ([FIRST, SECOND, ""], ([FIRST, SECOND], [SECOND, FIRST])):
            batch = preprocessor(texts)
            rows = list(zip(*texts, strict=True)) if isinstance(texts, tuple) else texts
            for number, row in enumerate(rows):
                for name, ids in preprocessor(row).items():
                    np.testing.assert_array_equal(batch[name][number], ids)

    @pytest.mark.parametrize("truncate", ["round_robin", "waterfall"])
    def test_maximum_encoding_length(self, tokenizer, truncate):
        """Of a text and of a pair: `"longest_first"` and `"only_second"`."""
        first, second = tokenizer(FIRST).tolist(), tokenizer(SECOND).tolist()
        room = len(first) + len(second) - 2
        preprocessor = AlbertClassifierPreprocessor(
            tokenizer, sequence_length=room + 3, truncate=truncate
        )
        if truncate == "round_robin":
            longer = max(first, second, key=len)
            del longer[-2:]
        else:
            del second[-2:]
        ids = preprocessor((FIRST, SECOND))["token_ids"].tolist()
        assert ids == [2, *first, 3, *second, 3]
        alone = preprocessor(f"{FIRST} {FIRST} {SECOND}")
        assert alone["token_ids"][-1] == 3
        assert alone["padding_mask"].all()

    def test_pretokenized_inputs(self, tokenizer):
        preprocessor = AlbertTokenClassifierPreprocessor(tokenizer, sequence_length=64)
        packed = preprocessor([FIRST.split()])
        expected = tokenizer.build_inputs_with_special_tokens(tokenizer(FIRST))
        assert packed["token_ids"][0, : len(expected)].tolist() == expected
        assert packed["padding_mask"].sum() == len(expected)

    def test_empty_input_string(self, tokenizer):
        ids = tokenizer("")
        assert (ids.dtype, ids.shape) == (np.int32, (0,))


@pytest.mark.shared_data
class TestReleasedVocabulary:
    """The ids that transformers' tests expect, of ALBERT's own vocabulary."""

    def test_integration(self, shared_data):
        tokenizer = AlbertTokenizer(shared_data / "albert_spm" / "spiece.model")
        text = "This is a test 😊\nI was born in 92000, and this is falsé.\n<s>\nhi<s>"
        expected = [48, 25, 21, 1289, 13, 1, 31, 23, 386, 19, 561, 3050, 15, 17, 48]
        expected += [25, 4997, 9, 13, 1, 18, 1, 4148, 1, 18, 1]
        assert tokenizer(text).tolist() == expected

    def test_full_tokenizer(self, shared_data):
        """With accents kept."""
        rules = TextRules(strip_accents=False)
        path = shared_data / "albert_spm" / "spiece.model"
        tokenizer = AlbertTokenizer(path, text_rules=rules)
        assert tokenizer("This is a test").tolist() == [48, 25, 21, 1289]
        ids = [31, 23, 386, 19, 561, 3050, 15, 17, 48, 25, 8256, 18, 1, 9]
        assert tokenizer("I was born in 92000, and this is falsé.").tolist() == ids


class TestPipelines:
    def test_fill_mask(self, tiny_proto):
        task = make_task("MaskedLM", tiny_proto)
        answers = task.fill_mask("the [MASK] town", top_k=2)
        keys = {"sequence", "score", "token", "token_str"}
        assert [set(answer) for answer in answers] == [keys] * 2
        assert answers[0]["score"] >= answers[1]["score"]
        # The scores are those of the answers among all tokens, with targets as well.
        named = task.fill_mask("the [MASK] town", targets=[answers[1]["token_str"]])
        assert [answer["token"] for answer in named] == [answers[1]["token"]]
        assert named[0]["score"] == pytest.approx(answers[1]["score"], rel=1e-4)
        two = task.fill_mask(["a [MASK] and [MASK]"], top_k=3)
        assert [[len(each) for each in row] for row in two] == [[3, 3]]
        with pytest.raises(ValueError, match=r"has no \[MASK\]"):
            task.fill_mask(["the town"])
        with pytest.raises(ValueError, match="`targets` is empty"):
            task.fill_mask("the [MASK]", targets=[])

    def test_question_answering(self, tiny_proto):
        task = make_task("QuestionAnswerer", tiny_proto, lengths={"doc_stride": 9})
        contexts = ["The captain went to the hill.", "The bread is by the river."]
        answers = task.answer(["Where?", "What?"], contexts)
        for answer, context in zip(answers, contexts, strict=True):
            assert set(answer) == {"answer", "score", "start", "end"}
            assert context[answer["start"] : answer["end"]] == answer["answer"]
        assert task.answer("Where?", contexts[0])["answer"] == answers[0]["answer"]
        with pytest.raises(ValueError, match="of row 0 is empty"):
            task.answer("", contexts[0])

    def test_text_classification(self, tiny_proto):
        task = make_task("Classifier", tiny_proto, labels=("bad", "good", "dull"))
        answer = task.classify(FIRST)
        assert set(answer) == {"label", "score"}
        assert answer["label"] in task.class_names
        (ranked,) = task.classify([FIRST], top_k=3)
        assert {each["label"] for each in ranked} == set(task.class_names)
        assert sum(each["score"] for each in ranked) == pytest.approx(1)
        pair = task.classify((FIRST, SECOND))
        assert pair["score"] != answer["score"]

    def test_token_classification(self, tiny_proto):
        task = make_task("TokenClassifier", tiny_proto, labels=("B-X", "I-X"))
        entities = task.tag(FIRST)
        assert entities
        for entity in entities:
            assert {"label", "score", "start", "end"} < set(entity)
            assert FIRST[entity["start"] : entity["end"]] == entity["text"]
        assert len(task.tag([FIRST, SECOND])) == 2

    def test_feature_extraction(self, tiny_proto):
        task = make_task("TextEmbedder", tiny_proto)
        assert task.embed(FIRST).shape == (16,)
        assert task.embed([FIRST, SECOND]).shape == (2, 16)
