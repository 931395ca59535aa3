"""Folders of the runtime on this machine."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from platformdirs import user_cache_path

_PACKAGE = Path(__file__).resolve().parents[1]


def cache_dir() -> Path:
    """Return the folder of everything that can be fetched or made again; ``HEADRACE_CACHE_DIR`` moves it."""
    override = os.environ.get("HEADRACE_CACHE_DIR")
    return Path(override).expanduser().resolve() if override else user_cache_path("headrace")


def source_tree() -> Path | None:
    """Return the checkout this package runs from, or None when it was installed from a wheel."""
    root = _PACKAGE.parents[1]
    return root if (root / "pyproject.toml").is_file() and _PACKAGE.parent.name == "src" else None


def shipped(name: str, *, in_tree: str) -> Path | None:
    """Return a folder that a wheel carries as `name` and a checkout has at `in_tree`; None if there is neither."""
    tree = source_tree()
    folder = tree / in_tree if tree else _PACKAGE / name
    return folder if folder.is_dir() else None


def package_folder(distribution_name: str, module: str) -> Path | None:
    """Return the folder of an installed package, found without importing it; None when it is not installed."""
    try:
        folder = Path(str(distribution(distribution_name).locate_file(module)))
    except PackageNotFoundError:
        return None
    return folder if folder.is_dir() else None
