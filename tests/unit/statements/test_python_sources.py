"""Function sources in Python: modules, wheels and lists of requirements, and what is refused of them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import pytest

from harness.session import ADMINISTRATOR, Session
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.statements.python_package import check_requirements, check_wheel

MODULE = b"def double(x):\n    return 2 * x\n\nclass Total:\n    def accumulate(self, x): pass\n    def finish(self): return 1\n"
HASH = f"--hash=sha256:{'ab' * 32}"


def wheel(entries: Mapping[str, bytes], *, link: str | None = None) -> bytes:
    """Return a wheel with these files; `link` is one that is a symbolic link."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o120777 if name == link else 0o100644) << 16
            archive.writestr(entry, content)
    return data.getvalue()


async def create(session: Session, text: str, **files: bytes) -> None:
    named = {name.replace("_", "."): data for name, data in files.items()}
    await session.service.execute(text, principal=ADMINISTRATOR, context=session.context, files=named)


async def test_a_function_is_in_a_module_or_in_a_wheel(session: Session) -> None:
    await create(session, "CREATE FUNCTION_SOURCE m WITH ('file' = '@x/m.py')", m_py=MODULE)
    package = wheel({"tools/__init__.py": b"", "tools/numbers.py": MODULE, "tools-1.dist-info/WHEEL": b""})
    await create(session, "CREATE FUNCTION_SOURCE w WITH ('file' = '@w.whl')", w_whl=package)
    await session.run(
        "CREATE FUNCTION double(x BIGINT) RETURNS BIGINT LANGUAGE PYTHON WITH ('source.name' = m);"
        "CREATE FUNCTION total(x BIGINT) RETURNS BIGINT LANGUAGE PYTHON WITH ('source.name' = w, 'handler' = 'tools.numbers.Total')"
    )
    kinds = await session.rows(
        "SELECT name, kind, source_name FROM deltastream.sys.functions WHERE source_name IN ('m', 'w') ORDER BY name"
    )
    assert kinds == [("double", "scalar", "m"), ("total", "aggregate", "w")]
    described = dict(await session.rows("DESCRIBE FUNCTION_SOURCE w"))
    assert (described["language"], described["classes"]) == ("Python", "0")
    for text, state, message in (
        (
            "LANGUAGE PYTHON WITH ('source.name' = w, 'handler' = 'tools.other.f')",
            "3D017",
            "no module tools.other",
        ),
        ("LANGUAGE PYTHON WITH ('source.name' = w)", "3D017", "no module for the function"),
        (
            "LANGUAGE PYTHON WITH ('source.name' = m, 'handler' = 'triple')",
            "3D017",
            "no function or class triple",
        ),
        ("LANGUAGE PYTHON WITH ('source.name' = u)", "42804", "the function source u is in Java"),
        (
            "LANGUAGE JAVA WITH ('source.name' = m, 'class.name' = 'a.B')",
            "42804",
            "the function source m is in Python",
        ),
        ("LANGUAGE PYTHON AS 'def f(x): return x' WITH ('source.name' = m)", "3D008", "source.name"),
    ):
        with pytest.raises(UserError) as caught:
            await session.run(f"CREATE FUNCTION f(x BIGINT) RETURNS BIGINT {text}")
        assert (caught.value.state.value, message in caught.value.message) == (state, True), caught.value
    with pytest.raises(UserError) as caught:
        await session.run("DROP FUNCTION_SOURCE m")
    assert caught.value.state is SqlState.DEPENDENT_OBJECTS_EXIST


async def test_requirements_are_refused_unless_the_operator_allows_them(session: Session) -> None:
    text = "CREATE FUNCTION_SOURCE m WITH ('file' = '@m.py', 'requirements' = '@r.txt')"
    with pytest.raises(UserError, match="cannot require packages") as caught:
        await create(session, text, m_py=MODULE, r_txt=f"a==1 {HASH}".encode())
    assert "HEADRACE_FUNCTIONS_REQUIREMENTS" in (caught.value.hint or "")
    for second in ("lib", "requirements"):
        name = "m.py" if second == "lib" else "x.jar"
        with pytest.raises(UserError, match="left out: the file is in"):
            await create(
                session,
                f"CREATE FUNCTION_SOURCE m WITH ('file' = '@{name}', '{second}' = '@r.txt')",
                m_py=MODULE,
            )


def test_a_wheel_that_would_be_of_many_megabytes_is_refused_before_it_is_read() -> None:
    data = bytearray(wheel({"a.py": b"", "b.bin": b""}))
    last = data.rindex(b"PK\x01\x02")
    data[last + 24 : last + 28] = (600 << 20).to_bytes(4, "little")
    with pytest.raises(UserError, match="629145600 bytes when unpacked"):
        check_wheel(bytes(data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no zip", "cannot be read as a zip file"),
        (wheel({"a.txt": b""}), "contains no module"),
        (wheel({"../a.py": b""}), "points outside the wheel"),
        (wheel({"/etc/a.py": b""}), "points outside the wheel"),
        (wheel({"a.py": b"/etc/passwd"}, link="a.py"), "is a symbolic link"),
        (wheel({"a.py": b"", "b.cpython-312-x86_64-linux-gnu.so": b""}), "contains native code"),
    ],
)
def test_a_wheel_that_is_hostile_or_native_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_wheel(data)


def test_requirements_are_names_with_versions_and_hashes() -> None:
    check_requirements(
        f"# made by uv\nsix==1.17.0 \\\n    {HASH} \\\n    {HASH}\n\nidna[all]==3.7 ; python_version >= '3.8' {HASH}  # x\n".encode()
    )
    for line in (
        "six",
        "six==1.17.0",
        f"six>=1.0 {HASH}",
        f"six @ file:///etc/passwd {HASH}",
        f"https://example.com/six.whl {HASH}",
        "--index-url https://evil.example.com/",
        "-r /etc/passwd",
        "-e .",
        f"six==1 --config-settings=a=b {HASH}",
        f"six==1 {HASH} --find-links=/",
        f"six==1 ; os_name == 'x' --index-url=y {HASH}",
        "six==1 --hash=md5:00",
        "",
    ):
        with pytest.raises(UserError):
            check_requirements(line.encode())
