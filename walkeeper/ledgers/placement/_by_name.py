"""policy_of: the policy that a name, or a policy itself, means."""

from __future__ import annotations

from collections.abc import Callable

from walkeeper.errors import InvalidError, shown
from walkeeper.ledgers.placement._centralised import CentralisedPolicy
from walkeeper.ledgers.placement._policy import PlacementPolicy
from walkeeper.ledgers.placement._rack_aware import RackAwarePolicy
from walkeeper.ledgers.placement._random import RandomPolicy
from walkeeper.ledgers.placement._weighted import WeightedPolicy

__all__ = ["POLICIES", "GROUP", "policy_of"]

POLICIES: dict[str, Callable[[], PlacementPolicy]] = {
    "random": RandomPolicy,
    "weighted": WeightedPolicy,
    "rack_aware": RackAwarePolicy,
    "centralised": CentralisedPolicy,
}
GROUP = "walkeeper.placement"
"""The entry points of other packages: each makes a policy when it is called without arguments."""


def policy_of(placement: str | PlacementPolicy) -> PlacementPolicy:
    """The policy itself, one of ours by its name, or one of another package's. InvalidError."""
    made = placement
    if isinstance(placement, str):
        make = POLICIES.get(placement)
        made = (make or _added(placement))()
    if isinstance(made, str) or not isinstance(made, PlacementPolicy):
        raise InvalidError(f"placement={shown(placement)}: a placement policy is wanted, or the name of one")
    return made


def _added(name: str) -> Callable[[], PlacementPolicy]:
    from importlib.metadata import entry_points  # with it come email, zipfile and more

    points = entry_points(group=GROUP)
    for point in points:
        if point.name == name:
            try:
                found: Callable[[], PlacementPolicy] = point.load()
            except Exception as error:
                raise InvalidError(f"placement={name!r}: {point.value} cannot be loaded: {error}") from error
            return found
    there = ", ".join(sorted({*POLICIES, *(point.name for point in points)}))
    raise InvalidError(f"placement={name!r}: there is no such policy; there are {there}")
