"""The web page: the built files at `/`, or a page that reports that the files are missing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from headrace.runtime.webpage import documentation_site, web_page
from headrace.server.middleware import STYLE_NONCE

_NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Headrace</title>
<h1>The web page is not built</h1>
<p>The server runs and answers at <code>/v2</code>; <code>headrace sql</code> works.
In a checkout, <code>make setup</code> builds the page; then start the server again.</p>
</html>
"""


_INDEX = "index.html"
_NONCE_PLACE = "STYLE-NONCE"
"""Stands in `web/index.html` for the nonce of the Content-Security-Policy."""
DOCS = "docs"
"""First segment of the addresses of the documentation, if it was built."""
RESERVED = frozenset({"v2", "metrics", "mcp", "graphql"})
"""First segments of paths that are never the page's, whatever is behind them."""


PAGES = frozenset({"sql", "queries", "lineage", "catalog", "stores", "access", "resources", "graphiql"})
"""First segments of the addresses of the console's pages, which `web/src/router.tsx` defines."""


def is_reserved(path: str) -> bool:
    """True if `path` is the API's."""
    return path.lstrip("/").split("/")[0] in RESERVED


class WebPage(StaticFiles):
    """Static files, and `index.html` for the addresses of the console's pages; other paths without a file return 404."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file with its cache lifetime."""
        if path == DOCS and documentation_site() is not None:
            return RedirectResponse(f"/{DOCS}/")
        file = _file_of(path)
        if file == _INDEX and scope["method"] in ("GET", "HEAD"):
            return await self._index(scope)
        answer = await super().get_response(file, scope)
        # Built assets contain a digest in their names, so they may be cached forever; browsers must revalidate all other files.
        answer.headers["Cache-Control"] = (
            "public, max-age=31536000, immutable" if path.startswith("assets/") else "no-cache"
        )
        return answer

    async def _index(self, scope: Scope) -> Response:
        """Return the page with the nonce of this answer's policy. Each answer differs, so that none has a validator."""
        text = await asyncio.to_thread(Path(str(self.directory), _INDEX).read_text, encoding="utf-8")
        page = text.replace(_NONCE_PLACE, scope["state"][STYLE_NONCE])
        return HTMLResponse(page, headers={"Cache-Control": "no-cache"})


def _file_of(path: str) -> str:
    """Return the file to serve. A page's router reads the rest of the address, which may contain names with dots and slashes."""
    return _INDEX if path == "." or path.split("/")[0] in PAGES else path


class Documentation(StaticFiles):
    """The built documentation of this version."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file, which browsers must revalidate: the next version has other pages at the same addresses."""
        answer = await super().get_response(path, scope)
        answer.headers["Cache-Control"] = "no-cache"
        return answer


def documentation() -> list[BaseRoute]:
    """Return the route of the documentation, or none if it was not built."""
    folder = documentation_site()
    if folder is None:
        return []
    return [Mount(f"/{DOCS}", app=Documentation(directory=folder, html=True), name=DOCS)]


class PageMount(Mount):
    """The page at `/`, for every path that is not the API's."""

    def __init__(self) -> None:
        folder = web_page()
        super().__init__("/", app=WebPage(directory=folder, html=True) if folder else _not_built, name="web")

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match no path of the API, so that unknown paths and methods of the API return the API's own errors."""
        return (Match.NONE, {}) if is_reserved(scope["path"]) else super().matches(scope)


def is_static(route: BaseRoute) -> bool:
    """True if a route serves only built files, which need no token."""
    return isinstance(route, PageMount) or (isinstance(route, Mount) and isinstance(route.app, Documentation))


async def _not_built(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["method"] not in ("GET", "HEAD"):
        raise HTTPException(405)
    if scope["path"] != "/":
        raise HTTPException(404)
    await HTMLResponse(_NOT_BUILT, status_code=503)(scope, receive, send)
