"""Hooks of MkDocs: GitHub's anchors, links that leave docs/, a page for each statement, and the texts for language models."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

_HEADING_COMMENT = re.compile(r"^(#+ .*?)\s*<!--.*-->\s*$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_SCHEME = re.compile(r"[a-z]+:")
_STATEMENTS = "reference/statements.md"
_SECTION = re.compile(r"^### ([^\n<]+?) *<!--[^\n]*-->\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_SOURCES: dict[str, str] = {}
"""Markdown of each page, by its address in the site."""


def slug(title: str, _separator: str = "-") -> str:
    """Return the anchor of a heading as GitHub creates it, so that the links in the sources are valid in both places."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def on_config(config: Any) -> Any:
    """Use GitHub's anchors."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each statement."""
    from mkdocs.structure.files import File

    text = Path(config.docs_dir, _STATEMENTS).read_text(encoding="utf-8")
    for uri, content in pages_of_statements(text).items():
        files.append(File.generated(config, uri, content=content))
    return files


def pages_of_statements(text: str) -> dict[str, str]:
    """Return the pages by their paths in docs/: the sections of the page of all statements, with links that are valid there."""
    return {
        f"reference/statements/{slug(title)}.md": (
            f"# {title}\n\n{_LINK.sub(_from_below, body.strip())}\n\nOne of [all statements](../statements.md#{slug(title)}).\n"
        )
        for title, body in _SECTION.findall(text)
    }


def _from_below(match: re.Match[str]) -> str:
    label, target = match.groups()
    if _SCHEME.match(target):
        return match[0]
    return f"[{label}](../{'statements.md' if target.startswith('#') else ''}{target})"


def on_page_markdown(markdown: str, page: Any, config: Any, **_more: Any) -> str:
    """Remove comments from headings, and keep only the text of a link to a file that is not in the site."""
    root = Path(config.docs_dir)

    def kept(match: re.Match[str]) -> str:
        target = match[2].partition("#")[0]
        if not target or _SCHEME.match(target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), target))
        is_page = path.endswith(".md") and (root / path).is_file() and not path.startswith("..")
        return match[0] if is_page else match[1]

    text = _LINK.sub(kept, _HEADING_COMMENT.sub(r"\1", markdown))
    if page.file.src_uri == _STATEMENTS:
        titles = sorted(title for title, _ in _SECTION.findall(markdown))
        links = "\n".join(f"- [{title}](statements/{slug(title)}.md)" for title in titles)
        text += f"\n## A page for each statement\n\n{links}\n"
    _SOURCES[page.url] = text
    return text


def on_post_build(config: Any) -> None:
    """Write the Markdown of each page beside it, and llms.txt, which lists the pages."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    for url, text in sorted(_SOURCES.items()):
        (site / url / "index.md").write_text(text, encoding="utf-8")
        title = next((line.lstrip("# ") for line in text.splitlines() if line.startswith("# ")), url)
        lines.append(f"- [{title}]({url}index.md)")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
