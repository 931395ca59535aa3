"""Files that a client sends with a statement."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.client.attachments import attached
from headrace.client.errors import RequestRefusedError


def test_each_file_that_a_statement_names_is_sent_by_its_name(tmp_path: Path) -> None:
    for folder, content in (("target", b"functions"), ("libs", b"libraries")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "app.jar").write_bytes(content)
        (tmp_path / folder / f"{folder}.jar").write_bytes(content)
    text = "CREATE FUNCTION_SOURCE f WITH ('file' = '@target/target.jar', 'lib' = '@libs/libs.jar')"
    assert attached(text, tmp_path) == {"target.jar": b"functions", "libs.jar": b"libraries"}
    same = "CREATE FUNCTION_SOURCE f WITH ('file' = '@target/app.jar', 'lib' = '@libs/app.jar')"
    with pytest.raises(RequestRefusedError, match=r"two files of the statement are named app.jar"):
        attached(same, tmp_path)
    with pytest.raises(RequestRefusedError, match="cannot read the file"):
        attached("CREATE FUNCTION_SOURCE f WITH ('file' = '@missing.jar')", tmp_path)
