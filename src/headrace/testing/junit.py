"""JUnit's XML, which continuous integration servers read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from headrace.testing.suite import Result

# XML 1.0 has no characters for most control codes.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(path: Path, results: Sequence[Result]) -> None:
    """Write one test case for each file. Raises OSError."""
    failed = sum(result.failure is not None for result in results)
    seconds = sum(result.seconds for result in results)
    counts = {"tests": str(len(results)), "failures": str(failed), "errors": "0", "time": f"{seconds:.3f}"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "headrace", **counts})
    for result in results:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {
                "classname": _text(result.path.parent.as_posix()),
                "name": _text(result.path.name),
                "file": _text(result.path.as_posix()),
                "time": f"{result.seconds:.3f}",
            },
        )
        if result.failure is not None:
            first, _, _ = result.failure.partition("\n")
            failure = ElementTree.SubElement(case, "failure", {"message": _text(first)})
            failure.text = _text(result.failure)
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _text(text: str) -> str:
    return _NOT_XML.sub("�", text)
