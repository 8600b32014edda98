"""The vocabularies of KerasHub's tests of ALBERT, trained as its tools train them."""

import io

import pytest

# Fixtures of the small tasks.
from tests.tasks.conftest import toy, toy_proto  # noqa: F401


def _train(texts, **arguments):
    import sentencepiece

    from keras_albert.text.tokenizer.sentencepiece_file import ModelProto

    model_file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model_file,
        minloglevel=2,
        **arguments,
    )
    model = ModelProto.FromString(model_file.getvalue())
    # Newer versions add the token once more, as it stands at the start of a word.
    pieces = [piece for piece in model.pieces if piece.piece != "▁[MASK]"]
    del model.pieces[:]
    model.pieces.extend(pieces)
    return model.SerializeToString()


@pytest.fixture(scope="session")
def hub_proto():
    """KerasHub's `albert_test_vocab.spm`: twelve tokens, words alone."""
    proto = _train(
        ["the quick brown fox", "the earth is round"],
        vocab_size=13,
        model_type="WORD",
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        pad_piece="<pad>",
        unk_piece="<unk>",
        bos_piece="[CLS]",
        eos_piece="[SEP]",
        user_defined_symbols="[MASK]",
    )
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    assert processor.get_piece_size() == 12
    return proto
