"""What holds of any text: ids, offsets, packing and masks, and that all agree.

Some hundred examples of a few texts; as many as wanted with

    pytest tests/property/test_strange_texts.py -n auto --examples 100000
"""

import unicodedata
from functools import cache

import numpy as np
import onnx
import onnx_ir
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.normalizers import BertNormalizer

from keras_albert import (
    AlbertClassifierPreprocessor,
    AlbertMaskedLMPreprocessor,
    AlbertTokenizer,
)
from keras_albert.text.tokenizer.sentencepiece_file import parse_vocabulary
from keras_albert.text.tokenizer.word_piece import is_word_piece
from tests.property.strange_texts import TEXTS
from tests.word_pieces import word_proto

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

LENGTH = 12
SPECIAL = [0, 2, 3, 4]


def make_tokenizer(kind, tiny_proto):
    if kind == "tiny":
        return AlbertTokenizer(tiny_proto)
    if kind == "built-in":
        return AlbertTokenizer.from_preset("albert_tiny_en_uncased")
    if kind == "no prefix":
        # A text may begin with an unknown character.
        model = parse_vocabulary(AlbertTokenizer(tiny_proto).proto)
        model.normalizer_spec.add_dummy_prefix = False
        return AlbertTokenizer(model.SerializeToString(), text_rules="keep")
    return AlbertTokenizer(word_proto())


@pytest.fixture(scope="module", params=["tiny", "built-in"])
def tokenizer(request, tiny_proto):
    return make_tokenizer(request.param, tiny_proto)


@pytest.fixture(scope="module", params=["tiny", "no prefix", "built-in", "word piece"])
def any_tokenizer(request, tiny_proto):
    return make_tokenizer(request.param, tiny_proto)


def check_each(figures, *strategies):
    """Decorate a property of lists that are drawn, and check it."""

    def run(check):
        def counted(rows):
            figures["examples"] += 1
            figures["texts"] += len(rows)
            check(rows)

        drawn = st.tuples(*strategies) if len(strategies) > 1 else strategies[0]
        lists = st.lists(drawn, min_size=1, max_size=6)
        settings.get_profile("texts")(given(lists)(counted))()

    return run


def test_ids_and_offsets(tokenizer, figures):
    reference = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.proto)

    def normalized(text):
        return reference.Normalize(text).rstrip("\u2581")

    @check_each(figures, TEXTS)
    def _(texts):
        found = zip(texts, *tokenizer.tokenize_with_offsets(texts), strict=True)
        assert tokenizer.tokenize_rows(texts).to_lists() == tokenizer.tokenize(texts)
        for text, ids, starts, ends in found:
            assert ids.tolist() == tokenizer.tokenize(text).tolist()
            assert not np.isin(ids, SPECIAL).any()
            assert ((ids > 0) & (ids < tokenizer.vocabulary_size())).all()
            assert ((starts >= 0) & (starts <= ends) & (ends <= len(text))).all()
            assert (starts[1:] >= ends[:-1]).all()
            so_far = ""
            for piece, start, end in zip(
                reference.EncodeAsPieces(text), starts, ends, strict=True
            ):
                so_far += piece
                if start == end:
                    continue
                assert so_far.startswith(before := normalized(text[:end]))
                # It ends within what one character or sequence became.
                assert so_far.rstrip("\u2581") == before or any(
                    normalized(text[: end + more]).startswith(so_far)
                    for more in range(1, 9)
                )
            assert so_far == normalized(text)
            # What is known comes back as the vocabulary's rules leave it.
            if 1 not in ids:
                again = so_far.replace("\u2581", " ").removeprefix(" ")
                assert tokenizer.detokenize(ids) == again


def packed(rows, truncate):
    """Deal tokens out one by one; `(ids, segments)` of each row."""
    found = []
    for row in rows:
        room, kept = LENGTH - len(row) - 1, [[] for _ in row]
        queues = [list(ids) for ids in row]
        if truncate == "waterfall":
            turns = [text for text, ids in enumerate(queues) for _ in ids]
        else:
            turns = list(range(len(row))) * LENGTH
        for text in turns:
            if room and queues[text]:
                kept[text].append(queues[text].pop(0))
                room -= 1
        ids, segments = [2], [0]
        for number, tokens in enumerate(kept):
            ids += [*tokens, 3]
            segments += [number] * (len(tokens) + 1)
        found.append((ids, segments))
    return found


def unpadded(batch):
    """Rows of a batch without what fills them up, which is nothing."""
    ids, segments, mask = (
        np.asarray(batch[name]) for name in ("token_ids", "segment_ids", "padding_mask")
    )
    assert (np.diff(mask, axis=1) <= 0).all()
    assert not ids[mask == 0].any()
    assert not segments[mask == 0].any()
    lengths = mask.sum(axis=1)
    return [
        (row[:n].tolist(), segment[:n].tolist())
        for row, segment, n in zip(ids, segments, lengths, strict=True)
    ]


def write_onnx(preprocessors, path):
    """Write a model of what ONNX graphs do with texts, before they run a task."""
    from keras_albert.exports.onnx.builder import IR_VERSION, TEXT_DOMAIN, OnnxBuilder
    from keras_albert.exports.onnx.text import OnnxText

    builder = OnnxBuilder()
    builder.graph.opset_imports[TEXT_DOMAIN] = 1
    columns = [builder.input(name, "string", "batch") for name in ("first", "second")]
    for name, preprocessor in preprocessors.items():
        texts = OnnxText(builder, preprocessor)
        pieces = texts.tokenize(*columns)
        builder.output(f"{name}/ids", pieces[0].ids)
        for column, found in zip(("first", "second"), pieces, strict=True):
            builder.output(f"{name}/{column}", found.lengths)
        for kind, packed_columns in (("one", pieces[:1]), ("pair", pieces)):
            batch = texts.pack(texts.truncate(packed_columns))
            for key, value in batch.items():
                builder.output(f"{name}/{kind}/{key}", value)
    model = onnx_ir.to_proto(onnx_ir.Model(builder.graph, ir_version=IR_VERSION))
    onnx.save(model, path)


def test_python_graph_and_onnx(any_tokenizer, programs, figures, tmp_path):
    preprocessors = {
        truncate: AlbertClassifierPreprocessor(
            any_tokenizer, sequence_length=LENGTH, truncate=truncate
        )
        for truncate in ("round_robin", "waterfall")
    }
    model = tmp_path / "model.onnx"
    write_onnx(preprocessors, model)
    run_onnx = programs("onnx_program").ask
    strings = tf.TensorSpec([None], tf.string)
    is_exact = is_word_piece(any_tokenizer.proto)

    @tf.function(input_signature=[strings, strings])
    def in_graph(first, second):
        batches = {
            f"{name}/{kind}/{key}": value
            for name, preprocessor in preprocessors.items()
            for kind, x in (("one", first), ("pair", (first, second)))
            for key, value in preprocessor(x).items()
        }
        offsets = [any_tokenizer.tokenize_with_offsets(x) for x in (first, second)]
        return offsets, batches

    def check_graph(columns):
        """Compare a graph with Python; return its ids."""
        offsets, batches = in_graph(*map(tf.constant, columns))
        found = [[ragged.to_list() for ragged in column] for column in offsets]
        for texts, theirs in zip(columns, found, strict=True):
            ours = any_tokenizer.tokenize_with_offsets(texts)
            rows = (zip(*ours, strict=True), zip(*theirs, strict=True))
            for text, mine, other in zip(texts, *rows, strict=True):
                if mine[0].tolist() == other[0]:
                    if is_exact and sorts_marks(text):
                        figures["texts with unsorted marks"] += 1
                        continue
                    assert [values.tolist() for values in mine] == list(other)
                else:
                    figures["ties"] += 1
                    assert not is_exact
                    proto = any_tokenizer.proto
                    assert is_tie(mine[0].tolist(), other[0], scores_of(proto))
        ids = [column[0] for column in found]
        check_batches(ids, batches, preprocessors)
        return ids

    @check_each(figures, TEXTS, TEXTS)
    def _(pairs):
        columns = [list(column) for column in zip(*pairs, strict=True)]
        ids = check_graph(columns)
        python = [any_tokenizer.tokenize(column) for column in columns]
        batches = {
            f"{name}/{kind}/{key}": value
            for name, preprocessor in preprocessors.items()
            for kind, x in (("one", columns[0]), ("pair", tuple(columns)))
            for key, value in preprocessor(x).items()
        }
        check_batches(python, batches, preprocessors)
        # The operation of onnxruntime-extensions reads a text up to its first NUL.
        read = [[text.partition("\0")[0] for text in column] for column in columns]
        if read != columns:
            figures["rows with a NUL"] += sum("\0" in a + b for a, b in pairs)
            ids = check_graph(read)
        inputs = dict(zip(("first", "second"), columns, strict=True))
        answers = run_onnx([str(model), inputs])
        assert "died" not in answers, answers
        for name in preprocessors:
            flat = [token_id for column in ids for row in column for token_id in row]
            assert answers[f"{name}/ids"] == flat
            for column, rows in zip(inputs, ids, strict=True):
                assert answers[f"{name}/{column}"] == [len(row) for row in rows]
        check_batches(ids, answers, preprocessors)


def test_long_runs_of_unknown_characters(tokenizer, programs, tmp_path):
    """They take linear time."""
    texts = ["the " + "漢字" * 50_000 + " the", "字" * 90_000, "\ue000"]
    in_graph = tf.function(tokenizer.tokenize_rows)
    for rows in (texts, ["\0" * 200_000 + "the"]):
        assert in_graph(tf.constant(rows)).to_list() == tokenizer.tokenize(rows)
    preprocessor = AlbertClassifierPreprocessor(tokenizer, sequence_length=LENGTH)
    write_onnx({"any": preprocessor}, tmp_path / "model.onnx")
    inputs = {"first": texts, "second": texts}
    answers = programs("onnx_program").ask([str(tmp_path / "model.onnx"), inputs])
    flat = [token_id for row in tokenizer.tokenize(texts) for token_id in row]
    assert answers["any/ids"] == flat * 2


def sorts_marks(text):
    """Say whether NFD, which Python computes, exchanges marks, and some stay."""
    parts = [unicodedata.normalize("NFD", character) for character in text]
    kept = BertNormalizer().normalize_str(text)
    is_sorted = "".join(parts) == unicodedata.normalize("NFD", text)
    return not is_sorted and any(map(unicodedata.combining, kept))


@cache
def scores_of(proto):
    return np.array([piece.score for piece in parse_vocabulary(proto).pieces])


def is_tie(ours, theirs, scores):
    """Say whether the scores of two segmentations are equal but for rounding.

    Half a step of 1/8,192 in each score, to which graphs round them, and half of the
    last bit of a float32 in each sum.
    """
    totals = scores[ours].sum(), scores[theirs].sum()
    steps = 2**-14 + np.spacing(np.float32(abs(totals[0])))
    return abs(totals[0] - totals[1]) <= max(len(ours), len(theirs)) * steps


def check_batches(ids, batches, preprocessors):
    """Check rows of texts and of pairs against the ids of two columns."""
    for name in preprocessors:
        for kind, columns in (("one", ids[:1]), ("pair", ids)):
            keys = ("token_ids", "segment_ids", "padding_mask")
            batch = {key: batches[f"{name}/{kind}/{key}"] for key in keys}
            assert unpadded(batch) == packed(list(zip(*columns, strict=True)), name)


def test_masks(any_tokenizer, figures):
    plain = AlbertClassifierPreprocessor(any_tokenizer, sequence_length=24)
    maskings = [
        (
            rate,
            AlbertMaskedLMPreprocessor(
                any_tokenizer,
                sequence_length=24,
                mask_selection_rate=rate,
                mask_selection_length=slots,
            ),
        )
        for rate in (0.0, 0.15, 1.0)
        for slots in (None, 3)
    ]

    @check_each(figures, TEXTS, TEXTS)
    def _(pairs):
        first, second = map(list, zip(*pairs, strict=True))
        whole = plain((first, second))
        for rate, preprocessor in maskings:
            x, y, weight = preprocessor((first, second))
            check_masks(x, y, weight, whole, any_tokenizer, rate)


def check_masks(x, y, weight, whole, tokenizer, rate):
    rows, slots = np.nonzero(weight)
    positions = x["mask_positions"][rows, slots]
    assert np.isin(weight, [0, 1]).all()
    # Filled from the left, each place once, and nothing behind.
    assert (np.diff(weight, axis=1) <= 0).all()
    assert (np.diff(positions)[np.diff(rows) == 0] > 0).all()
    assert not y[weight == 0].any()
    assert not x["mask_positions"][weight == 0].any()
    assert not np.isin(whole["token_ids"][rows, positions], [*SPECIAL, 1]).any()
    assert (
        (x["token_ids"] >= 0) & (x["token_ids"] < tokenizer.vocabulary_size())
    ).all()
    if not rate:
        assert not len(rows)
    restored = x["token_ids"].copy()
    restored[rows, positions] = y[rows, slots]
    np.testing.assert_array_equal(restored, whole["token_ids"])
    for name in ("segment_ids", "padding_mask"):
        np.testing.assert_array_equal(x[name], whole[name])
    if is_word_piece(tokenizer.proto):
        hit = np.zeros(whole["token_ids"].shape, bool)
        hit[rows, positions] = True
        pieces = np.array(tokenizer.get_vocabulary())[whole["token_ids"]]
        goes_on = np.char.startswith(pieces[:, 1:], "##")
        np.testing.assert_array_equal(hit[:, 1:][goes_on], hit[:, :-1][goes_on])
