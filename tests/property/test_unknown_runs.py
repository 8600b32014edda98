"""Runs of unknown characters have the ids and places of Python in graphs and ONNX."""

import onnx
import onnx_ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor

from keras_albert import AlbertClassifierPreprocessor, AlbertTokenizer
from keras_albert.text.tokenizer.sentencepiece_file import parse_vocabulary

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

# Unknown characters of one to four bytes, some that become others, marks, blanks, and
# names of pieces that only graphs have.
_PARTS = ["漢", "字", "か", "\u3099", "각", "\u1100\u1161", "€", "\ue000", "👩🏽"]
_PARTS += ["\x01", "\u0301", "e\u0308", " ", "\u200b", "the", "<0x41>", "<0xE6>", "="]
TEXTS = st.lists(st.sampled_from(_PARTS), max_size=40).map("".join)


@pytest.fixture(scope="module", params=["prefix", "no prefix"])
def tokenizer(request, tiny_proto):
    """Without a prefix, a text may begin with an unknown character."""
    model = parse_vocabulary(AlbertTokenizer(tiny_proto).proto)
    model.normalizer_spec.add_dummy_prefix = request.param == "prefix"
    return AlbertTokenizer(model.SerializeToString(), text_rules="keep")


@pytest.fixture(scope="module")
def in_graph(tokenizer):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def traced(texts):
        return tokenizer.tokenize(texts), *tokenizer.tokenize_with_offsets(texts)

    return lambda texts: [x.to_list() for x in traced(tf.constant(texts, tf.string))]


@pytest.fixture(scope="module")
def in_onnx(tokenizer, programs, tmp_path_factory):
    from keras_albert.serving.onnx.builder import IR_VERSION, TEXT_DOMAIN, OnnxBuilder
    from keras_albert.serving.onnx.text import OnnxText

    builder = OnnxBuilder()
    builder.graph.opset_imports[TEXT_DOMAIN] = 1
    column = builder.input("texts", "string", "batch")
    texts = OnnxText(builder, AlbertClassifierPreprocessor(tokenizer))
    (pieces,) = texts.tokenize(column)
    for name in ("ids", "begins", "lengths", "places"):
        builder.output(name, getattr(pieces, name))
    path = tmp_path_factory.mktemp("onnx") / "texts.onnx"
    onnx.save(
        onnx_ir.to_proto(onnx_ir.Model(builder.graph, ir_version=IR_VERSION)), path
    )

    def run(texts):
        found = programs("onnx_program").ask([str(path), {"texts": texts}])
        rows = list(zip(found["begins"], found["lengths"], strict=True))
        return [
            [found[name][begin : begin + length] for begin, length in rows]
            for name in ("ids", "places")
        ]

    return run


def check(texts, tokenizer, in_graph, in_onnx):
    ids = tokenizer.tokenize(texts)
    rows = tokenizer.tokenize_with_offsets(texts)
    assert in_graph(texts) == [ids, *([row.tolist() for row in rows] for rows in rows)]
    found, places = in_onnx(texts)
    assert found == ids
    processor = SentencePieceProcessor(model_proto=tokenizer.proto)
    encoded = processor.Encode(texts, return_type="offset_mapping")
    for text, row, other in zip(texts, places, encoded, strict=True):
        begins = [start for start, _ in other["offsets"]]
        assert row == [len(text[:begin].encode()) for begin in begins]


def test_any_run(tokenizer, in_graph, in_onnx):
    @given(st.lists(TEXTS, max_size=5))
    def run(texts):
        check(texts, tokenizer, in_graph, in_onnx)

    settings.get_profile("texts")(run)()


def test_long_runs(tokenizer, in_graph, in_onnx):
    texts = ["the " + "漢字" * 50_000 + " the", "漢", "", "字" * 90_000, "\ue000"]
    check(texts, tokenizer, in_graph, in_onnx)
    long = tokenizer.tokenize(["\0" * 200_000 + "the"])
    assert in_graph(["\0" * 200_000 + "the"])[0] == long
