"""Pushing the files of a model to the Hugging Face Hub."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_albert.presets.checkpoint_exports import is_checkpoint_file
from keras_albert.presets.handles import check_reachable, hugging_face_host

CARD_FILE = "README.md"

_NO_TOKEN = "Run `hf auth login`, or set HF_TOKEN to a token with write access."  # noqa: S105
_REMEDIES = {
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
        found = _find(api, model, revision)
        there = {each.rfilename for each in getattr(found, "siblings", None) or ()}
        _check_model(model, there - files.keys(), private, found)
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


def _find(api: Any, model: str, revision: str | None) -> Any:
    """Return what the hub knows of a model, or `None`."""
    from huggingface_hub import errors  # noqa: PLC0415

    try:
        return api.model_info(model, revision=revision)
    except errors.RevisionNotFoundError:
        # A new branch begins with the files of the main one.
        return api.model_info(model)
    except errors.RepositoryNotFoundError:
        return None


def _check_model(model: str, beside: set[str], private: bool, found: Any) -> None:
    if private and getattr(found, "private", None) is False:
        raise ValueError(
            f"hf://{model} is public, and `private` applies to new models only. Make "
            "it private in its settings on the hub, or push to another model."
        )
    if mixed := sorted(filter(is_checkpoint_file, beside)):
        raise ValueError(
            f"hf://{model} has files of another checkpoint, which would be mixed with "
            f"this one: {', '.join(mixed[:9])}. Push to another model or `revision`, "
            "or remove these files on the hub."
        )


@contextmanager
def _answered(model: str) -> Iterator[None]:
    """Say in one sentence what the hub answered, and what to do."""
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415

    failed = f"Could not push to hf://{model}: {hugging_face_host()}"
    try:
        yield
    except Exception as error:
        # Threads that upload wrap what they caught.
        cause: BaseException = error
        while cause.__cause__ is not None and not isinstance(cause, HfHubHTTPError):
            cause = cause.__cause__
        if isinstance(cause, HfHubHTTPError):
            status = getattr(cause.response, "status_code", 0)
            said = getattr(cause, "server_message", None)
            answer = f"{status} ({said.rstrip('.')})" if said else status
            remedy = _REMEDIES.get(status, "Try again later.")
            raise ConnectionError(f"{failed} answered {answer}. {remedy}") from error
        if isinstance(error, ValueError):
            raise
        line, *_ = str(cause).splitlines() or [""]
        raise ConnectionError(
            f"{failed} could not be reached ({type(cause).__name__}: {line}). Check "
            "the connection."
        ) from error
