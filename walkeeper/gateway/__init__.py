"""The gateway: programs that cannot run walkeeper's control plane (a JVM, C without Python) reach logs through it.

A gateway is the one writer of the logs that are appended to through it; GatewayClient is a client for them. Its files
are a checkpoint store for Spark: each first name of a path is a log, each small file a record of it, and a change is
durable when it is answered. The protocol has a page: docs/formats/gateway_protocol.md.
"""

from walkeeper.gateway._client import GatewayClient
from walkeeper.gateway._gateway import Gateway
from walkeeper.gateway._read_batch import ReadBatch

__all__ = ["Gateway", "GatewayClient", "ReadBatch"]
