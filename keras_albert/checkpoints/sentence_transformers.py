"""Folders of sentence-transformers: a checkpoint of transformers and its pooling."""

from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from keras_albert.checkpoints import transformers
from keras_albert.checkpoints.config import wrong_value
from keras_albert.presets import checkpoint
from keras_albert.presets.preset_files import CONFIG_FILE
from keras_albert.presets.weight_files import Shape
from keras_albert.text.tokenizer.word_piece import is_word_piece, parse_word_piece
from keras_albert.utils.arguments import is_whole_number
from keras_albert.utils.reading import read_json, reading, write_json

_MODULES_FILE = "modules.json"
_SETTINGS_FILE = "config_sentence_transformers.json"
_LENGTH_FILE = "sentence_bert_config.json"
# Older versions named it after the architecture.
_LENGTH_FILES = (
    _LENGTH_FILE,
    "sentence_distilbert_config.json",
    "sentence_albert_config.json",
)
_POOLING_FOLDER = "1_Pooling"
_NORMALIZE_FOLDER = "2_Normalize"

_MODES = ("cls", "mean", "max")
# The former keys of a pooling's config, one for each mode.
_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


class SentenceTransformersCheckpoint(checkpoint.Checkpoint):
    """A folder of sentence-transformers, opened.

    The text embedder has the pooling, the normalization, the maximum length and the
    prompts; any other class reads the checkpoint alone.
    """

    @cached_property
    def _modules(self) -> list[tuple[str, Path]]:
        """The class and the folder of each module, in their order."""
        path = self.directory / _MODULES_FILE
        found = read_json(path, list)
        modules = []
        with reading(path):
            for module in found:
                folder = PurePosixPath(module["path"])
                if folder.is_absolute() or ".." in folder.parts:
                    raise ValueError(f"its module {module['path']!r} is outside of it")
                kind = module["type"].rpartition(".")[2]
                modules.append((kind, self.directory / folder))
            if not modules or modules[0][0] != "Transformer":
                raise ValueError("its first module is not a Transformer")
        return modules

    @cached_property
    def _inside(self) -> checkpoint.Checkpoint:
        folder = self._modules[0][1]
        files = self.files if folder == self.directory else checkpoint.Files(folder)
        for each in (transformers.TRANSFORMERS, *transformers.BERT_FAMILY):
            if each.recognizes(files):
                return each.open(files)
        transformers.refuse_other_models(files)
        raise ValueError(f"{folder} has no checkpoint of transformers.")

    @property
    def _lengths(self) -> tuple[Path, dict[str, Any]]:
        """The file of the maximum length, which may be missing, and its content."""
        files = self._inside.files
        name = next(filter(files.has, _LENGTH_FILES), _LENGTH_FILE)
        return files.directory / name, files.json(name)

    def backbone_arguments(self) -> dict[str, Any]:
        return self._inside.backbone_arguments()

    def stored_shapes(self) -> list[Shape]:
        return self._inside.stored_shapes()

    def task_name(self) -> str | None:
        return "AlbertTextEmbedder"

    def task_arguments(self, task: type) -> dict[str, Any]:
        if "AlbertTextEmbedder" not in [cls.__name__ for cls in task.__mro__]:
            return self._inside.task_arguments(task)
        kinds = [kind for kind, _ in self._modules]
        known = ["Transformer", "Pooling", "Normalize"]
        if kinds not in (known, known[:2]):
            raise ValueError(
                f"{self.directory / _MODULES_FILE} has the modules {', '.join(kinds)}. "
                "AlbertTextEmbedder reads Transformer, Pooling and, perhaps, "
                "Normalize, in this order. Load the encoder with AlbertBackbone."
            )
        settings = self.files.json(_SETTINGS_FILE)
        width = self.backbone_arguments()["hidden_dim"]
        dim = settings.get("truncate_dim")
        if is_whole_number(dim):
            # As sentence-transformers reads it.
            dim = min(dim, width)
        return {
            "pooling_mode": _pooling_mode(self._modules[1][1]),
            "normalize": "Normalize" in kinds,
            "dim": dim,
        }

    def preprocessor_arguments(self, preprocessor: type) -> dict[str, Any]:
        names = [cls.__name__ for cls in preprocessor.__mro__]
        if "AlbertTextEmbedderPreprocessor" not in names:
            return {}
        arguments: dict[str, Any] = {}
        length = self._lengths[1].get("max_seq_length")
        if length is not None:
            most = self.backbone_arguments()["max_sequence_length"]
            is_number = is_whole_number(length)
            arguments["max_sequence_length"] = (
                min(length, most) if is_number else length
            )
        settings = self.files.json(_SETTINGS_FILE)
        prompts = settings.get("prompts") or {}
        arguments["prompts"] = {name: text or "" for name, text in prompts.items()}
        arguments["default_prompt"] = settings.get("default_prompt_name")
        return arguments

    def read_vocabulary(self) -> bytes:
        vocabulary = self._inside.read_vocabulary()
        path, config = self._lengths
        lowercases = config.get("do_lower_case")
        is_words = is_word_piece(vocabulary)
        if lowercases and is_words and not parse_word_piece(vocabulary).rules.lowercase:
            expected = "false, as the vocabulary has capital letters"
            raise wrong_value(path, "do_lower_case", lowercases, expected)
        return vocabulary

    def load_weights(
        self, model: Any, keep_head: bool = False, keep_backbone: bool = False
    ) -> None:
        self._inside.load_weights(model, keep_head, keep_backbone)

    def load_backbone(self, cls: type, load_weights: bool = True, **kwargs: Any) -> Any:
        return self._inside.load_backbone(cls, load_weights, **kwargs)


class SentenceTransformersFormat(checkpoint.CheckpointFormat):
    """`modules.json`, a folder for each module, and a checkpoint of transformers."""

    name = key = "sentence-transformers"
    opened = SentenceTransformersCheckpoint

    def recognizes(self, files: checkpoint.Files) -> bool:
        return files.has(_MODULES_FILE)

    def names(self, model: Any) -> dict[str, str]:
        return transformers.TRANSFORMERS.for_model(model).names(model)

    def write(self, model: Any, directory: Path, vocabulary: bytes | None) -> None:
        if "AlbertTextEmbedder" not in [cls.__name__ for cls in type(model).__mro__]:
            raise ValueError(
                f"Export an AlbertTextEmbedder. Received: {type(model).__name__}"
            )
        transformers.TRANSFORMERS.for_model(model).write(model, directory, vocabulary)
        write_modules(model, directory)


def write_modules(model: Any, directory: Path) -> None:
    """Write what makes the model of transformers in a directory a text embedder."""
    kinds = {"": "Transformer", _POOLING_FOLDER: "Pooling"}
    if model.normalize:
        kinds[_NORMALIZE_FOLDER] = "Normalize"
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, (path, kind) in enumerate(kinds.items())
    ]
    pooling = {"word_embedding_dimension": model.backbone.hidden_dim} | {
        flag: mode == model.pooling_mode for flag, mode in _FLAGS.items()
    }
    length = model.backbone.max_sequence_length
    settings: dict[str, Any] = {"similarity_fn_name": "cosine"}
    if model.dim is not None:
        settings["truncate_dim"] = model.dim
    if (preprocessor := model.preprocessor) is not None:
        length = min(length, preprocessor.max_length)
        settings["prompts"] = preprocessor.prompts
        settings["default_prompt_name"] = preprocessor.default_prompt
    (directory / _POOLING_FOLDER).mkdir()
    for name, content in (
        (_MODULES_FILE, modules),
        (f"{_POOLING_FOLDER}/{CONFIG_FILE}", pooling),
        (_LENGTH_FILE, {"max_seq_length": length, "do_lower_case": False}),
        (_SETTINGS_FILE, settings),
    ):
        write_json(directory / name, content)


def _pooling_mode(folder: Path) -> str:
    """Return how the vectors of a text's tokens become one."""
    path = folder / CONFIG_FILE
    config = read_json(path)
    found: Any = config.get("pooling_mode")
    if found is None:
        found = [mode for flag, mode in _FLAGS.items() if config.get(flag)] or "mean"
    modes: list[Any] = found if isinstance(found, list) else [found]
    if len(modes) != 1 or modes[0] not in _MODES:
        raise wrong_value(path, "pooling_mode", found, f"one of {', '.join(_MODES)}")
    if not config.get("include_prompt", True):
        expected = "true: a prompt is a part of the text here"
        raise wrong_value(path, "include_prompt", False, expected)
    return str(modes[0])


SENTENCE_TRANSFORMERS = SentenceTransformersFormat()
