"""Exports for serving, and the check of an export, each imported when it is used."""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_albert.exports.litert import export_litert
    from keras_albert.exports.mediapipe import export_mediapipe
    from keras_albert.exports.onnx.export import export_onnx
    from keras_albert.exports.saved_model.export import export_saved_model
    from keras_albert.exports.servers import export_server
    from keras_albert.exports.transformers_onnx import export_transformers_onnx
    from keras_albert.exports.verification import VerifiedModel, verify
    from keras_albert.exports.web_page import export_web_page

__all__ = [
    "VerifiedModel",
    "export_litert",
    "export_mediapipe",
    "export_onnx",
    "export_saved_model",
    "export_server",
    "export_transformers_onnx",
    "export_web_page",
    "verify",
]

_MODULES = {
    "VerifiedModel": "exports.verification",
    "export_litert": "exports.litert",
    "export_mediapipe": "exports.mediapipe",
    "export_onnx": "exports.onnx.export",
    "export_saved_model": "exports.saved_model.export",
    "export_server": "exports.servers",
    # They write the files of other libraries as well.
    "export_transformers_onnx": "exports.transformers_onnx",
    "export_web_page": "exports.web_page",
    "verify": "exports.verification",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return resolve_name(f"keras_albert.{_MODULES[name]}:{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
