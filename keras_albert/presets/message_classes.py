"""Protocol buffer messages made of tables, under any protobuf.

A module that was generated for one version of protobuf refuses older ones, and the
package that it comes in may be large. A table of the fields that this package reads or
writes is enough: protobuf carries all others over as they are.
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
    """A row of the table.

    Attributes:
        number: int. The field's number.
        kind: string. `"string"`, `"bytes"`, `"bool"`, `"int32"`, `"int64"` or
            `"float"`; or the name of a message or of an enumeration.
        default: string or `None`. What stands for it where a file has none. Defaults
            to `None`.
        repeated: bool. Whether there are any number of it. Defaults to `False`.
    """

    number: int
    kind: str
    default: str | None = None
    repeated: bool = False


def message_classes(
    package: str,
    messages: Mapping[str, Mapping[str, Field]],
    enums: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Make message classes.

    Args:
        package: string. The package of all names.
        messages: Mapping of names to fields. A name behind a dot is that of a message
            within another, which stands before it.
        enums: Mapping of names, all of them within a message, to the names of the
            values from 1 on. Defaults to `None`, none.

    Returns:
        The classes, by the names of `messages`.

    Example:
        >>> from keras_albert.presets.message_classes import Field, message_classes
        >>> table = {"Point": {"x": Field(1, "int32"), "y": Field(2, "int32")}}
        >>> point = message_classes("geometry", table)["Point"](x=3, y=4)
        >>> point.SerializeToString().hex()
        '08031004'
    """
    enums = enums or {}
    # Its name is nobody's key: the pool is this package's own, so that messages which
    # a library describes too do not meet.
    file = descriptor_pb2.FileDescriptorProto(
        name=f"keras_albert/{package}.proto", package=package
    )
    made: dict[str, Any] = {}
    for name, fields in messages.items():
        parent, _, short = name.rpartition(".")
        siblings = made[parent].nested_type if parent else file.message_type
        made[name] = message = siblings.add(name=short)
        for field_name, row in fields.items():
            _add_field(message, field_name, row, package, enums)
        # Whoever has fields of their own puts them here.
        message.extension_range.add(start=200, end=536870912)
    for name, values in enums.items():
        parent, _, short = name.rpartition(".")
        enum = made[parent].enum_type.add(name=short)
        for number, value in enumerate(values, 1):
            enum.value.add(name=value, number=number)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    # A message within another is no attribute of it in protobuf's Python form.
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{package}.{name}")
        )
        for name in messages
    }


def _add_field(
    message: Any, name: str, row: Field, package: str, enums: Mapping[str, Any]
) -> None:
    label = _PROTO.LABEL_REPEATED if row.repeated else _PROTO.LABEL_OPTIONAL
    field = message.field.add(name=name, number=row.number, label=label)
    if row.kind in _KINDS:
        field.type = _KINDS[row.kind]
    else:
        field.type = _PROTO.TYPE_ENUM if row.kind in enums else _PROTO.TYPE_MESSAGE
        field.type_name = f".{package}.{row.kind}"
    if row.default is not None:
        field.default_value = row.default
