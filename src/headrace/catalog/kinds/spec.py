"""Description of an object kind for the catalog."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headrace.catalog.access import Privilege
from headrace.core.errors import InternalError
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState

Path = tuple[str, ...]
Definition = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Stored:
    """An object as read from the database: `path` is its names, outermost first, `definition` the stored form of its kind."""

    id: str
    path: Path
    owner: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    definition: Definition

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path[-1]


@dataclass(frozen=True, kw_only=True)
class ObjectKind(Generic[T]):
    """A kind of object whose values are `T`, as privileges and texts need it.

    `kind` is the stored name, `parent` the kind of its container (None: the organization) and `word` its name in texts. `privileges` can
    be granted on an object of the kind, beside OWNERSHIP, which its owner has. `printed` formats a part of a path for texts.
    """

    kind: str
    value: type[T]
    path: Callable[[T], Path]
    duplicate: SqlState
    missing: SqlState
    parent: str | None = None
    privileges: tuple[Privilege, ...] = (Privilege.USAGE,)
    printed: Callable[[str], str] = printed

    @property
    def word(self) -> str:
        """The kind as texts write it."""
        return self.kind.replace("_", " ")

    @property
    def plural(self) -> str:
        """The stored name of several: `schema_registries`."""
        return f"{self.kind[:-1]}ies" if self.kind.endswith("y") else f"{self.kind}s"

    def described(self, path: Path) -> str:
        """Return the object of that path, as a text names it."""
        return f"the {self.word} {'.'.join(map(self.printed, path))}"


@dataclass(frozen=True, kw_only=True)
class KindSpec(ObjectKind[T]):
    """A kind of object that is stored in the table `objects`.

    `write` and `read` convert between a value and its definition; each of `upgrades` converts a definition of one version to the next.
    `uses` returns the kinds and paths of the objects that it depends on. `renamed` returns the value after an object was renamed, for
    kinds that store such names. `attached` objects do not prevent a drop of their parent.
    """

    write: Callable[[T], Definition]
    read: Callable[[Stored], T]
    uses: Callable[[T], Iterable[tuple[str, Path]]] = lambda _: ()
    renamed: Callable[[T, str, str, str], T] = lambda value, _kind, _old, _new: value
    upgrades: tuple[Callable[[Definition], Definition], ...] = ()
    attached: bool = False

    def definition(self, value: T) -> Definition:
        """Return the stored form of a value, with the version that this release writes."""
        return {"version": len(self.upgrades) + 1, **self.write(value)}

    def upgraded(self, definition: Mapping[str, Any]) -> Definition:
        """Return a stored definition as this release writes it. Raises InternalError for one of a later release."""
        current = dict(definition)
        version = current.pop("version")
        if version > len(self.upgrades) + 1:
            raise InternalError(
                f"the catalog contains a {self.word} of version {version}, but this release supports versions "
                f"up to {len(self.upgrades) + 1}",
                hint="Start the release that wrote it, or restore an earlier copy of the catalog.",
            )
        for upgrade in self.upgrades[version - 1 :]:
            current = upgrade(current)
        return current
