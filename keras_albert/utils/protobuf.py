"""Protocol buffer message classes from tables, for any version of protobuf.

A module generated for one version of protobuf refuses older ones, and the package that
contains it may be large. A table of the fields that this package reads or writes is
enough: protobuf preserves all others.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PROTO = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "bool": _PROTO.TYPE_BOOL,
    "bytes": _PROTO.TYPE_BYTES,
    "float": _PROTO.TYPE_FLOAT,
    "int32": _PROTO.TYPE_INT32,
    "int64": _PROTO.TYPE_INT64,
    "string": _PROTO.TYPE_STRING,
}


class Field(NamedTuple):
    """A field of a message."""

    # `kind` is a type, or the name of a message or of an enumeration.

    number: int
    kind: str
    default: str | None = None
    repeated: bool = False


def message_classes(
    package: str,
    messages: Mapping[str, Mapping[str, Field]],
    enums: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Create message classes."""
    # A dotted name is a nested message, after its parent; values of enums are numbered
    # from 1.
    enums = enums or {}
    # The pool is separate, so that messages which a library describes as well do not
    # conflict; the name of the file is arbitrary.
    file = descriptor_pb2.FileDescriptorProto(
        name=f"keras_albert/{package}.proto", package=package
    )
    made: dict[str, Any] = {}
    for name, fields in messages.items():
        parent, _, short = name.rpartition(".")
        siblings = made[parent].nested_type if parent else file.message_type
        made[name] = message = siblings.add(name=short)
        for field_name, row in fields.items():
            label = _PROTO.LABEL_REPEATED if row.repeated else _PROTO.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=row.number, label=label)
            if row.kind in _KINDS:
                field.type = _KINDS[row.kind]
            else:
                is_enum = row.kind in enums
                field.type = _PROTO.TYPE_ENUM if is_enum else _PROTO.TYPE_MESSAGE
                field.type_name = f".{package}.{row.kind}"
            if row.default is not None:
                field.default_value = row.default
        # The range for custom fields.
        message.extension_range.add(start=200, end=536870912)
    for name, values in enums.items():
        parent, _, short = name.rpartition(".")
        enum = made[parent].enum_type.add(name=short)
        for number, value in enumerate(values, 1):
            enum.value.add(name=value, number=number)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    # In protobuf's Python API, a nested message is not an attribute of its parent.
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{package}.{name}")
        )
        for name in messages
    }
