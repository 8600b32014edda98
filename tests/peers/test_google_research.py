"""What google-research/albert's tests and data code assert, of our classes.

Most is held elsewhere, against the same rules written anew:

- `tokenization_test.py`: `tests/text/tokenizer`, as far as SentencePiece answers it.
- `modeling_test.py`: `tests/backbone`.
- `optimization_test.py`: `tests/tasks/test_optimizers.py`; and `lamb_optimizer.py`:
  `tests/tasks/test_lamb.py`.
- `run_pretraining_test.py`, a run of one step and its files:
  `tests/pretraining/test_pretrain.py`.
- `create_pretraining_data.py`: `tests/pretraining/prepare/test_sentence_pairs.py`,
  `tests/text/test_masking.py`; how it cuts pairs stands here.
- `squad_utils.py`: scores `tests/tasks/question_answering/test_squad_scores.py`,
  windows `tests/text/test_packing.py`, answers
  `tests/tasks/question_answering/test_answers.py`.
- `race_utils.py`: `tests/text/tasks/test_multiple_choice.py`.

Not here, for they have no counterpart: `einsum_via_matmul`; WordPiece, and the
`BasicTokenizer` before it, which splits at punctuation and around Chinese characters
(BERT's vocabularies; ALBERT's are SentencePiece's); `all_encoder_layers` as an output
of the model (`tests/layers/test_shared_transformer_encoder.py` asks the encoder).
"""

import numpy as np

from keras_albert.text.tokenizer.token_rows import truncated_lengths


def test_pairs_are_cut_as_the_reference_cuts_them():
    """`_truncate_seq_pair`: of the longer one, of the second where both are alike."""
    for first in range(9):
        for second in range(9):
            for room in range(2, 12):
                a, b = first, second
                while a + b > room:
                    if a > b:
                        a -= 1
                    else:
                        b -= 1
                lengths = (np.array([first]), np.array([second]))
                found = truncated_lengths(lengths, room, "round_robin")
                assert [int(each[0]) for each in found] == [a, b]
