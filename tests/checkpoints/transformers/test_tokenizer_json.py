"""transformers' tokenizer files, and the vocabulary that they are made from."""

import gzip
import itertools
import json
import random
import time
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert import AlbertBackbone, AlbertTokenizer
from keras_albert.checkpoints import TRANSFORMERS
from keras_albert.checkpoints.tokenizer_json import (
    charsmap_of_steps,
    vocabulary_from_tokenizer_json,
    write_tokenizer_files,
)
from keras_albert.presets.checkpoint import Files
from keras_albert.text.masking import tokenize_masks
from keras_albert.text.tokenizer import sentencepiece_file as sentencepiece_messages
from keras_albert.text.tokenizer import text_rules
from keras_albert.text.tokenizer.text_rules import retire_digit_comma_pieces
from tests.exports.served_models import make_task
from tests.javascript import ROOT, run_in_node
from tests.one_backend import on_one_backend

pytestmark = on_one_backend

ENCODE = """
import { AutoTokenizer } from "@huggingface/transformers";
const options = { local_files_only: true };
const tokenizer = await AutoTokenizer.from_pretrained(given.folder, options);
const ids = (text) => tokenizer.encode(text, { add_special_tokens: false });
answer(given.texts.map(ids));
"""

TEXTS = (
    "In 2011, the old café on the corner opened again.",
    'The captain said "not today" - and the crew, all 24, went back.',
    "  He paid £12,  she paid €15!  ",
    "She wrote\tthat 日本 is far; ﬁne.",
    "I HATED it, and the CAFÉ in İstanbul: ΟΔΟΣ.",
    "",
)
# Case, marks, composition, blanks, what is deleted, and the marks of the files' own.
PARTS = (  # noqa: SIM905  (a list takes a line for each)
    "a|T|Hello|the|1,000,|1|.|'|\"|-| |  |\t|\n|É|e\u0301|ﬁ|½|①|ß|ẞ|Σ|ΟΔΟΣ|İ|ŀ|Ǆ|ª|"
    "\xb4|\u1e9b\u0323|a\u0323\u0307|\u1fba\u0345|\u0300|\u0903|क्षि|ไทย|日本|한국|عربى|"
    "\ufdfa|\u1112\u1161\u11ab|\uff5e|👩\u200d👧|\U0001d538|\U0001d6ba|\u200b|\ufeff|\xa0|\u3000|"
    "\x85|\u2028|\xad|\x01|\x7f|\ufffd|\u2581|\ue000|\ufdd0|\ufdd1|[cls]|&"
).split("|")


NFC = {"type": "NFC"}


def replacing(regex, content):
    return {"type": "Replace", "pattern": {"Regex": regex}, "content": content}


def hostile_texts(count):
    random_ = random.Random(0)
    return [
        "".join(random_.choices(PARTS, k=random_.randint(1, 12))) for _ in range(count)
    ] + ["\ufdd0", "\ufdd0a \ufdd0b", "\x01", " \x01the", "\u0300e", "\u200b\u200b"]


def encode_in_node(folder, texts):
    return run_in_node(ENCODE, folder=str(folder), texts=texts)


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
def test_theirs_gives_our_ids_and_offsets_for_any_text(theirs, tokenizer, text):
    found = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, starts, ends = tokenizer.tokenize_with_offsets(text)
    assert found["input_ids"] == list(ids)
    for (start, end), *ours in zip(found["offset_mapping"], starts, ends, strict=True):
        # A "▁" without a word has the first character of the piece after it.
        assert [start, end] == ours or ours[0] == ours[1]


def test_hostile_texts(theirs, exported, tokenizer):
    texts = hostile_texts(400)
    ids = [list(row) for row in tokenizer(texts)]
    assert theirs(texts, add_special_tokens=False)["input_ids"] == ids
    assert encode_in_node(exported, texts) == ids


def test_the_bundled_vocabulary_in_node(tmp_path):
    tokenizer = AlbertTokenizer.from_preset("albert_tiny_en_uncased")
    write_tokenizer_files(tmp_path, tokenizer.proto, 128)
    data = ROOT / "examples" / "data"
    texts = [*TEXTS, *hostile_texts(100)]
    texts += (data / "stories.txt").read_text(encoding="utf-8").splitlines()[:100]
    ids = [list(row) for row in tokenizer(texts)]
    assert encode_in_node(tmp_path, texts) == ids


@pytest.mark.shared_data
def test_paragraphs(shared_data, tmp_path):
    """Offsets may differ where a character is several pieces, as in 10½."""
    import transformers

    tokenizer = AlbertTokenizer(shared_data / "albert_spm" / "spiece.model")
    write_tokenizer_files(tmp_path, tokenizer.proto, 512)
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    paragraphs = []
    for path in sorted((shared_data / "text").glob("*/*.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = (line.rstrip("\n") for line in file if line.strip())
            paragraphs += itertools.islice(lines, 160)
    assert len(paragraphs) >= 2000
    found = theirs(paragraphs, add_special_tokens=False, return_offsets_mapping=True)
    ids, *spans = tokenizer.tokenize_with_offsets(paragraphs)
    ids = [list(row) for row in ids]
    assert found["input_ids"] == ids
    differ = 0
    for starts, ends, row in zip(*spans, found["offset_mapping"], strict=True):
        visible = starts < ends
        ours = np.stack([starts, ends], 1)
        differ += not np.array_equal(ours[visible], np.array(row)[visible])
    assert differ <= len(paragraphs) // 500
    assert encode_in_node(tmp_path, paragraphs) == ids


def test_a_pair_is_packed_as_here(theirs, tokenizer):
    ids = [list(tokenizer(text)) for text in TEXTS[:2]]
    packed = theirs(TEXTS[0], TEXTS[1])
    assert packed["input_ids"] == [2, *ids[0], 3, *ids[1], 3]
    first = len(ids[0]) + 2
    assert packed["token_type_ids"] == [0] * first + [1] * (len(ids[1]) + 1)
    assert theirs.model_max_length == 24


def test_words_begin_after_a_mask_only_where_they_do(theirs, exported, tokenizer):
    texts = [
        *("the [MASK] of", "the [MASK].", '"[MASK]" of', "[MASK] the", "a[MASK]b"),
        *("[MASK][MASK] of", "the [MASK]\u0300, of", "[MASK]"),
    ]
    ids = tokenize_masks(tokenizer.vocabulary, texts).to_lists()
    assert theirs(texts, add_special_tokens=False)["input_ids"] == ids
    assert encode_in_node(exported, texts) == ids


def test_a_retired_piece_changes_no_score_of_unknown_ones(tiny_proto, tmp_path):
    model = sentencepiece_messages.ModelProto.FromString(tiny_proto)
    model.pieces[-1].piece = "11,"
    retire_digit_comma_pieces(model)
    write_tokenizer_files(tmp_path, model.SerializeToString(), 24)
    vocab = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]
    scores = [piece.score for piece in model.pieces]
    assert min(scores) - 10 < vocab[-1][1] < vocab[-1][1] + 1e-4 < min(scores)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("normalizer_spec", "add_dummy_prefix", False),
        ("normalizer_spec", "remove_extra_whitespaces", False),
        ("trainer_spec", "treat_whitespace_as_suffix", True),
        ("trainer_spec", "model_type", 2),
    ],
)
def test_what_tokenizer_json_cannot_express_is_refused(
    part, name, value, tiny_proto, tmp_path
):
    model = sentencepiece_messages.ModelProto.FromString(tiny_proto)
    setattr(getattr(model, part), name, value)
    task = make_task("Classifier", model.SerializeToString(), labels=("a", "b"))
    shown = "BPE" if name == "model_type" else value
    for export in (
        task.export_to_transformers,
        partial(task.export, format="transformers_onnx"),
    ):
        with pytest.raises(ValueError, match=f'has {name}={shown}, .*format="onnx"'):
            export(tmp_path / "new")
        assert not list(tmp_path.iterdir())


def test_the_vocabulary_comes_back_from_either_file(exported, tokenizer, tmp_path):
    assert TRANSFORMERS.open(Files(exported)).read_vocabulary() == tokenizer.proto
    path = tmp_path / "tokenizer.json"
    path.write_bytes((exported / "tokenizer.json").read_bytes())
    made = AlbertTokenizer(TRANSFORMERS.open(Files(tmp_path)).read_vocabulary())
    assert made.get_vocabulary() == tokenizer.get_vocabulary()
    texts = [*TEXTS, *hostile_texts(300)]
    assert made(texts) == tokenizer(texts)


def test_what_transformers_itself_writes_is_read(tiny_proto, tmp_path, tokenizer):
    import transformers

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
        ({"normalizer": replacing("a+", "b")}, "no rule for its step"),
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "%"}},
            "table is damaged",
        ),
        ({"model": None}, r"tokenizer\.json .* is damaged"),
        ({"model": {"type": "BPE"}}, "not a Unigram"),
        ({"model": {"vocab": [["a"]]}}, r"tokenizer\.json .* is damaged"),
        ({"model": {"vocab": {"a": 1}}}, r"tokenizer\.json .* is damaged"),
        ({"normalizer": {}}, "KeyError: 'type'"),
        ({"normalizer": replacing(r"[\x{1}-\x{FFFF}]", "a" * 65)}, "65 characters"),
        ({"normalizer": replacing(r"[\x{1}-\x{FFFF}]", "a" * 64)}, "times as long"),
        ({"normalizer": replacing("[\\x{2}-\\x{1}]", "")}, "is damaged"),
        (
            {"normalizer": {"type": "Sequence", "normalizers": [NFC] * 257}},
            "257 normalizer steps",
        ),
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
        TRANSFORMERS.open(Files(tmp_path)).read_vocabulary()
    assert "Copy `spiece.model`" in str(caught.value)


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer\.json .*damaged.*Copy"):
        TRANSFORMERS.open(Files(tmp_path)).read_vocabulary()


def test_a_class_of_many_ranges_is_read_in_time():
    """`re` compared each character with each of 40,000 ranges, for 42 s."""
    codes = range(0x20000, 0x20000 + 80_000, 2)
    regex = "[" + "".join(f"\\x{{{code:X}}}" for code in codes) + "]"
    start = time.perf_counter()
    table = text_rules.table_normalizer(charsmap_of_steps([replacing(regex, "b")]))
    assert table.Normalize("a\U00020000\U00020001") == "ab\U00020001"
    assert time.perf_counter() - start < 20
