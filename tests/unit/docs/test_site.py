"""The documentation site: what its generator is given. `make docs` builds it with strict checks of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from scripts.docs.hooks import on_page_markdown, pages_of_statements, slug
from tests.unit.docs.test_docs import DOCS, MARKDOWN, ROOT, _anchors

CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
THEME = ROOT / "scripts" / "docs" / "theme"


def _pages(nav: list[Any]) -> Iterator[str]:
    for item in nav:
        if isinstance(item, str):
            yield item
        else:
            for children in item.values():
                yield from _pages(children)


def test_every_page_but_the_decisions_is_in_the_navigation_once() -> None:
    pages = sorted(_pages(CONFIG["nav"]))
    sources = (path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    assert pages == sorted(
        name for name in sources if not name.startswith("adr/") or name.endswith("README.md")
    )


@pytest.mark.parametrize("page", ["reference/statements.md", "operations.md", "reference/queries.md"])
def test_anchors_are_those_of_github(page: str) -> None:
    text = on_page_markdown((DOCS / page).read_text(encoding="utf-8"), _page(page), _site())
    titles = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    own = {slug(title) for title in titles} - {"a-page-for-each-statement"}
    assert own == _anchors(DOCS / page)


def test_each_statement_has_a_page_whose_links_are_valid() -> None:
    text = (DOCS / "reference" / "statements.md").read_text(encoding="utf-8")
    pages = pages_of_statements(text)
    assert len(pages) == len(re.findall(r"^### .*<!--", text, re.MULTILINE)) > 100
    assert (
        "[properties.md](../properties.md#relations)"
        in pages["reference/statements/create-stream-create-changelog.md"]
    )
    for name, page in pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", page):
            path, _, anchor = target.partition("#")
            if not path.startswith("http") and path.endswith(".md"):
                file = (DOCS / name).parent / path
                assert not anchor or anchor in _anchors(file.resolve()), (name, target)


def test_a_link_that_leaves_the_site_is_its_text() -> None:
    text = (
        "[a](../README.md) [b](quick-start.md#x) [c](https://x.org/y) [d](#e) [f](reference/schema.graphql)"
    )
    kept = on_page_markdown(text, _page("index.md"), _site())
    assert kept == "a [b](quick-start.md#x) [c](https://x.org/y) [d](#e) f"


def test_the_theme_has_no_inline_scripts_or_styles() -> None:
    for path in THEME.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|https?://", text), path


def test_no_page_contains_scripts() -> None:
    assert [path.name for path in MARKDOWN if "<script" in path.read_text(encoding="utf-8")] == []


def _page(name: str) -> Any:
    return SimpleNamespace(file=SimpleNamespace(src_uri=name), url=Path(name).stem)


def _site() -> Any:
    return SimpleNamespace(docs_dir=str(DOCS))
