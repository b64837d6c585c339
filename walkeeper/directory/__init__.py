"""Logs in a directory: what Namespace, Log and Cursor are over the engine of this process."""
