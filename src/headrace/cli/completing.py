"""Completion at the prompt: the server's candidates for the position, and words of the language if it does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from headrace.cli import backslash
from headrace.cli.output import plain
from headrace.client import Client, ClientError

_PATIENCE_S = 2.0


class ServerCompleter(Completer):
    """Candidates of `/v2/complete` for what is typed; backslash commands are completed here."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._words: tuple[str, ...] = ()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        """Return nothing: the prompt is asynchronous."""
        return ()

    async def get_completions_async(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002
    ) -> AsyncGenerator[Completion, None]:
        """Yield the candidates at the cursor."""
        text = document.text
        typed = document.get_word_before_cursor(WORD=True)
        if text.lstrip().startswith("\\") and document.text_before_cursor.strip() == typed:
            for command in backslash.commands():
                if command.startswith(typed):
                    yield Completion(command, -len(typed))
            return
        try:
            async with asyncio.timeout(_PATIENCE_S):
                answer = await self._client.complete(text, document.cursor_position)
        except (ClientError, TimeoutError):
            async for completion in self._of_words(document):
                yield completion
            return
        start = answer.start - document.cursor_position
        for candidate in answer.candidates:
            yield Completion(
                plain(candidate.insert),
                start,
                display=plain(candidate.label),
                display_meta=plain(candidate.detail or candidate.kind),
            )

    async def _of_words(self, document: Document) -> AsyncGenerator[Completion, None]:
        if not self._words:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    self._words = await self._client.words()
            except (ClientError, TimeoutError):
                return
        typed = document.get_word_before_cursor()
        for word in self._words:
            if typed and word.startswith(typed.upper()):
                yield Completion(word, -len(typed))
