"""Logs on a cluster: their segments are ledgers on bookies, their metadata lie in the cluster's metadata store.

walkeeper.open() comes here for the URI of a metadata store. docs/adr/0027 says what is kept where.
"""
