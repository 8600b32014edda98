"""What users call first has an example; the list of the others only gets shorter."""

import importlib
import inspect

from extensions import reference

# Public names whose docstring has no example yet.
WITHOUT_EXAMPLE = frozenset(
    """
    AlbertBackbone.load_weights AlbertBackbone.pool AlbertBackbone.pooled_by_layer
    AlbertBackbone.quantize AlbertClassifierPreprocessor.encode
    AlbertMultipleChoicePreprocessor.encode AlbertQuestionAnswerer.choose_null_threshold
    AlbertQuestionAnswerer.compile AlbertQuestionAnswerer.encode
    AlbertQuestionAnswererPreprocessor.encode AlbertTask.encode
    AlbertTask.predict_on_batch AlbertTask.test_on_batch AlbertTask.train_on_batch
    AlbertTextEmbedder.embed AlbertTextEmbedder.embed_documents
    AlbertTextEmbedder.encode
    AlbertTextEmbedder.predict AlbertTextEmbedder.predict_on_batch
    AlbertTextEmbedderPreprocessor.encode AlbertTextEmbedderPreprocessor.with_prompt
    AlbertTokenClassifierPreprocessor.encode
    AlbertTokenizer.build_inputs_with_special_tokens
    AlbertTokenizer.create_token_type_ids_from_sequences
    AlbertTokenizer.get_special_tokens_mask AlbertTokenizer.save_vocabulary
    AlbertTokenizer.tokenize_rows CheckpointExports.export_to_google
    CheckpointExports.export_to_keras_hub
    CheckpointExports.export_to_sentence_transformers CheckpointExports.save
    CheckpointExports.save_weights ConditionalSpanHead.call Conversion
    DocumentOutputs.predict_documents EarlyExits.evaluate EarlyExits.predict
    EarlyExits.without_exits FactorizedEmbedding.call MaskedLMHead.call
    MaskingPreprocessor.encode NamedClasses.from_preset PretrainingBatches
    PretrainingBatches.batch PretrainingBatches.tf_dataset PretrainingConfig.from_file
    PretrainingConfig.to_dict PretrainingData PretrainingData.batches
    PretrainingData.segments Recipe.for_width Recipe.optimizer
    SharedTransformerEncoder.call SquadFile SquadFile.take TokenRows.from_arrays
    TransformerBlock.call VerifiedModel add_text_rules choice_columns describe_exits
    question_contexts segment_pairs text_columns word_columns
    """.split()  # noqa: SIM905
)


def has_example(value):
    text = inspect.getdoc(value) or ""
    return ">>> " in text or "```" in text


def documented():
    """Yield the name and the object of each function, class and method."""
    for path in sorted(set(reference.places().values())):
        module_name, name = path.rsplit(".", 1)
        value = getattr(importlib.import_module(module_name), name)
        if inspect.isclass(value):
            yield name, value
            for member in reference.members(value):
                if isinstance(inspect.getattr_static(value, member), property):
                    continue
                method = getattr(value, member)
                # scikit-learn makes some methods.
                if inspect.isroutine(method) and "<locals>" not in method.__qualname__:
                    yield method.__qualname__, method
        elif inspect.isroutine(value):
            yield name, value


def test_what_has_no_example_is_known():
    missing = {name for name, value in documented() if not has_example(value)}
    assert missing - WITHOUT_EXAMPLE == set(), "write an example"
    assert WITHOUT_EXAMPLE - missing == set(), "remove them from the list"


def test_each_name_has_a_summary_of_one_line():
    for name, value in documented():
        first = (inspect.getdoc(value) or "").partition("\n\n")[0]
        assert first, name
        assert "\n" not in first, name
        assert first.endswith((".", ":")), name
