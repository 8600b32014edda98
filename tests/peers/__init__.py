"""What the tests of other projects assert, of our classes, and where it is held.

google-research/albert, against the same rules written anew:

- `tokenization_test.py`: `tests/text/tokenizer`, as far as SentencePiece answers it.
- `modeling_test.py`: `tests/backbone`.
- `optimization_test.py`, `lamb_optimizer.py`: `tests/tasks/test_optimizers.py`,
  `tests/tasks/test_lamb.py`.
- `run_pretraining_test.py`: `tests/pretraining/test_pretrain.py`.
- `create_pretraining_data.py`: `tests/pretraining/prepare/test_sentence_pairs.py`,
  `tests/text/test_masking.py`; how it cuts pairs, `tests/text/test_packing.py`.
- `squad_utils.py`: `tests/tasks/question_answering`, `tests/text/test_packing.py`.
- `race_utils.py`: `tests/preprocessors/test_multiple_choice.py`.

Its WordPiece, and the `BasicTokenizer` before it, for BERT's vocabularies:
`tests/text/tokenizer/test_word_piece.py`. Not here, for they have no counterpart:
`einsum_via_matmul`, and `all_encoder_layers` as an output of the model
(`tests/layers/test_encoder.py` asks the encoder).

transformers 5, `tests/models/albert/test_modeling_albert.py` with the mixins that it
runs: outputs and gradients `tests/backbone/test_parity.py`, tasks
`tests/checkpoints/transformers/test_tasks.py`; states and scores of layers, and remat,
`tests/layers/test_encoder.py`; tied weights
`tests/layers/test_heads.py`; what `test_save_load`, `test_determinism`,
`test_batching_equivalence` and `test_training` ask of each class
`tests/tasks/test_every_task.py`; sizes of heads and kinds of problems `tests/tasks`.

- `test_inference_no_head_absolute_embedding`, `test_export` and
  `test_model_from_pretrained` need released weights, and tests need no network.
- Calls without a mask or without segments: the model takes three inputs, as KerasHub's.
- Resizing or replacing token embeddings, `inputs_embeds`, feed-forward chunks, pruned
  heads: KerasHub's backbone has none of them.
- Attention implementations by name, `generate`, caches, offloading to disk, meta
  devices, `accelerate`, PEFT: of PyTorch or of decoders.
- Zero-shot classification: needs a model fine-tuned on entailment.

Its `test_tokenization_albert.py` and `test_tokenization_common.py`: sequence builders
and files `tests/text/tokenizer`, padding, truncation and batches
`tests/text/test_packing.py` and `tests/preprocessors`, pipelines `tests/tasks`.

- Tokens added after training, other special tokens, `bos_token`, `clean_up_...`: the
  vocabulary is the checkpoint's.
- Chat templates, seq2seq batches, left padding, left truncation: of decoders.
- Subword regularization: sampled pieces would differ between Python, graph and server.
- `model_max_length` and its warning: rows are cut, to the length that a model reads.
- Overflowing tokens: windows are made by the preprocessors that read long texts.
- Slow and fast tokenizers: there is one, in Python and in graphs.

`test_keras.py` and `test_keras_hub.py` say which tests they stand for. The deliberate
differences are in `docs/differences.md`.
"""
