"""Built-in names and other handles of presets, and their local directories."""

import difflib
import os
import re
import socket
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import keras_hub

from keras_albert.presets.preset_files import is_checkpoint_file
from keras_albert.utils.atomic_files import former_directory
from keras_albert.utils.remote import fetch, is_remote


@dataclass(frozen=True)
class BuiltinPreset:
    """A model that `from_preset` finds by name."""

    name: str
    # `None` for a directory in this package.
    handle: str | None
    size: str
    version: int
    parameters: int


# By KerasHub's word for the size: our word, the version on Kaggle Models, with which
# cached files are found without a request to the server, and the parameters.
_RELEASED = {
    "base": ("base", 5, 11_683_584),
    "large": ("large", 3, 17_683_968),
    "extra_large": ("xlarge", 3, 58_724_864),
    "extra_extra_large": ("xxlarge", 3, 222_595_584),
}


def _builtin_presets() -> Iterator[BuiltinPreset]:
    # KerasHub's presets: the v2 weights.
    for long, (size, number, parameters) in _RELEASED.items():
        name = f"albert_{long}_en_uncased"
        handle = f"kaggle://keras/albert/keras/{name}/{number}"
        yield BuiltinPreset(name, handle, size, 2, parameters)
    # All eight released models, on the Hugging Face Hub.
    for version in (1, 2):
        for size, _, parameters in _RELEASED.values():
            name = f"albert_{size}_v{version}_en_uncased"
            handle = f"hf://albert/albert-{size}-v{version}"
            yield BuiltinPreset(name, handle, size, version, parameters)
    # In the package, made by `examples/albert_tiny.py` and `albert_small.py`.
    yield BuiltinPreset("albert_tiny_en_uncased", None, "tiny", 1, 3_514_624)
    for use in ("", "_sst2", "_ner", "_squad"):
        name = f"albert_small_en_uncased{use}"
        yield BuiltinPreset(name, None, "small", 1, 9_855_360)


BUILTIN_PRESETS = {preset.name: preset for preset in _builtin_presets()}


# KerasHub knows no preset of another scheme.
_HUBS = ("hf://", "kaggle://", "modelscope://")
_CONNECT_SECONDS = 5
# All files of a checkpoint, except for weights in the forms of `_LAST`.
_CHECKPOINT_FILES = (
    *("*.json", "*.safetensors", "*.model", "*.spm", "*.h5", "*.txt"),
    *("*.index", "*.data-?????-of-?????"),
)
# Downloaded only where there are no others: pickles, and the weights of
# transformers' former TensorFlow classes.
_LAST = ("pytorch_model*.bin", "tf_model.h5")
_WEIGHTS = ("*.safetensors", "*.h5", "*.index", _LAST[0])


# The remedies of errors of the Hugging Face Hub, by the names of the errors.
_LOG_IN = "log in (`hf auth login`, or the variable HF_TOKEN)."
_REMEDIES = {
    "RepositoryNotFoundError": f"There is no such model, or it is private: {_LOG_IN}",
    "GatedRepoError": f"Accept the terms of the model on its page, and {_LOG_IN}",
    "RevisionNotFoundError": "The model has no such revision: correct it after the @.",
}


def local_directory(handle: str | os.PathLike[str]) -> Path | None:
    """Return the directory of a handle, downloading it if necessary."""
    origin = name = os.fspath(handle)
    if model := re.match(r"https?://huggingface\.co/([\w.-]+/[\w.-]+)", name):
        msg = f"{name} is a page. Pass the handle of its model, 'hf://{model[1]}'."
        raise ValueError(msg)
    if not name.startswith(_HUBS):
        directory = fetch(handle)
        if directory.is_dir():
            _check_no_run(directory)
            return directory
        if is_remote(handle):
            raise NotADirectoryError(f"{name} is a file. Pass its directory.")
        # The old directory of a save that died while replacing it.
        former = former_directory(directory)
        if former.is_dir():
            return former
    if name in BUILTIN_PRESETS:
        preset = BUILTIN_PRESETS[name]
        if preset.handle is None:
            return Path(__file__).with_name(name)
        origin = preset.handle
    scheme, _, rest = origin.partition("://")
    if scheme == "hf":
        return _fetch(name, origin, hugging_face_host(), partial(_from_hf, rest))
    if scheme == "kaggle":
        return _fetch(name, origin, "api.kaggle.com", partial(_from_kaggle, rest))
    if rest:
        return None
    msg = f"{name!r} is neither an existing directory nor a built-in name. "
    raise ValueError(f"{msg}{_next_step(name)}")


def _check_no_run(directory: Path) -> None:
    """Raise for the directory of a run, whose preset is a directory in it."""
    made_by_run = [directory / "preset", directory / "training" / "last.safetensors"]
    if any(map(Path.exists, made_by_run)) and not any(directory.glob("*config.json")):
        raise ValueError(
            f"{directory} is the output of a run. Pass {made_by_run[0]}; if the run is "
            "unfinished, repeat the command first."
        )


def _next_step(name: str) -> str:
    """Return what to pass instead of an unknown name."""
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not Path(name).parent.exists():
        return f"For a model of the Hugging Face Hub, pass 'hf://{name}'."
    if Path(name).is_file():
        return f"It is a file: pass its directory, {str(Path(name).parent)!r}."
    if of_keras_hub := keras_hub.models.Backbone.presets.get(name):
        return f"For KerasHub's model, pass {of_keras_hub['kaggle_handle']!r}."
    if close := difflib.get_close_matches(name.lower(), BUILTIN_PRESETS, n=1):
        return f"Did you mean {close[0]!r}?"
    return (
        "Pass a local directory, 'hf://user/model', "
        "'kaggle://user/model/keras/variation', or one of: "
        f"{', '.join(BUILTIN_PRESETS)}."
    )


def _from_hf(model: str, cached_only: bool) -> str:
    import huggingface_hub  # noqa: PLC0415  (slow to import, and rarely needed)

    repository, _, revision = model.partition("@")
    found = ""
    for others in ((), *((name,) for name in _LAST)):
        if found and any(any(Path(found).glob(each)) for each in _WEIGHTS):
            break
        found = huggingface_hub.snapshot_download(
            repository,
            revision=revision or None,
            allow_patterns=[*_CHECKPOINT_FILES, *others],
            ignore_patterns=[name for name in _LAST if name not in others],
            local_files_only=cached_only,
            endpoint=os.environ.get("HF_ENDPOINT"),
        )
    return found


def _from_kaggle(model: str, cached_only: bool) -> str:
    import kagglehub  # noqa: PLC0415

    cache = os.environ.get("KAGGLEHUB_CACHE", "~/.cache/kagglehub")
    if cached_only and not Path(cache, "models", model).expanduser().is_dir():
        raise FileNotFoundError(model)
    return kagglehub.model_download(model)


def _fetch(name: str, origin: str, host: str, download: Callable[[bool], str]) -> Path:
    try:
        return Path(download(True))
    except Exception:  # noqa: S110  (not in the cache; the types of errors vary)
        pass
    try:
        # The hubs' libraries retry for half a minute before they raise.
        check_reachable(host)
        return Path(download(False))
    except Exception as error:
        kind, (line, *_) = type(error).__name__, f"{error}".splitlines() or [""]
        remedy = _REMEDIES.get(
            kind,
            "Check the connection and the handle; or copy the files from a machine "
            "with a network: from_preset('path/to/directory').",
        )
        raise ConnectionError(
            f"Could not load {name!r}: it is not in the local cache, and {origin} "
            f"could not be downloaded from {host} ({kind}: {line}). {remedy}"
        ) from error


def check_reachable(address: str) -> None:
    """Raise within seconds if there is no network."""
    if "https" in urllib.request.getproxies():
        return  # Only the proxy can check.
    host, _, port = address.partition(":")
    place = host, int(port or 443)
    socket.create_connection(place, timeout=_CONNECT_SECONDS).close()


def hugging_face_host() -> str:
    """Return the name of the hub's server, with its port if that is not 443."""
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    found = urllib.parse.urlparse(endpoint)
    port = found.port or (80 if found.scheme == "http" else 443)
    host = found.hostname or "huggingface.co"
    return host if port == 443 else f"{host}:{port}"


CARD_FILE = "README.md"

_NO_TOKEN = "Run `hf auth login`, or set HF_TOKEN to a token with write access."  # noqa: S105
_PUSH_REMEDIES = {
    401: f"It does not accept your token. {_NO_TOKEN}",
    403: f"Your token may not write there. {_NO_TOKEN}",
    404: "There is no such user, organization or model: check the handle.",
}


def push_files(
    files: Mapping[str, Path],
    model: str,
    card: str,
    keep_card: bool = False,
    private: bool = False,
    revision: str | None = None,
) -> None:
    """Commit files to a model of the hub, which is created if there is none."""
    import huggingface_hub as hub  # noqa: PLC0415  (slow to import, rarely needed)

    if hub.get_token() is None:
        msg = f"Could not push to hf://{model}: you are not logged in. {_NO_TOKEN}"
        raise PermissionError(msg)
    with _answered(model):
        check_reachable(hugging_face_host())
        api: Any = hub.HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
        try:
            found = api.model_info(model, revision=revision)
        except hub.errors.RevisionNotFoundError:
            # A new branch starts with the files of the main one.
            found = api.model_info(model)
        except hub.errors.RepositoryNotFoundError:
            found = None
        there = {each.rfilename for each in getattr(found, "siblings", None) or ()}
        if private and getattr(found, "private", None) is False:
            raise ValueError(
                f"hf://{model} is public, and `private` applies to new models only. "
                "Change its settings on the hub."
            )
        if mixed := sorted(filter(is_checkpoint_file, there - files.keys())):
            raise ValueError(
                f"hf://{model} has files of another checkpoint: "
                f"{', '.join(mixed[:9])}. Push to another model or "
                "`revision`, or remove them on the hub."
            )
        operations = [
            hub.CommitOperationAdd(name, os.fspath(path))
            for name, path in files.items()
        ]
        if not (keep_card and CARD_FILE in there):
            operations.append(hub.CommitOperationAdd(CARD_FILE, card.encode()))
        if found is None:
            api.create_repo(model, private=private or None)
        if revision is not None:
            api.create_branch(model, branch=revision, exist_ok=True)
        message = "Upload with keras_albert"
        api.create_commit(model, operations, commit_message=message, revision=revision)


@contextmanager
def _answered(model: str) -> Iterator[None]:
    """Say in one sentence what the hub answered, and what to do."""
    try:
        yield
    except Exception as error:
        # Threads that upload wrap what they caught.
        cause: Any = error
        while cause.__cause__ is not None and not hasattr(cause, "response"):
            cause = cause.__cause__
        response = getattr(cause, "response", None)
        if response is None and isinstance(error, ValueError):
            raise
        status = getattr(response, "status_code", 0)
        said = getattr(cause, "server_message", None) or cause
        line, *_ = str(said).splitlines() or [""]
        remedy = _PUSH_REMEDIES.get(status, "Check the connection, and try again.")
        raise ConnectionError(
            f"Could not push to hf://{model}: {hugging_face_host()} answered "
            f"{status or type(cause).__name__} ({line.rstrip('.')}). {remedy}"
        ) from error
