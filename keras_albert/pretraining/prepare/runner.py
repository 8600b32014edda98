"""Runs functions of `parts.py` on the workers of Apache Beam."""

import json
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Any

from keras_albert.pretraining.prepare.documents import InputPart, beam_filesystems
from keras_albert.pretraining.prepare.parts import TEMPORARY_FOLDER, path_in

# Beam appends this to error messages.
_WHERE = " [while running "


def map_parts(
    parts: Sequence[InputPart],
    work: Callable[[Any], Any],
    merge: Callable[[Any], Any],
    output: str,
    pipeline_options: Any,
) -> Any:
    """Process each part in a worker, and return the merged results, as JSON values."""
    # `work` receives the number of a part and its fields, `merge` any number of
    # results; both are of `in_worker`.
    if not parts:
        return merge([])
    import apache_beam as beam  # noqa: PLC0415
    from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415

    if not isinstance(pipeline_options, PipelineOptions):
        # In this process, as Beam's default runner tries to download a server.
        pipeline_options = PipelineOptions(
            flags=[], **{"runner": "FnApiRunner"} | dict(pipeline_options or {})
        )
    # One file, so that this process reads as much for any number of parts.
    path = path_in(output, TEMPORARY_FOLDER, f"{uuid.uuid4().hex}.json")
    try:
        with beam.Pipeline(options=pipeline_options) as pipeline:
            _ = (
                pipeline
                | "Parts" >> beam.Create([(n, astuple(p)) for n, p in enumerate(parts)])
                | "Share out" >> beam.Reshuffle()
                | "Prepare" >> beam.Map(work)
                # The default of no parts is a side input, for which Dask would
                # compute all parts again.
                | "Merge" >> beam.CombineGlobally(merge).without_defaults()
                | "Write" >> beam.Map(in_worker("write_result", output, path))
            )
    except Exception as error:
        raise _raised_by_worker(error) from error
    filesystems = beam_filesystems()
    if not filesystems.exists(path):
        raise ValueError(
            f"The workers have left no results in {path_in(output, TEMPORARY_FOLDER)}: "
            "is it on a file system that all workers share? Repeat the command with "
            "such an output."
        )
    with filesystems.open(path) as stream:
        result = json.loads(stream.read())
    filesystems.delete([path])
    return result


def in_worker(name: str, *first: Any) -> Callable[..., Any]:
    """Return a call of a function of `parts.py`, whose first arguments are given."""

    # A worker that runs it does not import Keras, which takes seconds and a gigabyte.
    # Pickled by its code, since it is not a function of a module: unpickling one of
    # this package would import the package.
    def call(*rest: Any) -> Any:
        import importlib.util  # noqa: PLC0415
        import sys  # noqa: PLC0415

        for package in (
            "keras_albert",
            "keras_albert.text",
            "keras_albert.pretraining",
        ):
            # Its modules are enough, without what the package exports.
            if package not in sys.modules:
                spec: Any = importlib.util.find_spec(package)
                sys.modules[package] = importlib.util.module_from_spec(spec)
        module = importlib.import_module("keras_albert.pretraining.prepare.parts")
        return getattr(module, name)(*first, *rest)

    return call


def _raised_by_worker(error: BaseException) -> BaseException:
    """Extract a worker's exception, including Ctrl-C, from Beam's exception."""
    while _WHERE in str(error) and error.__context__ is not None:
        error = error.__context__
    # An error of another process is a text with a traceback.
    last = re.findall(rf"^(\w+): (.*){re.escape(_WHERE)}", str(error), re.MULTILINE)
    if last:
        name, words = last[-1]
        return {"KeyboardInterrupt": KeyboardInterrupt()}.get(
            name, RuntimeError(words if name.endswith("Error") else f"{name}: {words}")
        )
    return error
