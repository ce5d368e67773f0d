"""Checks a database for content that Hone did not write: a backup may come from anybody.

A trigger would run with the next write, a view, an index or a virtual table with the next read, and
a name that is not a digest could lead out of the data folder. Whoever writes sqlite_schema himself
can call a virtual table or a trigger what he likes, so nothing but Hone's own objects is taken.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from storage.database.connection import sqlite3, translated
from storage.database.schema import (
    OLDER_OBJECTS,
    create_tables,
    objects_digest,
    objects_of,
)

_NO_DIGEST = """
SELECT sha256 FROM files WHERE length(sha256) <> 64 OR sha256 GLOB '*[^0-9a-f]*' LIMIT 1
"""
_BROKEN_REFERENCE = "PRAGMA foreign_key_check"


def foreign_contents(path: Path) -> str | None:
    """What in a database is not as Hone makes it, or None.

    Raises StorageBroken.
    """
    with translated(), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        if (complaint := _complaint(objects_of(connection))) is not None:
            return complaint
        if (row := connection.execute(_NO_DIGEST).fetchone()) is not None:
            return f"a file is named {row[0]!r}, which is no SHA-256"
        if (row := connection.execute(_BROKEN_REFERENCE).fetchone()) is not None:
            return f"a row of {row[0]} refers to one of {row[2]} that is not there"
    return None


def _complaint(there: set[tuple[str, str, str | None]]) -> str | None:
    """What is no object of the newest schema, unless they are those of an older one."""
    if objects_digest(there) in OLDER_OBJECTS.values():
        return None
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_tables(connection)
        own = objects_of(connection)
    for kind, name, _ in there - own:
        return f"it holds a {kind} that is not Hone's: {name!r}"
    for kind, name, _ in own - there:
        return f"it lacks the {kind} {name!r}"
    return None
