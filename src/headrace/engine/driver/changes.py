"""Operation of each row of a live changelog: insert, update or delete its key."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

from headrace.core.resultset import Cell, LiveRows, RowKind
from headrace.planner.physical import Changes

KEYS_REMEMBERED_MAX = 100_000


class RowKinds:
    """Classifies the rows of one stream (insert, update, delete) by the keys that it has shown; remembers `remembered_max` keys.

    When there are more keys, a row of an unknown key counts as an update, although the key may be new.
    """

    def __init__(self, changes: Changes, *, remembered_max: int = KEYS_REMEMBERED_MAX) -> None:
        self._changes = changes
        self._remembered_max = remembered_max
        self._shown: set[bytes] = set()
        self._knows_all = True

    def of(self, key: Sequence[object], *, deleted: bool) -> RowKind | None:
        """Return the operation of the next row; None if it deletes a row that was never shown."""
        if self._changes.final:
            return RowKind.INSERT
        # A digest: keys may be long, and need not be hashable.
        digest = hashlib.blake2b(repr(tuple(key)).encode(errors="surrogatepass"), digest_size=16).digest()
        was_shown = digest in self._shown
        if deleted:
            self._shown.discard(digest)
            hidden = self._changes.filtered and self._knows_all and not was_shown
            return None if hidden else RowKind.DELETE
        if was_shown:
            return RowKind.UPDATE
        if len(self._shown) < self._remembered_max:
            self._shown.add(digest)
        else:
            self._knows_all = False
            return RowKind.UPDATE
        return RowKind.INSERT if self._knows_all else RowKind.UPDATE


class ChangeReader:
    """Converts the rows of a batch to wire text and kinds. Their `columns` are those of the result `names`, then hidden ones.

    A deletion shows its key. The other columns of its row are NULL, whatever the cause of the deletion.
    """

    def __init__(
        self, names: Sequence[str], encode: Callable[[Sequence[object]], list[Cell]], changes: Changes
    ) -> None:
        hidden = [name for name in changes.key_columns if name not in names]
        flag = changes.sign or changes.deleted
        self.columns = [*names, *hidden, *([flag] if flag else [])]
        self._signed = changes.sign is not None
        self._has_deleted = changes.deleted is not None
        self._width = len(names)
        self._encode = encode
        self._key = [self.columns.index(name) for name in changes.key_columns]
        self._kinds = RowKinds(changes)

    def read(self, rows: Iterable[Sequence[object]]) -> LiveRows:
        """Return the rows to show, in order."""
        cells: list[list[Cell]] = []
        kinds: list[str] = []
        for row in rows:
            if self._signed:
                cells.append(self._encode(row[: self._width]))
                kinds.append((RowKind.INSERT if row[-1] == 1 else RowKind.DELETE).value)
                continue
            kind = self._kinds.of(
                [row[index] for index in self._key], deleted=self._has_deleted and bool(row[-1])
            )
            if kind is None:
                continue
            shown = self._encode(row[: self._width])
            if kind is RowKind.DELETE:
                shown = [value if index in self._key else None for index, value in enumerate(shown)]
            cells.append(shown)
            kinds.append(kind.value)
        return LiveRows(cells, kinds)
