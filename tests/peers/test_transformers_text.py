"""What transformers' tests of ALBERT's tokenizer assert, of our classes.

The files are `tests/models/albert/test_tokenization_albert.py` and
`tests/test_tokenization_common.py` of transformers 5 (`TokenizerTesterMixin`).
`docs/differences.md` says under "transformers" where ids and texts differ. Sequence
builders and files are in `tests/text/tokenizer`, padding, truncation and batches in
`tests/text/test_packing.py` and `tests/text/tasks`, pipelines in `tests/tasks`.

Not here, for they have no counterpart:

- Tokens added after training, other special tokens, `bos_token`, `clean_up_...`: the
  vocabulary is the checkpoint's.
- Chat templates, seq2seq batches, left padding, left truncation: of decoders.
- Subword regularization: sampled pieces would differ between Python, graph and server.
- `model_max_length` and its warning: rows are cut, to the length that a model reads.
- Overflowing tokens: windows are made by the preprocessors that read long texts,
  `tests/text/test_packing.py`.
- Slow and fast tokenizers: there is one, in Python and in graphs,
  `tests/text/tokenizer/test_albert_tokenizer.py`; offsets are tested there as well.
"""

import pytest

from keras_albert import AlbertTokenizer
from keras_albert.text import TextRules


def test_conversion_reversible(tiny_proto):
    """And `test_convert_token_and_id`."""
    tokenizer = AlbertTokenizer(tiny_proto)
    for token_id, token in enumerate(tokenizer.get_vocabulary()):
        assert tokenizer.token_to_id(token) == token_id
        assert tokenizer.id_to_token(token_id) == token
    assert tokenizer.token_to_id("no token of it") == 1


@pytest.mark.shared_data
class TestReleasedVocabulary:
    """The ids that transformers' tests expect, of ALBERT's own vocabulary."""

    def test_integration(self, shared_data):
        tokenizer = AlbertTokenizer(shared_data / "albert_spm" / "spiece.model")
        text = "This is a test 😊\nI was born in 92000, and this is falsé.\n<s>\nhi<s>"
        expected = [48, 25, 21, 1289, 13, 1, 31, 23, 386, 19, 561, 3050, 15, 17, 48]
        expected += [25, 4997, 9, 13, 1, 18, 1, 4148, 1, 18, 1]
        assert tokenizer(text).tolist() == expected

    def test_full_tokenizer(self, shared_data):
        """With accents kept."""
        rules = TextRules(strip_accents=False)
        path = shared_data / "albert_spm" / "spiece.model"
        tokenizer = AlbertTokenizer(path, text_rules=rules)
        assert tokenizer("This is a test").tolist() == [48, 25, 21, 1289]
        ids = [31, 23, 386, 19, 561, 3050, 15, 17, 48, 25, 8256, 18, 1, 9]
        assert tokenizer("I was born in 92000, and this is falsé.").tolist() == ids
