"""Placement policies: which bookies a ledger gets.

    walkeeper.LedgerClient(uri, placement="rack_aware", racks={"bookie1:3181": "/rack1", "bookie2:3181": "/rack2"})

`RandomPolicy` ("random") takes any, `WeightedPolicy` ("weighted") those with more free space more often,
`RackAwarePolicy` ("rack_aware") spreads each write set over racks, `CentralisedPolicy` ("centralised") claims what one
client of the cluster deals for all, by free space. Another class with the methods of `PlacementPolicy`
may be given as well, or be named by an entry point of the group "walkeeper.placement".
"""

from __future__ import annotations

from walkeeper.ledgers.placement._by_name import policy_of
from walkeeper.ledgers.placement._centralised import CentralisedPolicy, Dealer, DealingPolicy, FairDealer
from walkeeper.ledgers.placement._policy import DEFAULT_RACK, Candidate, PlacementPolicy
from walkeeper.ledgers.placement._rack_aware import RackAwarePolicy
from walkeeper.ledgers.placement._random import RandomPolicy
from walkeeper.ledgers.placement._weighted import WeightedPolicy

__all__ = [
    "Candidate",
    "CentralisedPolicy",
    "DEFAULT_RACK",
    "Dealer",
    "DealingPolicy",
    "FairDealer",
    "PlacementPolicy",
    "RackAwarePolicy",
    "RandomPolicy",
    "WeightedPolicy",
    "policy_of",
]
