"""Jobs of Spark on logs: archives and their restoration, audits of a cluster, and compacted views.

from walkeeper_spark_checkpoint.jobs import archive, read_archive

print(archive(spark, "orders", "s3a://bucket/orders", root="zk://host:2181/ledgers", truncate=True))
read_archive(spark, "s3a://bucket/orders").where("date = '2026-11-28'").count()
"""

from __future__ import annotations

from walkeeper_spark_checkpoint.jobs._archive import ArchiveReport, archive, read_archive
from walkeeper_spark_checkpoint.jobs._audit import AuditReport, audit
from walkeeper_spark_checkpoint.jobs._compact_view import compact_to, compact_view
from walkeeper_spark_checkpoint.jobs._restore import RestoreReport, restore

__all__ = [
    "ArchiveReport",
    "AuditReport",
    "RestoreReport",
    "archive",
    "audit",
    "compact_to",
    "compact_view",
    "read_archive",
    "restore",
]
