"""Reads `.proto` files for the JVM, which finds them in schema registries: there is one parser, and it is Python's."""

from __future__ import annotations

import json
from typing import Any

from headrace.core.errors import HeadraceError
from headrace.formats.protobuf_schema import of_text


class ProtoFiles:
    """See the JVM's trait of this name: a question in JSON, and an answer in JSON."""

    def descriptors(self, question: str) -> str:
        """Return the files that a schema's text imports, then its own; or the reason why there are none."""
        request: dict[str, Any] = json.loads(question)
        try:
            parsed = of_text(request["text"], list(request["imports"].items()))
            return json.dumps({"descriptors": parsed.encoded(parsed.named(None))})
        except HeadraceError as error:
            return json.dumps({"reason": error.message})

    class Java:
        """Interface that py4j looks for."""

        implements = ("io.headrace.spark.ProtoFiles",)
