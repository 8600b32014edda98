"""The exports to LiteRT, and to MediaPipe's tasks, which run it on strings."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from keras_albert.exports import shared
from keras_albert.tasks.classification.early_exit import with_last_head
from keras_albert.tasks.task import AlbertTask
from keras_albert.text.tokenizer.word_piece import (
    WordPieceRules,
    is_word_piece,
    parse_word_piece,
)
from keras_albert.utils import atomic_files
from keras_albert.utils.arguments import check_at_most, check_choice, check_positive
from keras_albert.utils.child_process import run_in_tensorflow
from keras_albert.utils.environment import check_packages
from keras_albert.utils.temporary import temporary_directory

# The tensors of a model by MediaPipe's names, and the file of the vocabulary.
_INPUTS = {"token_ids": "ids", "padding_mask": "mask", "segment_ids": "segment_ids"}
_VOCABULARY = "vocab.txt"
_OUTPUTS = {"AlbertClassifier": "probabilities", "AlbertTextEmbedder": "embedding"}


def export_litert(
    task: AlbertTask,
    path: Path,
    sequence_length: int | None = None,
    quantize: Literal["dynamic_int8", "fp16"] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a model for LiteRT (TensorFlow Lite), for phones and small devices.

    It takes int32 ids from the preprocessor and returns numbers, under the same names
    as the ONNX export. Every backend writes the same file, in a process with the
    TensorFlow backend: LiteRT's built-in operations only, each weight stored once, the
    layers as a loop.

    The file is also a zip archive, as LiteRT's tools expect: `metadata.json` contains
    the task, its labels, the longest row and versions, and `labels.txt` the classes,
    one per line. `zipfile` and `unzip` read both.

    Args:
        task: A task.
        path: Path. The file to write.
        sequence_length: int. Tokens in a row, for devices that need fixed shapes;
            shorter rows are padded. Defaults to `None`, rows of any length. The number
            of rows is variable in any case.
        quantize: `"dynamic_int8"` stores matrices in int8, a quarter of the size, and
            rounds activations for each multiplication, row by row. `"fp16"` stores
            weights in float16, half the size, and computes in float32. Defaults to
            `None`.
        overwrite: bool. Whether to replace an existing file. Defaults to `False`.

    Returns:
        The path.

    Raises:
        ImportError: If TensorFlow is not installed.
        FileExistsError: If the file exists and `overwrite` is `False`.
        IsADirectoryError: If `path` is a directory.
        OSError: If the file cannot be written.
        ValueError: If an argument is invalid, or the task cannot be exported or is
            quantized to a type other than int8.
        RuntimeError: If the other process failed; the message contains the end of its
            error output.

    Example:
        >>> from keras_albert import AlbertClassifier
        >>> classifier = AlbertClassifier.from_preset(
        ...     "albert_tiny_en_uncased", labels=["bad", "good"])
        >>> classifier.export("films.tflite", format="litert")
        PosixPath('films.tflite')
    """
    return _write(task, path, sequence_length, quantize, overwrite)


def _write(
    task: AlbertTask,
    path: Path,
    sequence_length: int | None,
    quantize: str | None,
    overwrite: bool,
    bundle: Mapping[str, Any] | None = None,
    pieces: Sequence[str] = (),
) -> Path:
    """Write a LiteRT model with files, for MediaPipe if `bundle` has its options."""
    check_choice((None, "dynamic_int8", "fp16"), quantize=quantize)
    if sequence_length is not None:
        check_positive(sequence_length=sequence_length)
        longest = task.backbone.max_sequence_length
        check_at_most(longest, sequence_length=sequence_length)
    shared.check_activations(task)
    atomic_files.check_new_file(path, overwrite)
    check_packages("The LiteRT export", "tensorflow", "tensorflow")
    if bundle is not None:
        check_packages("The MediaPipe export", "mediapipe", "mediapipe")
    task = with_last_head(task)
    options = {"sequence_length": sequence_length, "quantize": quantize}
    described = shared.describe_model(task, "tokens") | options
    with atomic_files.atomic_file(path) as partial, temporary_directory(path) as preset:
        shared.float_task(task).save_to_preset(preset)
        labels = described.get("labels", ())
        extra = bundle and {**bundle, "has_labels": bool(labels)}
        arguments = str(preset), str(partial), json.dumps(options | {"bundle": extra})
        run_in_tensorflow("LiteRT model", f"{__package__}.write_litert", *arguments)
        # Appended after the model, where runtimes ignore it.
        with zipfile.ZipFile(partial, "a") as archive:
            text = json.dumps(described, indent=2, ensure_ascii=False)
            archive.writestr("metadata.json", text + "\n")
            if labels:
                archive.writestr("labels.txt", _lines(labels))
            if pieces:
                archive.writestr(_VOCABULARY, _lines(pieces))
    return path


def _lines(names: Sequence[str]) -> str:
    return "".join(f"{name}\n" for name in names)


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
    bundle = {
        "output": _OUTPUTS[type(task).__name__],
        "max_length": None if sequence_length else task.preprocessor.max_length,
        "sep": task.preprocessor.tokenizer.sep_token_id,
    }
    return _write(task, path, sequence_length, quantize, overwrite, bundle, pieces)


def _check_task(task: AlbertTask) -> Sequence[str]:
    """Return the vocabulary of a task that MediaPipe runs, or raise."""
    name = type(task).__name__
    kinds = ("is_regression", "is_multi_label")
    if name not in _OUTPUTS or any(getattr(task, kind, False) for kind in kinds):
        raise ValueError(
            "MediaPipe's text tasks are a classifier of one label per text and an "
            f'embedder. Received: {name}. Export it with format="litert", from ids, or '
            'format="onnx" with inputs="text".'
        )
    shared.check_tokenizer(task, "MediaPipe")
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
    import flatbuffers  # noqa: PLC0415
    from mediapipe.tasks.metadata import metadata_schema_py_generated as described  # noqa: PLC0415
    from mediapipe.tasks.metadata import schema_py_generated as schema  # noqa: PLC0415

    def associated(name: str, kind: int) -> Any:
        file = described.AssociatedFileT()
        file.name, file.type = name, kind
        return file

    def tensor(name: str) -> Any:
        found = described.TensorMetadataT()
        found.name = name
        return found

    kinds = described.AssociatedFileType
    content = schema.ModelT.InitFromObj(schema.Model.GetRootAs(model, 0))
    (graph,) = content.subgraphs
    names = [graph.tensors[place].name.decode() for place in graph.inputs]
    tokenizer = described.ProcessUnitT()
    tokenizer.optionsType = described.ProcessUnitOptions.BertTokenizerOptions
    tokenizer.options = described.BertTokenizerOptionsT()
    tokenizer.options.vocabFile = [associated(_VOCABULARY, kinds.VOCABULARY)]
    metadata = described.SubGraphMetadataT()
    metadata.inputTensorMetadata = [
        tensor(next(_INPUTS[key] for key in _INPUTS if key in name)) for name in names
    ]
    metadata.inputProcessUnits = [tokenizer]
    output = tensor("output")
    if has_labels:
        output.associatedFiles = [associated("labels.txt", kinds.TENSOR_AXIS_LABELS)]
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
