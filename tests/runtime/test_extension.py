"""The extension compiled by the compiler that pyspark ships, on the Java in use."""

from __future__ import annotations

import zipfile

import pytest

from headrace.runtime.extension import extension_jar, is_compiled

pytestmark = pytest.mark.spark


def test_the_extension_compiles_and_is_then_there() -> None:
    jar = extension_jar()
    assert is_compiled()
    names = zipfile.ZipFile(jar).namelist()
    assert any(name.startswith("io/headrace/spark/") and name.endswith(".class") for name in names)
    written = jar.stat().st_mtime_ns
    assert extension_jar().stat().st_mtime_ns == written
