"""Exports for serving; importing this package registers the export formats."""

from keras_albert.serving.litert.export import export_litert
from keras_albert.serving.onnx.export import export_onnx
from keras_albert.serving.saved_model.export import export_saved_model
from keras_albert.serving.verification import VerifiedModel, verify
from keras_albert.tasks.base.export_formats import register_export

register_export("tf_saved_model", export_saved_model)
register_export("onnx", export_onnx)
register_export("litert", export_litert)

__all__ = [
    "VerifiedModel",
    "export_litert",
    "export_onnx",
    "export_saved_model",
    "verify",
]
