import base64
import json
import subprocess
import sys

import keras
import keras_hub
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.text.albert_tokenizer import AlbertTokenizer
from keras_albert.text.text_rules import TextRules, rule_name
from keras_albert.text.token_rows import TokenRows
from keras_albert.text.vocabulary_file import parse_vocabulary

SPECIAL = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
# Every character that UTF-8 can encode: all but the surrogates.
unicode_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
hard_texts = [
    "",
    "   ",
    "\u0301",
    "\u0301 \u0301",
    "a\x00b\x00",
    "x \u0301\u0301 y",
    "👩\u200d👩\u200d👧 hi 漢字",
    "\u200ba\u200b \u0301b\ufeff",
    "ﷺ…½ ﬁne  ",
    "[CLS] the [MASK]<unk><pad>[SEP]",
    "\t\r\n\x1c\x85\u2028 In 2011, it\u2009rained ",
    "\ud7ff\ue000\U0010ffff\ufffd▁",
]
anything = settings(
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def tokenizer(tiny_proto):
    return AlbertTokenizer(tiny_proto)


@pytest.fixture(scope="module")
def in_graph(tokenizer):
    """The tokenizer within a TensorFlow graph, back to lists."""
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def traced(texts):
        return tokenizer.tokenize(texts), tokenizer.tokenize_with_offsets(texts)

    def run(texts):
        ids, with_offsets = traced(tf.constant(texts, tf.string))
        return ids.to_list(), [ragged.to_list() for ragged in with_offsets]

    return run


def edited(proto, edit):
    model = parse_vocabulary(proto)
    edit(model)
    return model.SerializeToString()


# Ids and offsets, over any text at all.


@anything
@given(st.lists(unicode_texts, max_size=3))
@example(hard_texts)
def test_any_text_has_ids_in_range_and_offsets_that_slice(tokenizer, texts):
    rows = tokenizer.tokenize_rows(texts).to_lists()
    assert rows == tokenizer.tokenize(texts)
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert [row.tolist() for row in ids] == rows
    for text, row, first, last in zip(texts, rows, starts, ends, strict=True):
        assert first.dtype == last.dtype == np.int32
        assert all(token_id == 1 or 5 <= token_id < 130 for token_id in row)
        assert ((first >= 0) & (first <= last) & (last <= len(text))).all()
        assert (np.diff(last) >= 0).all()
        # No piece is made of what its neighbour is made of.
        assert (first[1:] >= last[:-1]).all()


@anything
@given(st.lists(unicode_texts, min_size=1, max_size=3))
@example(hard_texts)
def test_the_graph_gives_what_python_gives(tokenizer, in_graph, texts):
    ids, with_offsets = in_graph(texts)
    assert ids == tokenizer.tokenize(texts)
    expected = tokenizer.tokenize_with_offsets(texts)
    assert with_offsets == [[row.tolist() for row in rows] for rows in expected]


def test_offsets_are_characters_of_the_text_as_given(tokenizer):
    text = "  The  CAFÉ on the cafe\u0301… 12,"
    ids, starts, ends = tokenizer.tokenize_with_offsets(text)
    slices = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    assert slices[0] == "The"
    assert "".join(slices) == "".join(text.split())
    assert not any(piece[:1].isspace() for piece in slices)
    assert ids.tolist() == tokenizer.tokenize(text).tolist()


def test_a_megabyte_of_text(tokenizer, in_graph):
    text = "The  café, [SEP] \U0001f600 naïve\u0301. " * 40_000
    (row,) = tokenizer.tokenize_rows([text]).to_lists()
    ids, starts, ends = tokenizer.tokenize_with_offsets(text)
    assert ids.tolist() == row
    assert text[starts[-1] : ends[-1]] == "."
    graph_ids, (_, graph_starts, graph_ends) = in_graph([text, "a"])
    assert graph_ids[0] == row
    assert graph_starts[0] == starts.tolist()
    assert graph_ends[0] == ends.tolist()


def test_graph_takes_one_text_and_a_dataset(tokenizer):
    tf = pytest.importorskip("tensorflow")
    text = "the naïve café"
    expected = tokenizer(text).tolist()
    data = tf.data.Dataset.from_tensor_slices([text])
    assert next(iter(data.map(tokenizer))).numpy().tolist() == expected
    rows = next(iter(data.map(tokenizer.tokenize_with_offsets)))
    arrays = tokenizer.tokenize_with_offsets(text)
    for row, array in zip(rows, arrays, strict=True):
        np.testing.assert_array_equal(row.numpy(), array)
    assert next(iter(data.batch(1).map(tokenizer))).to_list() == [expected]


def test_every_kind_of_input_gives_the_same(tokenizer):
    expected = tokenizer(["the café", "a"])
    assert tokenizer(("the café", b"a")) == expected
    assert tokenizer(np.array(["the café", "a"])) == expected
    assert tokenizer([]) == []
    one = tokenizer("the café")
    assert isinstance(one, np.ndarray)
    assert one.dtype == np.int32
    assert one.tolist() == expected[0]
    assert tokenizer.tokenize_rows([]).to_lists() == []
    ids, _, _ = tokenizer.tokenize_with_offsets(["the café", "a"])
    assert [row.tolist() for row in ids] == expected


def test_sequence_length_and_string_dtype(tiny_proto):
    dense = AlbertTokenizer(tiny_proto, sequence_length=4)(
        ["the", "the the the the the"]
    )
    assert dense.shape == (2, 4)
    assert dense[0, -1] == 0
    pieces = AlbertTokenizer(tiny_proto, dtype="string")(["The the"])
    assert pieces == [["▁the", "▁the"]]


def test_rows_are_checked(tokenizer):
    for method in (
        tokenizer,
        tokenizer.tokenize,
        tokenizer.tokenize_rows,
        tokenizer.tokenize_with_offsets,
    ):
        with pytest.raises(ValueError, match="row 1 of texts is None"):
            method(["a", None])
        with pytest.raises(ValueError, match="row 0 of texts has a lone surrogate"):
            method(["\ud800"])


@pytest.mark.shared_data
def test_real_vocabulary(shared_data):
    tokenizer = AlbertTokenizer(str(shared_data / "albert_spm" / "spiece.model"))
    expected = [10975, 31, 22, 79, 21, 12807, 1061, 9]
    assert tokenizer("Hello I'm a modeling model.").tolist() == expected
    assert tokenizer.vocabulary_size() == 30000


# The vocabulary and the special tokens.


def test_special_tokens(tokenizer):
    assert [tokenizer.id_to_token(i) for i in range(5)] == SPECIAL
    assert [tokenizer.token_to_id(token) for token in SPECIAL] == [0, 1, 2, 3, 4]
    assert tokenizer.cls_token_id == tokenizer.start_token_id == 2
    assert tokenizer.sep_token_id == tokenizer.end_token_id == 3
    assert (tokenizer.pad_token_id, tokenizer.unk_token_id) == (0, 1)
    assert (tokenizer.mask_token, tokenizer.mask_token_id) == ("[MASK]", 4)
    assert sorted(tokenizer.special_token_ids) == [0, 1, 2, 3, 4]
    assert tokenizer.vocabulary_size() == len(tokenizer.get_vocabulary()) == 130
    assert tokenizer.token_to_id("no such piece") == 1


def test_special_tokens_in_text_stay_text(tiny_proto, tokenizer):
    def as_user_symbols(model):
        for piece in model.pieces[2:5]:
            piece.type = 4  # USER_DEFINED, which SentencePiece finds in any text

    text = "the [SEP] [MASK] [CLS] <pad> <unk>"
    unsafe = edited(tiny_proto, as_user_symbols)
    raw = keras_hub.tokenizers.SentencePieceTokenizer(unsafe)
    assert {2, 3, 4} & set(raw(text).tolist())
    for guarded in (tokenizer, AlbertTokenizer(unsafe, text_rules="keep")):
        assert not {0, 2, 3, 4} & set(guarded(text).tolist())


@pytest.mark.parametrize("token_id", range(5))
def test_a_missing_special_token_is_named(tiny_proto, token_id):
    def rename(model):
        model.pieces[token_id].piece = "other"

    message = rf"`{SPECIAL[token_id]}` must.*id {token_id}.*is missing.*'other'"
    message = message.replace("[", r"\[")
    with pytest.raises(ValueError, match=message):
        AlbertTokenizer(edited(tiny_proto, rename))


def test_a_misplaced_special_token_is_named(tiny_proto):
    def swap(model):
        first, second = model.pieces[2], model.pieces[3]
        first.piece, second.piece = second.piece, first.piece

    with pytest.raises(ValueError, match=r"`\[CLS\]` must.*id 2.*it stands at id 3"):
        AlbertTokenizer(edited(tiny_proto, swap))


@pytest.mark.parametrize("kept", [0, 100, 0.5, 0.999])
def test_cut_files_are_refused(tiny_proto, tmp_path, kept):
    size = int(kept * len(tiny_proto)) if isinstance(kept, float) else kept
    path = tmp_path / "spiece.model"
    path.write_bytes(tiny_proto[:size])
    for proto in (tiny_proto[:size], str(path)):
        with pytest.raises(ValueError, match=r"not a (whole )?SentencePiece.*fetch"):
            AlbertTokenizer(proto)


def test_a_file_cut_between_two_fields_is_refused(tiny_proto):
    cut = edited(tiny_proto, lambda model: model.ClearField("normalizer_spec"))
    with pytest.raises(ValueError, match="no normalizer_spec"):
        AlbertTokenizer(cut)


def test_proto_as_path_and_base64(tiny_proto, tmp_path):
    path = tmp_path / "spiece.model"
    path.write_bytes(tiny_proto)
    for proto in (path, str(path), base64.b64encode(tiny_proto).decode()):
        assert AlbertTokenizer(proto).proto == tiny_proto
    with pytest.raises(FileNotFoundError):
        AlbertTokenizer(str(tmp_path / "none"))


def test_no_vocabulary_yet(tiny_proto):
    tokenizer = AlbertTokenizer()
    for method in (tokenizer, tokenizer.tokenize_rows, tokenizer.tokenize_with_offsets):
        with pytest.raises(ValueError, match="No vocabulary has been set"):
            method(["a"])
    tokenizer.set_proto(tiny_proto)
    assert tokenizer.cls_token_id == 2


# Text rules.


def test_rules_of_auto_keep_and_ones_own(tiny_proto):
    def without_rules(model):
        model.normalizer_spec.name = "nmt_nfkc"

    plain = edited(tiny_proto, without_rules)

    def name(tokenizer):
        return parse_vocabulary(tokenizer.proto).normalizer_spec.name

    assert name(AlbertTokenizer(plain)) == rule_name(TextRules())
    assert AlbertTokenizer(plain, text_rules="keep").proto == plain
    own = TextRules(quotes=True)
    assert name(AlbertTokenizer(plain, text_rules=own)) == rule_name(own)
    assert AlbertTokenizer(tiny_proto).proto == tiny_proto
    with pytest.raises(ValueError, match=r'already carries.*text_rules="keep"'):
        AlbertTokenizer(tiny_proto, text_rules=own)
    with pytest.raises(ValueError, match='must be "auto", "keep"'):
        AlbertTokenizer(tiny_proto, text_rules="none")
    with pytest.raises(ValueError, match="no begin- and end-of-sentence"):
        AlbertTokenizer(tiny_proto, add_bos=True)


# Saving and loading.


@pytest.mark.parametrize("rules", ["auto", "keep", TextRules(quotes=True)])
def test_config_round_trip(rules):
    config = AlbertTokenizer(text_rules=rules, sequence_length=7).get_config()
    restored = AlbertTokenizer.from_config(json.loads(json.dumps(config)))
    assert restored.get_config() == config


def test_serialization_and_assets(tiny_proto, tmp_path):
    tokenizer = AlbertTokenizer(tiny_proto, text_rules=TextRules())
    tokenizer.save_assets(str(tmp_path))
    config = keras.saving.serialize_keras_object(tokenizer)
    assert config["registered_name"] == "keras_albert>AlbertTokenizer"
    restored = keras.saving.deserialize_keras_object(config, safe_mode=True)
    restored.load_assets(str(tmp_path))
    assert restored.proto == tiny_proto


def test_safe_mode_refuses_a_path_in_a_config(tokenizer, tmp_path):
    config = keras.saving.serialize_keras_object(tokenizer)
    (tmp_path / "spiece.model").write_bytes(tokenizer.proto)
    config["config"]["proto"] = str(tmp_path / "spiece.model")
    with pytest.raises(ValueError, match="may not point to a vocabulary"):
        keras.saving.deserialize_keras_object(config, safe_mode=True)


@keras.saving.register_keras_serializable(package="keras_albert_tests")
class Holder(keras.Model):
    """A model that keeps a tokenizer, so that a `.keras` file holds one."""

    def __init__(self, tokenizer, **kwargs):
        super().__init__(**kwargs)
        self.tokenizer = tokenizer

    def build(self, input_shape):
        self.built = True

    def call(self, inputs):
        return inputs

    def get_config(self):
        return {"tokenizer": keras.saving.serialize_keras_object(self.tokenizer)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["tokenizer"]))


def test_keras_file_round_trip(tiny_proto, tmp_path):
    model = Holder(AlbertTokenizer(tiny_proto))
    model(np.zeros((1, 2), "float32"))
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    assert restored.tokenizer.proto == tiny_proto


# Keras 3.15 saving weights under JAX, with NumPy 2.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("loader", [AlbertTokenizer, keras_hub.tokenizers.Tokenizer])
def test_preset_round_trip(tokenizer, tmp_path, loader):
    backbone = AlbertBackbone(
        vocabulary_size=130,
        num_layers=1,
        num_heads=2,
        embedding_dim=4,
        hidden_dim=8,
        intermediate_dim=8,
    )
    backbone.save_to_preset(str(tmp_path))
    tokenizer.save_to_preset(str(tmp_path))
    restored = loader.from_preset(str(tmp_path))
    assert type(restored) is AlbertTokenizer
    assert restored.proto == tokenizer.proto


def test_works_without_tensorflow(tiny_proto, tmp_path):
    path = tmp_path / "spiece.model"
    path.write_bytes(tiny_proto)
    program = f"""
import sys
for name in ("tensorflow", "tensorflow_text"):
    sys.modules[name] = None  # importing either now fails
from keras_albert.text.albert_tokenizer import AlbertTokenizer
tokenizer = AlbertTokenizer({str(path)!r})
ids = tokenizer(["The café", "a"])
assert tokenizer.tokenize_rows(["The café", "a"]).to_lists() == ids
assert tokenizer.detokenize(ids) == ["the cafe", "a"]
tokenizer.tokenize_with_offsets("The café")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"KERAS_BACKEND": "jax", "PATH": "", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# Ids to texts.


def test_detokenize(tokenizer):
    ids = tokenizer("The café (in 2011)").tolist()
    text = "the cafe (in 2011)"
    row = [2, *ids, 3, 0, 0]
    assert tokenizer.detokenize(ids) == text
    assert tokenizer.detokenize(row) == text
    assert tokenizer.detokenize(np.array([row, row])) == [text, text]
    assert tokenizer.detokenize([row, [], [4]]) == [text, "", ""]
    assert tokenizer.detokenize([np.array(row), np.array(ids)]) == [text, text]
    assert tokenizer.detokenize(keras.ops.array([row])) == [text]
    assert tokenizer.detokenize([np.int32(ids[0])]) == "the"
    assert tokenizer.detokenize(ids[0]) == "the"
    assert tokenizer.detokenize(TokenRows.from_lists([row, ids])) == [text, text]
    assert "⁇" in tokenizer.detokenize([1])


def test_detokenize_in_tensorflow(tokenizer):
    tf = pytest.importorskip("tensorflow")
    ids = tokenizer(["The café", "a"])
    ragged = tf.ragged.constant(ids)
    assert tokenizer.detokenize(ragged) == ["the cafe", "a"]
    graph = tf.function(tokenizer.detokenize)(ragged)
    assert [row.decode() for row in graph.numpy()] == ["the cafe", "a"]


@pytest.mark.parametrize("token_id", [-1, 130])
def test_detokenize_refuses_ids_out_of_range(tokenizer, token_id):
    with pytest.raises(ValueError, match=rf"row 1.*{token_id}.*0 to 129"):
        tokenizer.detokenize([[5], [6, token_id]])


# transformers' four calls; the expected values are its documented formats.


def test_calls_of_transformers(tokenizer):
    assert tokenizer.build_inputs_with_special_tokens([7, 8]) == [2, 7, 8, 3]
    pair = tokenizer.build_inputs_with_special_tokens([7, 8], [9])
    assert pair == [2, 7, 8, 3, 9, 3]
    assert tokenizer.create_token_type_ids_from_sequences([7, 8]) == [0] * 4
    types = tokenizer.create_token_type_ids_from_sequences([7, 8], [9])
    assert types == [0, 0, 0, 0, 1, 1]
    assert tokenizer.get_special_tokens_mask([7, 8]) == [1, 0, 0, 1]
    assert tokenizer.get_special_tokens_mask([7, 8], [9]) == [1, 0, 0, 1, 0, 1]
    mask = tokenizer.get_special_tokens_mask(pair, already_has_special_tokens=True)
    assert mask == [1, 0, 0, 1, 0, 1]
    with pytest.raises(ValueError, match="Pass the whole row"):
        tokenizer.get_special_tokens_mask([2], [3], already_has_special_tokens=True)


def test_save_vocabulary(tokenizer, tmp_path):
    (path,) = tokenizer.save_vocabulary(tmp_path / "new")
    assert path == str(tmp_path / "new" / "spiece.model")
    assert AlbertTokenizer(path).proto == tokenizer.proto
    (prefixed,) = tokenizer.save_vocabulary(str(tmp_path), "tiny")
    assert prefixed == str(tmp_path / "tiny-spiece.model")
