"""The operations of a stock TensorFlow Serving."""

from collections.abc import Collection

# The operations of tensorflow-text, in addition to TensorFlow's.
#
# Source: `SUPPORTED_TENSORFLOW_OPS` in `tensorflow_serving/model_servers/BUILD` of
# [TensorFlow Serving](https://github.com/tensorflow/serving) links
# `@org_tensorflow_text//tensorflow_text:ops_lib`; that target, in
# `tensorflow_text/BUILD` of [TensorFlow Text](https://github.com/tensorflow/text), has
# a library for each shared object of the wheel. The list is from version 2.21.1.
TEXT_OPERATIONS = frozenset(
    (
        "CaseFoldUTF8",
        "ConstrainedSequence",
        "FastBertNormalize",
        "FastWordpieceTokenizeWithOffsets",
        "FindSourceOffsets",
        "MaxSpanningTree",
        "NormalizeUTF8",
        "NormalizeUTF8WithOffsetsMap",
        "PhraseTokenize",
        "RegexSplitWithOffsets",
        "RougeL",
        "SentenceFragments",
        "SentenceFragmentsV2",
        "SentencepieceDetokenizeOp",
        "SentencepieceIdToStringOp",
        "SentencepieceOp",
        "SentencepieceStringToIdOp",
        "SentencepieceTokenizeOp",
        "SentencepieceTokenizeWithOffsetsOp",
        "SentencepieceVocabSizeOp",
        "SplitMergeTokenizeWithOffsets",
        "TFText>BoiseTagsToOffsets",
        "TFText>ByteSplitByOffsets",
        "TFText>ByteSplitWithOffsets",
        "TFText>FastSentencepieceDetokenize",
        "TFText>FastSentencepieceTokenize",
        "TFText>FastWordpieceDetokenize",
        "TFText>NgramsStringJoin",
        "TFText>OffsetsToBoiseTags",
        "TFText>PhraseDetokenize",
        "TFText>RoundRobinGenerateMasks",
        "TFText>RoundRobinTrim",
        "TFText>Utf8Binarize",
        "TFText>WhitespaceTokenizeWithOffsetsV2",
        "TokenizerFromLogits",
        "UnicodeScriptTokenizeWithOffsets",
        "WhitespaceTokenizeWithOffsets",
        "WordpieceTokenizeWithOffsets",
    )
)

# Operations of TensorFlow's Python library that a server lacks, or supports only for
# graphs compiled by the same XLA version: those of jax2tf, and calls into Python.
NOT_SERVED = ("EagerPyFunc", "PyFunc", "Xla")


def unknown_operations(
    operations: Collection[str], core: Collection[str]
) -> tuple[str, ...]:
    """Find the operations that a stock server lacks."""
    return tuple(
        name
        for name in sorted(operations)
        if name.startswith(NOT_SERVED)
        or (name not in core and name not in TEXT_OPERATIONS)
    )
