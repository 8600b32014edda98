"""The operations that a stock TensorFlow Serving has, as data."""

from collections.abc import Collection

# Beyond TensorFlow's own, those of tensorflow-text.
#
# Source: `SUPPORTED_TENSORFLOW_OPS` in `tensorflow_serving/model_servers/BUILD` of
# [TensorFlow Serving](https://github.com/tensorflow/serving) links
# `@org_tensorflow_text//tensorflow_text:ops_lib`; that target, in
# `tensorflow_text/BUILD` of [TensorFlow Text](https://github.com/tensorflow/text), has
# a library for each shared object of the wheel. Those of 2.21.1 register these.
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

# TensorFlow's Python library has these and a server has not, or only for a graph that
# the very same version of XLA compiled: those behind jax2tf, and calls into Python.
NOT_SERVED = ("EagerPyFunc", "PyFunc", "Xla")


def unknown_operations(
    operations: Collection[str], core: Collection[str]
) -> tuple[str, ...]:
    """Find what a stock server has not.

    Args:
        operations: Names. Those of a graph.
        core: Names. Those that TensorFlow's own library has.

    Returns:
        The others, in order.

    Example:
        >>> from keras_albert.serving.served_operations import unknown_operations
        >>> unknown_operations(["MatMul", "MyOp", "XlaDot"], ["MatMul", "XlaDot"])
        ('MyOp', 'XlaDot')
    """
    return tuple(
        name
        for name in sorted(operations)
        if name.startswith(NOT_SERVED)
        or (name not in core and name not in TEXT_OPERATIONS)
    )
