"""An engine over a catalog, in a process that a test can kill; its drivers are those of `driver`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from headrace.catalog.catalog import Catalog
from headrace.core.settings import Settings
from headrace.engine.engine import Engine

DRIVER = Path(__file__).with_name("driver.py")


async def serve(folder: Path, journal: Path, more: dict[str, Any]) -> None:
    settings = Settings(data_dir=folder, reconcile_interval_ms=50, driver_orphan_s=600, **more)
    command = (sys.executable, str(DRIVER), "--journal", str(journal))
    engine = Engine(Catalog.open(folder), settings, driver_command=command)
    await engine.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])))
