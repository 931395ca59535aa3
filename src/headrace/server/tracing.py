"""Export of traces by OTLP, if the standard OTEL_… variables ask for it. Needs the extra `otel`."""

from __future__ import annotations

import os
from collections.abc import Callable

from headrace import __version__
from headrace.connectors.extras import client_module
from headrace.core import tracing

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")


def is_requested() -> bool:
    """True if the environment names an endpoint and does not switch traces off."""
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    exporters = os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(",")
    return not is_off and "otlp" in exporters and any(os.environ.get(name) for name in _ENDPOINTS)


def start() -> Callable[[], None]:
    """Start to export; return a function that sends the remaining spans and ends the export. Raises UserError 0A000 without the extra.

    Spans wait in a queue of `OTEL_BSP_MAX_QUEUE_SIZE`; further ones are dropped while the receiver is away.
    """
    if not is_requested():
        return lambda: None
    sdk, export, resources, exporter = (
        client_module(module, extra="otel", label="OpenTelemetry")
        for module in (
            "opentelemetry.sdk.trace",
            "opentelemetry.sdk.trace.export",
            "opentelemetry.sdk.resources",
            "opentelemetry.exporter.otlp.proto.http.trace_exporter",
        )
    )
    # Attributes of the environment come later and count more.
    service = {
        "service.name": os.environ.get("OTEL_SERVICE_NAME", "headrace"),
        "service.version": __version__,
    }
    provider = sdk.TracerProvider(resource=resources.Resource.create(service), shutdown_on_exit=False)
    provider.add_span_processor(export.BatchSpanProcessor(exporter.OTLPSpanExporter()))
    # It has read them; they contain tokens, which are no business of the processes that we start.
    for name in _HEADERS:
        os.environ.pop(name, None)
    tracing.use(provider.get_tracer("headrace", __version__))

    def stop() -> None:
        tracing.use(None)
        provider.shutdown()

    return stop
