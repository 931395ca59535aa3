"""JARs for tests: zip files of classes that can be read, and not run, since they have no code."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping

JAVA_17 = 61
SCALAR = "org/apache/flink/table/functions/ScalarFunction"
_PUBLIC, _VARIADIC = 0x0001, 0x0080
_ANY_ARGUMENTS = (("eval", "([Ljava/lang/Object;)Ljava/lang/Object;", b""),)
_RETURN = {"true": b"\x04\xac", "false": b"\x03\xac"}


def class_file(
    version: int = JAVA_17,
    *,
    name: str = "A",
    extends: str = SCALAR,
    methods: tuple[tuple[str, str, bytes], ...] = _ANY_ARGUMENTS,
) -> bytes:
    """Return the file of a class with public methods: name, descriptor and byte code of each. A last parameter that is an array repeats."""
    constants: list[bytes] = []

    def constant(content: bytes) -> bytes:
        constants.append(content)
        return struct.pack(">H", len(constants))

    def text(value: str) -> bytes:
        return constant(b"\x01" + struct.pack(">H", len(value.encode())) + value.encode())

    own, parent = constant(b"\x07" + text(name)), constant(b"\x07" + text(extends))
    code_name, body = text("Code"), b""
    for method, descriptor, code in methods:
        variadic = descriptor.partition(")")[0].endswith("[Ljava/lang/Object;")
        body += struct.pack(">H", _PUBLIC | (_VARIADIC if variadic else 0)) + text(method) + text(descriptor)
        attribute = struct.pack(">HHI", 1, 1, len(code)) + code + b"\0" * 4
        body += (b"\0\x01" + code_name + struct.pack(">I", len(attribute)) + attribute) if code else b"\0\0"
    head = b"\xca\xfe\xba\xbe\0\0" + struct.pack(">HH", version, len(constants) + 1) + b"".join(constants)
    return head + b"\0\x21" + own + parent + b"\0\0\0\0" + struct.pack(">H", len(methods)) + body + b"\0\0"


def returning(value: bool) -> tuple[str, str, bytes]:
    """Return a method `isDeterministic` that returns `value`."""
    return ("isDeterministic", "()Z", _RETURN[str(value).lower()])


def jar_with(classes: Mapping[str, tuple[str, tuple[tuple[str, str, bytes], ...]]]) -> bytes:
    """Return a JAR with these classes: what each extends, and its methods."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, (extends, methods) in classes.items():
            archive.writestr(f"{name}.class", class_file(name=name, extends=extends, methods=methods))
    return data.getvalue()


def jar_of(*names: str, content: bytes | None = None) -> bytes:
    """Return a JAR with these entries, each a scalar function for any arguments unless `content` is set; the same bytes each time."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            own = class_file(name=name.removesuffix(".class")) if content is None else content
            archive.writestr(zipfile.ZipInfo(name), own)
    return data.getvalue()
