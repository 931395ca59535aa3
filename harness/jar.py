"""JARs for tests: zip files with the heads of classes, since nothing runs them."""

from __future__ import annotations

import io
import zipfile

JAVA_17 = 61


def class_file(version: int = JAVA_17) -> bytes:
    """Return the start of a class file: its mark and the version of its format."""
    return b"\xca\xfe\xba\xbe\0\0" + version.to_bytes(2) + b"\0" * 8


def jar_of(*names: str, content: bytes | None = None) -> bytes:
    """Return a JAR with these entries, each a class unless `content` is set; the same bytes each time."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), class_file() if content is None else content)
    return data.getvalue()
