"""Build hook: a wheel carries the JVM extension's sources, the built web page and the reference inside the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CARRIED = {
    "jvm/src/main": "headrace/_jvm",
    "web/dist": "headrace/_web",
    "docs/reference": "headrace/_docs",
}
IF_BUILT = {"build/docs": "headrace/_site"}


class CarryFolders(BuildHookInterface):
    """Adds the folders that live outside ``src`` in a checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build; an editable install finds the folders in the checkout itself."""
        if version == "editable":
            return
        for source, target in CARRIED.items():
            if not Path(self.root, source).is_dir():
                raise FileNotFoundError(f"expected {source} for the wheel, found none: run make setup first")
            build_data["force_include"][str(Path(self.root, source))] = target
        for source, target in IF_BUILT.items():
            if Path(self.root, source).is_dir():
                build_data["force_include"][str(Path(self.root, source))] = target
