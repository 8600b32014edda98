import base64
import json

import keras
import keras_hub
import pytest

from keras_albert.backbone import AlbertBackbone
from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.text.tokenizer.sentencepiece_file import parse_vocabulary
from keras_albert.text.tokenizer.text_rules import TextRules, rule_name

SPECIAL = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]


def edited(proto, edit):
    model = parse_vocabulary(proto)
    edit(model)
    return model.SerializeToString()


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


def test_special_tokens_in_texts_are_ordinary_text(tiny_proto, tokenizer):
    def as_user_symbols(model):
        for piece in model.pieces[2:5]:
            piece.type = 4  # USER_DEFINED, which SentencePiece matches in any text

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

    message = rf"Id {token_id} .*must be `{SPECIAL[token_id]}`, but it is 'other'"
    message = message.replace("[", r"\[")
    with pytest.raises(ValueError, match=message):
        AlbertTokenizer(edited(tiny_proto, rename))


@pytest.mark.parametrize("kept", [0, 100, 0.5, 0.999])
def test_truncated_files_raise(tiny_proto, tmp_path, kept):
    size = int(kept * len(tiny_proto)) if isinstance(kept, float) else kept
    path = tmp_path / "spiece.model"
    path.write_bytes(tiny_proto[:size])
    for proto in (tiny_proto[:size], str(path)):
        with pytest.raises(ValueError, match=r"not a (whole )?SentencePiece.*fetch"):
            AlbertTokenizer(proto)


def test_file_truncated_between_two_fields_raises(tiny_proto):
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


def test_methods_without_a_vocabulary_raise(tiny_proto):
    tokenizer = AlbertTokenizer()
    for method in (tokenizer, tokenizer.tokenize_rows, tokenizer.tokenize_with_offsets):
        with pytest.raises(ValueError, match="No vocabulary has been set"):
            method(["a"])
    tokenizer.set_proto(tiny_proto)
    assert tokenizer.cls_token_id == 2


# Text rules.


def test_text_rules_argument(tiny_proto):
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
    with pytest.raises(ValueError, match=r'already has.*text_rules="keep"'):
        AlbertTokenizer(tiny_proto, text_rules=own)
    with pytest.raises(ValueError, match="must be one of 'auto', 'keep'"):
        AlbertTokenizer(tiny_proto, text_rules="none")
    with pytest.raises(ValueError, match="no begin- and end-of-sentence"):
        AlbertTokenizer(tiny_proto, add_bos=True)


# Saving and loading.


@pytest.mark.parametrize("rules", ["auto", "keep", TextRules(quotes=True)])
def test_config_round_trip(rules):
    config = AlbertTokenizer(text_rules=rules, sequence_length=7).get_config()
    restored = AlbertTokenizer.from_config(json.loads(json.dumps(config)))
    assert restored.get_config() == config


def test_safe_mode_raises_for_a_path_in_a_config(tokenizer, tmp_path):
    config = keras.saving.serialize_keras_object(tokenizer)
    (tmp_path / "spiece.model").write_bytes(tokenizer.proto)
    config["config"]["proto"] = str(tmp_path / "spiece.model")
    with pytest.raises(ValueError, match="may not point to a vocabulary"):
        keras.saving.deserialize_keras_object(config, safe_mode=True)


# A warning of Keras 3.15 when it saves weights on JAX with NumPy 2.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("loader", [AlbertTokenizer, keras_hub.tokenizers.Tokenizer])
def test_preset_round_trip(tokenizer, tmp_path, loader):
    AlbertBackbone(130, 1, 2, 4, 8, 8).save_to_preset(str(tmp_path))
    tokenizer.save_to_preset(str(tmp_path))
    restored = loader.from_preset(str(tmp_path))
    assert type(restored) is AlbertTokenizer
    assert restored.proto == tokenizer.proto
