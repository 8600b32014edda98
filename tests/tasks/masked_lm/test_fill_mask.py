"""What the masked language model answers, beside transformers' pipeline."""

import numpy as np
import pytest

from keras_albert import AlbertMaskedLM, AlbertTokenizer
from keras_albert.text.tokenizer.sentencepiece_file import parse_vocabulary
from tests.foreign_models import save_transformers
from tests.one_backend import on_one_backend
from tests.tasks.masked_lm.masked_lm_models import make_masked_lm

pytestmark = on_one_backend

PAIRS = "the dog [MASK] the cat", "the cat [MASK]"


@pytest.fixture(scope="module")
def masked_lm(toy_proto):
    """To read, not to change."""
    return make_masked_lm(toy_proto)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory, tiny_proto):
    """A random `AlbertForMaskedLM` with its vocabulary, in a directory."""
    pytest.importorskip("transformers")
    directory = tmp_path_factory.mktemp("transformers")
    save_transformers(directory, "AlbertForMaskedLM", vocabulary_size=130)
    (directory / "spiece.model").write_bytes(AlbertTokenizer(tiny_proto).proto)
    return directory


@pytest.fixture(scope="module")
def pipeline(foreign, tiny_proto):
    import transformers

    # Read for it: under protobuf 6 transformers cannot parse `spiece.model`.
    pieces = parse_vocabulary(AlbertTokenizer(tiny_proto).proto).pieces
    tokenizer = transformers.AlbertTokenizer(
        vocab=[(piece.piece, piece.score) for piece in pieces]
    )
    model = transformers.AlbertForMaskedLM.from_pretrained(foreign)
    return transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def converted(foreign):
    """The same weights and the same vocabulary, as ours."""
    return AlbertMaskedLM.from_preset(foreign)


class TestFillMask:
    TEXTS = (
        "the river [MASK] through the town",
        "[MASK] the captain said",
        "she paid [MASK] to the captain",
        "the children of [MASK] the village [MASK] the school",
    )

    @pytest.mark.parametrize("text", TEXTS)
    @pytest.mark.parametrize("top_k", [1, 5])
    def test_what_transformers_gives(self, converted, pipeline, text, top_k):
        ids = converted.preprocessor.encode_for("prediction", [text])[0].pack(
            np.array([0]), 24
        )[0]["token_ids"][0]
        theirs = pipeline.tokenizer(text)["input_ids"]
        # What differs between the tokenizers is none of this test's business.
        assert ids[: len(theirs)].tolist() == theirs
        self.compare(
            converted.fill_mask(text, top_k=top_k), pipeline(text, top_k=top_k)
        )

    def test_targets(self, converted, pipeline):
        targets = ["▁the", "▁a", "."]
        text = self.TEXTS[0]
        expected = pipeline(text, targets=targets)
        assert len(expected) == 3
        self.compare(converted.fill_mask(text, targets=targets), expected)
        # A word is the piece that begins with a space.
        named = converted.fill_mask(text, targets=["the", "a", ".", "the"])
        self.compare(named, expected)
        best = converted.fill_mask(text, targets="the")
        assert [answer["token_str"] for answer in best] == ["the"]

    def test_many_texts(self, converted):
        many = converted.fill_mask(list(self.TEXTS), top_k=2, batch_size=3)
        for text, answers in zip(self.TEXTS, many, strict=True):
            self.compare(answers, converted.fill_mask(text, top_k=2))
        assert converted.fill_mask([]) == []

    def compare(self, ours, theirs):
        if isinstance(theirs[0], list):
            for one, other in zip(ours, theirs, strict=True):
                self.compare(one, other)
            return
        for answer, other in zip(ours, theirs, strict=True):
            assert answer.keys() == other.keys()
            assert answer["score"] == pytest.approx(other["score"], abs=1e-5)
            for key in ("token", "token_str", "sequence"):
                assert answer[key] == other[key]

    def test_a_pair(self, masked_lm):
        first, second = masked_lm.fill_mask(PAIRS, top_k=1)
        assert first[0]["sequence"].count("[SEP]") == 2
        assert "[MASK]" in second[0]["sequence"]

    def test_no_more_answers_than_tokens(self, masked_lm):
        answers = masked_lm.fill_mask("the [MASK]", top_k=1000)
        assert len(answers) == 40
        assert sum(answer["score"] for answer in answers) == pytest.approx(1, abs=1e-5)

    @pytest.mark.parametrize(
        ("texts", "arguments", "message"),
        [
            (["a [MASK]", "the old hill"], {}, r"Row 1 of the texts has no \[MASK\]"),
            ("[mask]", {}, r"Row 0 of the texts has no \[MASK\]"),
            (["a [MASK]", "sea " * 90 + "[MASK]"], {}, "Row 1.*cut off"),
            ("a [MASK]", {"top_k": 0}, "top_k=0"),
            ("a [MASK]", {"targets": []}, "`targets` is empty"),
            ("a [MASK]", {"targets": ["a", "rhododendron"]}, "'rhododendron'"),
            ("a [MASK]", {"targets": ["[CLS"]}, "is not in the vocabulary"),
            ("a [MASK]", {"targets": [3]}, "one is 3"),
            (["a [MASK]", None], {}, "row 1 of texts is None"),
            ("a [MASK]", {"batch_size": 0}, "`batch_size` must be a whole number"),
            ("a [MASK]", {"targets": 3}, "`targets` must be words, but one is 3"),
        ],
    )
    def test_bad_input(self, masked_lm, texts, arguments, message):
        with pytest.raises(ValueError, match=message):
            masked_lm.fill_mask(texts, **arguments)
