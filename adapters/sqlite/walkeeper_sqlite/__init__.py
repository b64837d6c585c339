"""SQLite whose write-ahead log is a log of walkeeper: no acknowledged commit is lost, from any driver.

    import walkeeper, walkeeper_sqlite

    with walkeeper.open("/var/lib/app/wal") as ns:
        with walkeeper_sqlite.attach("app.db", ns.log("app")) as database:
            connection = database.connect()             # a sqlite3.Connection
            connection.execute("CREATE TABLE t(x)")     # in the log before anyone sees it

Every COMMIT that returned is durable in the log. Where the file is lost, or on another machine, `attach` makes it from
the log, and fences the process that had it. The guide is docs/guide/sqlite.md.
"""

from __future__ import annotations

from walkeeper_sqlite._database import Acknowledge, Database, Status, attach, last_lsn
from walkeeper_sqlite._follow import Follower, follow
from walkeeper_sqlite._host import extension_path, load
from walkeeper_sqlite._restore import Restored, restore
from walkeeper_sqlite._retention import Retention
from walkeeper_sqlite._snapshots import Snapshot, snapshots

__all__ = [
    "Acknowledge",
    "Database",
    "Follower",
    "Restored",
    "Retention",
    "Snapshot",
    "Status",
    "attach",
    "extension_path",
    "follow",
    "last_lsn",
    "load",
    "restore",
    "snapshots",
]
