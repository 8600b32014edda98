import gzip

import pytest
import sentencepiece

from keras_albert.text.tokenizer.sentencepiece_file import parse_vocabulary
from keras_albert.text.tokenizer.text_rules import TextRules, add_text_rules, rule_name
from keras_albert.text.tokenizer.train_vocabulary import train_vocabulary

TEXTS = ["The Café opened in 2011, and again in 2012, (twice).", "Más café £5 -"] * 9


def test_special_ids_and_symbols(tiny_proto):
    model = sentencepiece.SentencePieceProcessor(model_proto=tiny_proto)
    assert model.IdToPiece(list(range(13))) == [
        *("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        *("(", ")", '"', "-", ".", "–", "£", "€"),  # noqa: RUF001
    ]
    assert model.vocab_size() == 130
    assert (model.bos_id(), model.eos_id()) == (-1, -1)
    assert [model.IsControl(i) for i in range(5)] == [True, False, True, True, True]


def test_model_contains_its_text_rules(tiny_proto):
    model = parse_vocabulary(tiny_proto)
    assert model.normalizer_spec.name == rule_name(TextRules())
    pieces = [piece for piece in model.pieces if piece.type == 1]
    assert not any(c.isupper() for piece in pieces for c in piece.piece)
    assert not any(
        piece.piece[-2:-1].isdigit() and "," in piece.piece for piece in pieces
    )
    assert add_text_rules(tiny_proto, TextRules()) is tiny_proto


def test_cased():
    rules = TextRules(lowercase=False, strip_accents=False)
    proto = train_vocabulary(TEXTS, vocabulary_size=39, text_rules=rules)
    model = sentencepiece.SentencePieceProcessor(model_proto=proto)
    assert 1 not in model.Encode("The Más café")
    assert model.Decode(model.Encode("The Más café")) == "The Más café"


def test_files_and_texts_are_equal(tmp_path):
    plain, packed = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_text("\ufeff" + "\n".join(TEXTS[:9]) + "\n", encoding="utf-8")
    with gzip.open(packed, "wt", encoding="utf-8") as file:
        file.write("\n\n".join(TEXTS[9:]))
    output = tmp_path / "new" / "spiece.model"
    options = {"vocabulary_size": 34}
    from_files = train_vocabulary(files=[plain, packed], output_path=output, **options)
    assert output.read_bytes() == from_files
    assert [path.name for path in output.parent.iterdir()] == ["spiece.model"]
    assert from_files == train_vocabulary(iter(TEXTS), **options)


def test_sampled_lines_are_reproducible():
    texts = [f"word{i * i} and {i}other things" for i in range(300)]
    options = {"vocabulary_size": 45, "character_coverage": 0.98}
    drawn = train_vocabulary(texts, input_sentence_size=101, **options)
    assert drawn == train_vocabulary(texts, input_sentence_size=101, **options)
    assert drawn != train_vocabulary(texts, **options)


def test_long_lines_are_used():
    # The trainer would silently skip each of these lines.
    line = "alpha beta gamma " * 1000
    proto = train_vocabulary([line, "x" * 9000, "é" * 3000], vocabulary_size=28)
    model = sentencepiece.SentencePieceProcessor(model_proto=proto)
    assert 1 not in model.Encode("alpha beta gamma xx e")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Received: texts=None, files=None"),
        ({"texts": TEXTS, "files": ["a"]}, "either a list of strings as `texts` or"),
        ({"texts": "one text"}, "a list of strings.*texts='one text'"),
        ({"files": "one.txt"}, "a list of paths.*files='one.txt'"),
        ({"texts": []}, "All lines are blank"),
        ({"texts": ["", " \n\n"]}, "All lines are blank"),
        ({"texts": TEXTS}, "could not train 30000 pieces on 18 lines.* value <= "),
        (
            {"texts": TEXTS, "vocabulary_size": 15},
            "15 pieces.*smaller than required_chars",
        ),
        ({"texts": TEXTS, "input_sentence_size": 100}, "input_sentence_size"),
        ({"texts": ["a", None]}, "row 1 of texts is None"),
        ({"texts": ["a", "b", "\ud800"]}, "row 2 of texts has a lone surrogate"),
    ],
)
def test_errors_name_the_remedy(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        train_vocabulary(**arguments)


def test_errors_of_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        train_vocabulary(files=[tmp_path / "none.txt"])
    path = tmp_path / "latin.txt"
    path.write_bytes("café".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt .*UnicodeDecodeError.*iconv"):
        train_vocabulary(files=[path])


def test_smaller_vocabulary_without_hard_vocab_limit():
    texts = ["a few words", "and a few more"] * 5
    proto = train_vocabulary(texts, vocabulary_size=5000, hard_vocab_limit=False)
    size = len(parse_vocabulary(proto).pieces)
    assert 20 < size < 5000
    with pytest.raises(ValueError, match="5000 pieces on 10 lines"):
        train_vocabulary(texts, vocabulary_size=5000)
