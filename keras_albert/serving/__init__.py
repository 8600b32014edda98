"""Exports for serving, and the check of an export, each imported when it is used."""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_albert.conversion.transformers_onnx import export_transformers_onnx
    from keras_albert.conversion.web_page import export_web_page
    from keras_albert.serving.litert import export_litert
    from keras_albert.serving.mediapipe import export_mediapipe
    from keras_albert.serving.onnx.export import export_onnx
    from keras_albert.serving.saved_model.export import export_saved_model
    from keras_albert.serving.servers import export_server
    from keras_albert.serving.verification import VerifiedModel, verify

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
    "VerifiedModel": "serving.verification",
    "export_litert": "serving.litert",
    "export_mediapipe": "serving.mediapipe",
    "export_onnx": "serving.onnx.export",
    "export_saved_model": "serving.saved_model.export",
    "export_server": "serving.servers",
    # They write the files of other libraries as well.
    "export_transformers_onnx": "conversion.transformers_onnx",
    "export_web_page": "conversion.web_page",
    "verify": "serving.verification",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return resolve_name(f"keras_albert.{_MODULES[name]}:{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
