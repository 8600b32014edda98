"""`keras-albert convert`, `export`, `verify` and `push`: models for other programs."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from keras_albert.checkpoints.convert import class_of, convert_checkpoint, load_task
from keras_albert.cli.commands import Convert, Export, Push, Verify
from keras_albert.cli.console import plain_console
from keras_albert.exports.verification import verify as verify_export
from keras_albert.presets.checkpoint import Checkpoint, open_checkpoint
from keras_albert.presets.handles import CARD_FILE, local_directory, push_files
from keras_albert.tasks.table import TASKS, check_export_options, format_of_path
from keras_albert.training import model_card
from keras_albert.utils.arguments import argument_error
from keras_albert.utils.remote import address_of, list_files


def convert(options: Convert) -> None:
    """Run `keras-albert convert`."""
    done = convert_checkpoint(
        options.source,
        options.target,
        options.to,
        task=options.task,
        with_vocabulary=not options.without_vocabulary,
    )
    console = plain_console()
    table = Table("weight", "source", "target", "shape", title=done.model)
    for path, source, target, shape in done.weights:
        table.add_row(path, source, target or "(left out)", "x".join(map(str, shape)))
    console.print(table)
    for reader, difference in done.differences.items():
        console.print(f"{reader}: largest difference {difference:.2e}", highlight=False)
    place = address_of(options.target) or options.target
    console.print(f"{place}: {options.to}", highlight=False)


def export(options: Export) -> None:
    """Run `keras-albert export`."""
    # By identity: 0 equals `False`, and a version may be 0.
    given = {
        k: x for k, x in asdict(options).items() if x is not None and x is not False
    }
    for name in ("preset", "path", "format", "task"):
        given.pop(name, None)
    name = options.format or format_of_path(options.path)
    check_export_options(name, options.path, given)
    task = load_task(options.preset, options.task)
    written: Path = task.export(options.path, format=name, **given)
    if address := address_of(written):
        size = sum(file["size"] for file in list_files(address).values())
    else:
        files = [p for p in (written, *written.rglob("*")) if p.is_file()]
        size = sum(file.stat().st_size for file in files)
    print(f"{address or written}: {type(task).__name__}, {size / 1e6:,.1f} MB")


def verify(options: Verify) -> None:
    """Run `keras-albert verify`."""
    model = verify_export(options.directory, options.python)
    console = plain_console()
    table = Table("signature", "", "name", "dtype", "shape", title=str(model.directory))
    for name, signature in model.signatures.items():
        for kind, specs in (("in", signature.inputs), ("out", signature.outputs)):
            for key, spec in specs.items():
                shape = ", ".join("?" if n is None else str(n) for n in spec.shape)
                table.add_row(name, kind, key, spec.dtype, f"({shape})")
    console.print(table)
    served = model.directory.parent.name
    print(f"\nREST: POST http://localhost:8501/v1/models/{served}:predict")
    print(*model.rest.values(), sep="\n")
    print("\ngRPC: tensorflow.serving.PredictionService/Predict at localhost:8500")
    print(*model.grpc.values(), sep="\n")
    print(
        f"\n{model.directory}: {len(model.operations)} operations, all of them a stock "
        f"server's; {model.requests} warm-up requests answered, the largest difference "
        f"{model.largest_difference:.1e}"
    )


# The hub's names of libraries, as the formats of checkpoints begin.
_LIBRARIES = ("sentence-transformers", "transformers", "keras-hub")


def push(options: Push) -> None:
    """Run `keras-albert push`."""
    directory = local_directory(options.directory) or options.directory
    checkpoint = open_checkpoint(directory)
    checkpoint.check()
    model = options.handle.removeprefix("hf://")
    has_card = (directory / CARD_FILE).is_file()
    card = _read_card(checkpoint, model, options)
    key = options.to or checkpoint.format.key
    library = next((each for each in _LIBRARIES if key.startswith(each)), None)
    handle = options.handle
    if options.revision is not None:
        handle += f"@{options.revision}"
    card = model_card.published_card(card, handle, library)
    with tempfile.TemporaryDirectory() as temporary:
        pushed = directory
        if options.to is not None:
            pushed = Path(temporary, "files")
            convert_checkpoint(directory, pushed, options.to)
        files = _files_of(pushed)
        if has_card:
            # Its pictures are next to it.
            files |= {path.name: path for path in sorted(directory.glob("*.png"))}
        place: Any = {"private": options.private, "revision": options.revision}
        push_files(files, model, card, keep_card=not has_card, **place)
        size = sum(path.stat().st_size for path in files.values())
    print(f"{handle}: {len(files) + 1} files, {size / 1e6:,.1f} MB")
    print(f'{class_of(checkpoint).__name__}.from_preset("{handle}")')


def _read_card(checkpoint: Checkpoint, model: str, options: Push) -> str:
    """Return the card of a directory, or a new one."""
    declared = model_card.CardMetadata.of(asdict(options))
    path = checkpoint.directory / CARD_FILE
    if path.is_file():
        if declared != model_card.CardMetadata():
            given = next(name for name in model_card.ON_CARD if getattr(declared, name))
            raise argument_error(
                given, f"{path} is the model card: change its metadata there."
            )
        return path.read_text(encoding="utf-8")
    if declared.license is None:
        raise ValueError(
            f"{checkpoint} has no model card, {CARD_FILE}. Write one, or pass "
            "--license for a short one."
        )
    cls = class_of(checkpoint)
    row = TASKS.get(cls.__name__)
    tag = row.pipeline_tag if row else "feature-extraction"
    name = model.rpartition("/")[2]
    code = model_card.usage(cls.__name__, row.use if row else "")
    facts: Any = {"tags": [], "scores": {}, "evaluated_on": "", "preset": None}
    return model_card.write_card(
        *(name, "", code, declared), name=name, pipeline_tag=tag, **facts
    )


def _files_of(directory: Path) -> dict[str, Path]:
    """Return the files of a directory by their names, except hidden ones."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    names = [path.relative_to(directory) for path in files]
    return {
        name.as_posix(): path
        for name, path in zip(names, files, strict=True)
        if not any(x.startswith(".") for x in name.parts) and name != Path(CARD_FILE)
    }
