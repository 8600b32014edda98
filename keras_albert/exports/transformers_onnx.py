"""Folders of ONNX models that programs for transformers' models read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_albert.checkpoints.config import label_config, size_config
from keras_albert.checkpoints.sentence_transformers import write_modules
from keras_albert.checkpoints.tokenizer_json import write_tokenizer_files
from keras_albert.checkpoints.transformers_names import BERT
from keras_albert.exports import shared
from keras_albert.exports.onnx.export import check_onnx, write_onnx
from keras_albert.presets.preset_files import CONFIG_FILE, refuse_mixing
from keras_albert.tasks.task import AlbertTask
from keras_albert.text.tokenizer.word_piece import ROLES
from keras_albert.utils.atomic_files import atomic_directory
from keras_albert.utils.reading import write_json

# Where clients look for the model in float32 and in int8.
_FILE = "onnx/model.onnx"
QUANTIZED_FILE = "onnx/model_quantized.onnx"


def export_transformers_onnx(task: AlbertTask, path: Path) -> Path:
    """Write a folder for transformers.js, Optimum, sentence-transformers and others.

    The folder has the layout of ONNX models on the Hugging Face Hub:

    - `onnx/model.onnx`, in float32, and `onnx/model_quantized.onnx`, in int8. Their
      inputs are transformers': `input_ids`, `attention_mask` and `token_type_ids`,
      int64. So are their outputs: `logits`, of a question answerer `start_logits` and
      `end_logits`, and of an embedder `last_hidden_state`.
    - `tokenizer.json`, `tokenizer_config.json` and `special_tokens_map.json`.
    - `config.json`. Its `model_type` is "bert", which all clients know, with any of
      these tasks: BERT's models have the same inputs and outputs. The folder has no
      weights for transformers itself, see `export_to_transformers`.
    - Of an embedder also the files of sentence-transformers, with its pooling, its
      normalization and its prompts. With `inverse_frequency`, the vectors of tokens
      are weighted in the graph.

    Clients truncate texts to the maximum length of the preprocessor's rows.

    Args:
        task: A task with a preprocessor. An `AlbertPretrainer` is written as a masked
            language model.
        path: Path. The directory to write. It replaces an earlier export.

    Returns:
        The path.

    Raises:
        ImportError: If onnx or onnxscript is not installed.
        FileExistsError: If the directory has files of another checkpoint.
        NotADirectoryError: If `path` is a file.
        OSError: If the directory cannot be written.
        ValueError: If the task has no preprocessor, or a head or an activation that
            such clients do not have.

    Example:
        >>> from keras_albert import AlbertClassifier
        >>> classifier = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
        >>> classifier.export("films", format="transformers_onnx")
        PosixPath('films')
    """
    check_task(task)
    with atomic_directory(path, refuse_mixing) as folder:
        write_folder(task, folder, (_FILE, QUANTIZED_FILE))
    return path


def check_task(task: AlbertTask) -> None:
    """Raise if a task cannot be written, for any of the reasons in the docstring."""
    shared.check_tokenizer(task, "The folder")
    _config(task)
    check_onnx()


def write_folder(task: AlbertTask, folder: Path, models: Sequence[str]) -> None:
    """Write the files of a task that was checked, with some of the two models."""
    preprocessor = task.preprocessor
    length = min(preprocessor.max_length, task.backbone.max_sequence_length)
    tokenizer = write_tokenizer_files(folder, preprocessor.tokenizer.proto, length)
    special = {role: tokenizer[role] for role in ROLES}
    write_json(folder / CONFIG_FILE, _config(task))
    write_json(folder / "special_tokens_map.json", special)
    if type(task).__name__ == "AlbertTextEmbedder":
        write_modules(task, folder)
    (folder / "onnx").mkdir()
    for name in models:
        quantize = name == QUANTIZED_FILE
        write_onnx(task, folder / name, "transformers", quantize=quantize)


def _config(task: AlbertTask) -> dict[str, Any]:
    if getattr(task, "head", None) == "conditional":
        raise ValueError(
            "transformers' question answerers score starts and ends independently. "
            "Received a question answerer with head='conditional'. Export it with "
            'format="onnx", or train one with head="independent".'
        )
    name = shared.row_of(task).name.replace("Pretrainer", "MaskedLM")
    (foreign,) = (head.foreign for head in BERT.heads if head.task == name)
    special = task.preprocessor.tokenizer
    return {
        "architectures": [foreign],
        "model_type": BERT.model_type,
        **size_config(task.backbone),
        "pad_token_id": special.pad_token_id,
        "dtype": "float32",
        **label_config(task),
    }
