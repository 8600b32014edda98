"""Folders with a page that runs models in a browser."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_albert.exports.shared import MAX_ANSWER_LENGTH
from keras_albert.exports.transformers_onnx import (
    QUANTIZED_FILE,
    check_task,
    write_folder,
)
from keras_albert.tasks.task import AlbertTask
from keras_albert.text.tokenizer.text_rules import UNSPACED
from keras_albert.utils.atomic_files import atomic_directory
from keras_albert.utils.reading import write_json

# The tasks that the page has forms for, with their headings.
_TITLES = {
    "AlbertClassifier": "Classification",
    "AlbertTokenClassifier": "Names",
    "AlbertQuestionAnswerer": "Question answering",
    "AlbertTextEmbedder": "Similarity",
    "AlbertMaskedLM": "A missing word",
}
_FILES = Path(__file__).with_name("web_page_files")
_PAGE = ("index.html", "page.css", "page.js", "answers.js")
_MODULES = "node_modules"
# The files below `node_modules` that the page loads; it computes with the first.
_RUNTIME = "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm"
_JAVASCRIPT = (
    _RUNTIME,
    "onnxruntime-web/dist/ort.wasm.bundle.min.mjs",
    "@huggingface/tokenizers/dist/tokenizers.min.mjs",
)


def export_web_page(
    task: AlbertTask | Mapping[str, AlbertTask],
    path: Path,
    javascript: str | os.PathLike[str] = ".",
) -> Path:
    """Write a page that runs a model in a browser, from texts to answers.

    A folder for any server of files: `python -m http.server --directory path`. The
    browser computes, with ONNX Runtime Web in WebAssembly, and asks no other host. The
    model is in int8. The page shows the answer, its milliseconds and the model's size;
    the answers equal `classify`, `tag`, `answer`, `embed` and `fill_mask` for one text,
    of which a tagger reads one row.

    Args:
        task: A classifier, token classifier, question answerer, text embedder or masked
            language model, with a preprocessor. Or a dict of several by their headings,
            for one page.
        path: Path. The directory to write. It replaces an earlier export.
        javascript: string or path. A directory whose `node_modules` contain
            onnxruntime-web and @huggingface/tokenizers, which `npm install
            --ignore-scripts --prefix DIRECTORY @huggingface/transformers@4` installs;
            three files of them are copied. Defaults to `"."`.

    Returns:
        The path.

    Raises:
        ImportError: If onnx or onnxscript is not installed.
        FileNotFoundError: If `javascript` does not have the files.
        NotADirectoryError: If `path` is a file.
        OSError: If the directory cannot be written.
        ValueError: If the page has no form for a task, or a task cannot be exported
            with `format="transformers_onnx"`.

    Example:
        >>> from keras_albert import AlbertClassifier
        >>> classifier = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
        >>> classifier.export(
        ...     "page", format="web_page", javascript="js")
        PosixPath('page')
    """
    models = {"": task} if isinstance(task, AlbertTask) else dict(task)
    for each in models.values():
        if type(each).__name__ not in _TITLES:
            raise ValueError(
                f"The page has no form for {type(each).__name__}. It has forms for: "
                f"{', '.join(_TITLES)}. Export this one with "
                'format="transformers_onnx" for transformers.js.'
            )
        check_task(each)
    files = _javascript_files(Path(javascript))
    with atomic_directory(path, _drop_models) as folder:
        (folder / "javascript").mkdir()
        for file in files:
            shutil.copyfile(file, folder / "javascript" / file.name)
        for name in _PAGE:
            shutil.copyfile(_FILES / name, folder / name)
        described = []
        for number, (title, each) in enumerate(models.items()):
            place = f"models/{number}"
            (folder / place).mkdir(parents=True)
            write_folder(each, folder / place, (QUANTIZED_FILE,))
            size = (folder / place / QUANTIZED_FILE).stat().st_size
            described.append(
                {"folder": place, "bytes": size, **_facts(each)}
                | {"title": title or _TITLES[type(each).__name__]}
            )
        content = {"runtime_bytes": files[0].stat().st_size, "models": described}
        write_json(folder / "models.json", content)
    return path


def _javascript_files(directory: Path) -> list[Path]:
    files = [directory / _MODULES / name for name in _JAVASCRIPT]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(
            f"There is no {missing[0]}, which the page runs. Install it with npm, and "
            "pass its directory as `javascript`: npm install --ignore-scripts --prefix "
            f"{directory} @huggingface/transformers@4"
        )
    return files


def _drop_models(written: Path, target: Path) -> Any:
    """Plan an `atomic_directory`: models of an earlier page go, other files stay."""
    return lambda name: name.startswith("models/")


def _facts(task: AlbertTask) -> dict[str, Any]:
    """Return what the page must know of a task, besides the folder's files."""
    preprocessor = task.preprocessor
    facts: dict[str, Any] = {
        "task": type(task).__name__,
        "max_length": min(preprocessor.max_length, task.backbone.max_sequence_length),
    }
    for owner, settings in (
        (preprocessor, ("max_query_length", "doc_stride", "label_all_pieces")),
        (task, ("null_threshold", "pooling_mode")),
    ):
        facts |= {key: getattr(owner, key) for key in settings if hasattr(owner, key)}
    if facts["task"] == "AlbertTokenClassifier":
        facts["unspaced"] = UNSPACED
    if facts["task"] == "AlbertQuestionAnswerer":
        facts["max_answer_length"] = MAX_ANSWER_LENGTH
    if facts["task"] == "AlbertTextEmbedder":
        default = preprocessor.default_prompt
        facts["prompt"] = preprocessor.prompts[default] if default else ""
    return facts
