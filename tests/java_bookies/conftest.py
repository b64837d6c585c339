"""One cluster for all tests of this folder: three bookies of Java's and two of ours on one ZooKeeper; Java's client.

Apache BookKeeper made the cluster's metadata. A test that kills a bookie starts it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from java_bookies import jvm
from java_bookies.clusters import Cluster, Shape


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if missing := jvm.missing():
        assert os.environ.get("CI") != "true", f"not installed: {', '.join(missing)}"
        pytest.skip(f"not installed: {', '.join(missing)}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", jvm.environment(Path(__file__).parents[1])["PYTHONPATH"])
        with Cluster(tmp_path_factory.mktemp("java-bookies")) as made:
            yield made


@pytest.fixture(autouse=True)
def _all_are_writable(cluster: Cluster) -> None:
    cluster.await_writable()


@pytest.fixture(params=["java", "mixed"])
def shape(cluster: Cluster, request: pytest.FixtureRequest) -> Shape:
    """Which bookies the ledgers of a test are on: three of Java's, or two of Java's and one of ours."""
    return cluster.shape(request.param)
