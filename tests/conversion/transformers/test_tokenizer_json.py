"""transformers' tokenizer files, and the vocabulary that they are made from."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert import AlbertBackbone, AlbertTokenizer
from keras_albert.conversion import TRANSFORMERS
from keras_albert.conversion.transformers.tokenizer_json import (
    vocabulary_from_tokenizer_json,
)

TEXTS = (
    "In 2011, the old café on the corner opened again.",
    'The captain said "not today" - and the crew, all 24, went back.',
    "  He paid £12,  she paid €15!  ",
    "She wrote\tthat 日本 is far; ﬁne.",
    "",
)


@pytest.fixture(scope="module")
def tokenizer(tiny_proto):
    return AlbertTokenizer(tiny_proto)


@pytest.fixture(scope="module")
def exported(tokenizer, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tokenizer")
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=1,
        embedding_dim=2,
        hidden_dim=2,
        intermediate_dim=2,
        max_sequence_length=24,
    )
    backbone.export_to_transformers(directory, tokenizer=tokenizer)
    return directory


@pytest.fixture(scope="module")
def theirs(exported):
    import transformers

    return transformers.AutoTokenizer.from_pretrained(exported)


@pytest.mark.parametrize("text", TEXTS)
def test_theirs_gives_our_ids(theirs, tokenizer, text):
    assert theirs(text, add_special_tokens=False)["input_ids"] == list(tokenizer(text))


# Characters of pieces, and some that no piece contains.
@given(st.text("abcdefghi ,.\"-()0129'éÉ\u00df\u65e5", max_size=20))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_theirs_gives_our_ids_for_any_text(theirs, tokenizer, text):
    assert theirs(text, add_special_tokens=False)["input_ids"] == list(tokenizer(text))


def test_a_pair_is_packed_as_here(theirs, tokenizer):
    ids = [list(tokenizer(text)) for text in TEXTS[:2]]
    packed = theirs(TEXTS[0], TEXTS[1])
    assert packed["input_ids"] == [2, *ids[0], 3, *ids[1], 3]
    first = len(ids[0]) + 2
    assert packed["token_type_ids"] == [0] * first + [1] * (len(ids[1]) + 1)
    assert theirs.model_max_length == 24
    assert theirs("the [MASK] of", add_special_tokens=False)["input_ids"] == [
        *tokenizer("the"),
        4,
        *tokenizer("of"),
    ]


def test_the_vocabulary_comes_back_from_either_file(exported, tokenizer, tmp_path):
    assert TRANSFORMERS.read_vocabulary(exported) == tokenizer.proto
    path = tmp_path / "tokenizer.json"
    path.write_bytes((exported / "tokenizer.json").read_bytes())
    made = AlbertTokenizer(TRANSFORMERS.read_vocabulary(tmp_path))
    assert made.get_vocabulary() == tokenizer.get_vocabulary()
    for text in TEXTS:
        assert list(made(text)) == list(tokenizer(text))


def test_what_transformers_itself_writes_is_read(tiny_proto, tmp_path, tokenizer):
    import transformers

    from keras_albert.text.tokenizer import (
        sentencepiece_proto as sentencepiece_messages,
    )

    model = sentencepiece_messages.ModelProto.FromString(tiny_proto)
    original = transformers.AlbertTokenizer(
        vocab=[(piece.piece, piece.score) for piece in model.pieces]
    )
    original.save_pretrained(tmp_path)
    made = AlbertTokenizer(vocabulary_from_tokenizer_json(tmp_path / "tokenizer.json"))
    assert made.get_vocabulary() == tokenizer.get_vocabulary()
    assert [made.token_to_id(token) for token in ("<pad>", "[CLS]", "[MASK]")] == [
        0,
        2,
        4,
    ]
    # The file has no table of characters, but it has the rules.
    text = "The Café in the TOWN"
    assert list(made(text)) == list(tokenizer(text))
    assert list(made("``so''")) == list(tokenizer('"so"'))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"type": "BPE", "vocab": {}}}, "its model is not a Unigram"),
        ({"normalizer": {"type": "BertNormalizer"}}, "no rule for its step"),
        (
            {
                "normalizer": {
                    "type": "Replace",
                    "pattern": {"String": "a"},
                    "content": "b",
                }
            },
            "no rule for its step",
        ),
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "%"}},
            "table is damaged",
        ),
        ({"model": None}, r"tokenizer\.json .* is damaged"),
        ({"model": {"type": "BPE"}}, "not a Unigram"),
        ({"model": {"vocab": [["a"]]}}, r"tokenizer\.json .* is damaged"),
        ({"model": {"vocab": {"a": 1}}}, r"tokenizer\.json .* is damaged"),
        ({"normalizer": {}}, "KeyError: 'type'"),
        ({"normalizer": [1]}, r"tokenizer\.json .* is damaged"),
        ({"added_tokens": [{"content": "a"}]}, "KeyError: 'special'"),
        ({"added_tokens": {"a": 1}}, r"tokenizer\.json .* is damaged"),
    ],
)
def test_what_sentencepiece_cannot_do_is_refused(exported, tmp_path, changes, message):
    content = json.loads((exported / "tokenizer.json").read_text())
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content | changes))
    with pytest.raises(ValueError, match=message) as caught:
        TRANSFORMERS.read_vocabulary(tmp_path)
    assert "Copy `spiece.model`" in str(caught.value)


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer\.json .*Copy `spiece\.model`"):
        TRANSFORMERS.read_vocabulary(tmp_path)
