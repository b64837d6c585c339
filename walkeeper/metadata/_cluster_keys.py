"""ClusterKeys: the names of a cluster's keys below its root. BookKeeper has one set on ZooKeeper and one on etcd."""

from __future__ import annotations

from dataclasses import dataclass

from walkeeper.metadata._layout import LedgerManager
from walkeeper.metadata._store import MetadataStore


@dataclass(frozen=True)
class ClusterKeys:
    """Names below the root. `folders`: the empty keys that a new cluster has, each behind the one above it.

    `service_info`: a registration says where its bookie answers. Else upstream's clients read no value, only the key,
    and the bookie's id must be its address; the value is empty, as upstream's is, where the bookie has no properties.
    """

    instance_id: str
    layout: str
    writable: str
    read_only: str
    folders: tuple[str, ...]
    managers: tuple[LedgerManager, ...]
    """Those that keep ledgers there; a new cluster gets the first."""
    service_info: bool

    @staticmethod
    def of(store: MetadataStore) -> ClusterKeys:
        """Those of BookKeeper's driver for this store; ZooKeeper's, where it has none."""
        found = getattr(store, "cluster_keys", ZOOKEEPER_KEYS)
        assert isinstance(found, ClusterKeys)
        return found


ZOOKEEPER_KEYS = ClusterKeys(
    instance_id="INSTANCEID",
    layout="LAYOUT",
    writable="available",
    read_only="available/readonly",
    folders=("available", "available/readonly"),
    managers=(
        LedgerManager.HIERARCHICAL,
        LedgerManager.LONG_HIERARCHICAL,
        LedgerManager.LEGACY_HIERARCHICAL,
        LedgerManager.FLAT,
    ),
    service_info=True,
)

ETCD_KEYS = ClusterKeys(
    instance_id="instanceid",
    layout="layout",
    writable="bookies/writable",
    read_only="bookies/readonly",
    folders=(
        "cookies",
        "bookies",
        "bookies/writable",
        "bookies/readonly",
        "ledgers",
        "buckets",
        "underreplication",
    ),
    managers=(LedgerManager.ETCD,),
    service_info=False,
)
