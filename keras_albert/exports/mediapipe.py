"""The export to MediaPipe's Text Classifier and Text Embedder, from strings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from keras_albert.exports.litert import write_model
from keras_albert.exports.shared import check_tokenizer
from keras_albert.tasks.task import AlbertTask
from keras_albert.text.tokenizer.word_piece import (
    WordPieceRules,
    is_word_piece,
    parse_word_piece,
)
from keras_albert.utils.environment import import_package

# The tensors of a model by MediaPipe's names, and the file of the vocabulary.
_INPUTS = {"token_ids": "ids", "padding_mask": "mask", "segment_ids": "segment_ids"}
_VOCABULARY = "vocab.txt"
_OUTPUTS = {"AlbertClassifier": "probabilities", "AlbertTextEmbedder": "embedding"}


def export_mediapipe(
    task: AlbertTask,
    path: Path,
    sequence_length: int | None = None,
    quantize: Literal["dynamic_int8", "fp16"] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a LiteRT model that MediaPipe's text tasks run on strings.

    The file contains the model, its vocabulary and its labels, for `TextClassifier` and
    `TextEmbedder` on Android, iOS, the web and in Python. Labels and numbers equal
    `classify`'s and `embed`'s for texts in ASCII. MediaPipe lowercases only ASCII and
    keeps accents: lowercase other texts, and remove their accents, before.

    Source: [Text classification guide](
    https://ai.google.dev/edge/mediapipe/solutions/text/text_classifier).

    Args:
        task: `AlbertClassifier` of one label per text, or `AlbertTextEmbedder`, with an
            uncased WordPiece vocabulary.
        path: Path. The file to write.
        sequence_length: int. Tokens in a row, for devices that need fixed shapes.
            Defaults to `None`: as many as the text has, at most those that the
            preprocessor keeps.
        quantize: `"dynamic_int8"`, `"fp16"` or `None`, as in the LiteRT export.
            Defaults to `None`.
        overwrite: bool. Whether to replace an existing file. Defaults to `False`.

    Returns:
        The path.

    Raises:
        ImportError: If TensorFlow or MediaPipe is not installed.
        FileExistsError: If the file exists and `overwrite` is `False`.
        IsADirectoryError: If `path` is a directory.
        OSError: If the file cannot be written.
        ValueError: If an argument is invalid, MediaPipe has no such task, or it would
            tokenize texts differently.
        RuntimeError: If the process that converts the model failed.

    Example:
        >>> from keras_albert import AlbertClassifier
        >>> classifier = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
        >>> classifier.export("films.tflite", format="mediapipe")
        PosixPath('films.tflite')
    """
    pieces = _check_task(task)
    length = task.preprocessor.max_length if sequence_length is None else None
    bundle = {
        "output": _OUTPUTS[type(task).__name__],
        "max_length": length,
        "sep": task.preprocessor.tokenizer.sep_token_id,
    }
    files = {_VOCABULARY: "".join(f"{piece}\n" for piece in pieces)}
    return write_model(
        task, path, sequence_length, quantize, overwrite, bundle=bundle, files=files
    )


def _check_task(task: AlbertTask) -> Sequence[str]:
    """Return the vocabulary of a task that MediaPipe runs, or raise."""
    name = type(task).__name__
    if (
        name not in _OUTPUTS
        or getattr(task, "is_regression", False)
        or getattr(task, "is_multi_label", False)
    ):
        raise ValueError(
            "MediaPipe's text tasks are a classifier of one label per text and an "
            f'embedder. Received: {name}. Export it with format="litert", from ids, or '
            'format="onnx" with inputs="text".'
        )
    check_tokenizer(task, "MediaPipe")
    proto = task.preprocessor.tokenizer.proto
    pieces, rules = parse_word_piece(proto) if is_word_piece(proto) else ((), None)
    if rules != WordPieceRules():
        raise ValueError(
            "MediaPipe tokenizes by WordPiece, as uncased BERT does, and this "
            'vocabulary is of another kind. Export it with format="litert" and pass '
            'ids, or with format="onnx", inputs="text".'
        )
    return pieces


def add_metadata(model: bytes, has_labels: bool) -> bytes:
    """Add what MediaPipe reads: the names of inputs, the tokenizer and the labels."""
    # The writer of MediaPipe's Python package needs a module that is not in its wheels.
    folder = "mediapipe.tasks.metadata"
    what = "The MediaPipe export", "mediapipe"
    schema = import_package(*what, f"{folder}.schema_py_generated")
    described = import_package(*what, f"{folder}.metadata_schema_py_generated")
    flatbuffers = import_package(*what, "flatbuffers")

    def associated(name: str, kind: int) -> Any:
        file = described.AssociatedFileT()
        file.name, file.type = name, kind
        return file

    def tensor(name: str) -> Any:
        metadata = described.TensorMetadataT()
        metadata.name = name
        return metadata

    kinds = described.AssociatedFileType
    content = schema.ModelT.InitFromObj(schema.Model.GetRootAs(model, 0))
    (graph,) = content.subgraphs
    tokenizer = described.ProcessUnitT()
    tokenizer.optionsType = described.ProcessUnitOptions.BertTokenizerOptions
    tokenizer.options = described.BertTokenizerOptionsT()
    tokenizer.options.vocabFile = [associated(_VOCABULARY, kinds.VOCABULARY)]
    metadata = described.SubGraphMetadataT()
    names = [graph.tensors[place].name.decode() for place in graph.inputs]
    metadata.inputTensorMetadata = [
        tensor(next(_INPUTS[key] for key in _INPUTS if key in name)) for name in names
    ]
    metadata.inputProcessUnits = [tokenizer]
    output = tensor("output")
    if has_labels:
        labels = associated("labels.txt", kinds.TENSOR_AXIS_LABELS)
        output.associatedFiles = [labels]
    metadata.outputTensorMetadata = [output]
    whole = described.ModelMetadataT()
    whole.subgraphMetadata = [metadata]
    builder = flatbuffers.Builder(0)
    builder.Finish(whole.Pack(builder), b"M001")
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = builder.Output()
    entry.name, entry.buffer = "TFLITE_METADATA", len(content.buffers)
    content.buffers.append(buffer)
    content.metadata = [*(content.metadata or ()), entry]
    builder = flatbuffers.Builder(len(model))
    builder.Finish(content.Pack(builder), b"TFL3")
    return bytes(builder.Output())
