"""Models for servers and devices: pages of several models, and checked SavedModels.

`export` of a task writes one model, in any format of `keras_albert.tasks.table`.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_albert.exports.verification import VerifiedModel, verify
    from keras_albert.exports.web_page import export_web_page

__all__ = ["VerifiedModel", "export_web_page", "verify"]

_MODULES = {
    "VerifiedModel": "verification",
    "export_web_page": "web_page",
    "verify": "verification",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return resolve_name(f"{__name__}.{_MODULES[name]}:{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
