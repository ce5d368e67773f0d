"""Runs the schema's migrations: append-only, each once, in order.

`schema.sql` is the result of all of them; a test compares the two.
"""

from __future__ import annotations

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from storage.database.connection import sqlite3
from storage.database.early_steps import GATE, POLICY_AND_TRIGGERS, SAMPLES, TWINS_AND_DAMAGE
from storage.database.initial_schema import TABLES
from storage.database.steps import (
    ASSEMBLED_FILES,
    AUDIT,
    BASE_SETS,
    CHOICES,
    CLASSES,
    CURVES,
    DEVICE_HISTORY_AND_JOB_LOGS,
    ENGINES,
    FEDERATION,
    OWN_LOSSES,
    SAMPLE_OWNERS,
    SAMPLE_WEIGHTS,
    SET,
    TOKENS,
)

migrations = Migrations(SET)


def migrate(connection: sqlite3.Connection) -> None:
    """Run the migrations that have not run yet."""
    migrations.apply(Database(connection, execute_plugins=False))


def _run(db: Database, script: str) -> None:
    """Execute statements in the transaction; each must end at the end of a line.

    The library's executescript checks at every character whether one is complete: 13 ms of a first
    start.
    """
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            db.conn.execute(statement)
            statement = ""
    assert not statement.strip(), statement


@migrations()
def m001_initial(db: Database) -> None:
    _run(db, TABLES)


@migrations()
def m002_gate(db: Database) -> None:
    _run(db, GATE)


@migrations()
def m003_policy_and_triggers(db: Database) -> None:
    _run(db, POLICY_AND_TRIGGERS)


@migrations()
def m004_samples(db: Database) -> None:
    for statement in SAMPLES:
        db.conn.execute(statement)


@migrations()
def m005_twins_and_damage(db: Database) -> None:
    for statement in TWINS_AND_DAMAGE:
        db.conn.execute(statement)


@migrations()
def m006_engines(db: Database) -> None:
    for statement in ENGINES:
        db.conn.execute(statement)


@migrations()
def m007_tokens(db: Database) -> None:
    db.conn.execute(TOKENS)


@migrations()
def m008_own_losses(db: Database) -> None:
    for statement in OWN_LOSSES:
        db.conn.execute(statement)


@migrations()
def m009_sample_owners(db: Database) -> None:
    db.conn.execute(SAMPLE_OWNERS)


@migrations()
def m010_sample_weights(db: Database) -> None:
    db.conn.execute(SAMPLE_WEIGHTS)


@migrations()
def m011_audit(db: Database) -> None:
    for statement in AUDIT:
        db.conn.execute(statement)


@migrations()
def m012_choices(db: Database) -> None:
    db.conn.execute(CHOICES)


@migrations()
def m013_classes(db: Database) -> None:
    for statement in CLASSES:
        db.conn.execute(statement)


@migrations()
def m014_base_sets(db: Database) -> None:
    for statement in BASE_SETS:
        db.conn.execute(statement)


@migrations()
def m015_federation(db: Database) -> None:
    for statement in FEDERATION:
        db.conn.execute(statement)


@migrations()
def m016_assembled_files(db: Database) -> None:
    for statement in ASSEMBLED_FILES:
        db.conn.execute(statement)


@migrations()
def m017_device_history_and_job_logs(db: Database) -> None:
    for statement in DEVICE_HISTORY_AND_JOB_LOGS:
        db.conn.execute(statement)


@migrations()
def m018_curves(db: Database) -> None:
    db.conn.execute(CURVES)
