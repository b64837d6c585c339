"""ClusterCursor: a cursor of a log on a cluster; its position is a key of the metadata store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walkeeper._cursor import Cursor
from walkeeper.errors import Error

if TYPE_CHECKING:
    from walkeeper._position import Position
    from walkeeper.cluster._log import ClusterLog

__all__ = ["ClusterCursor"]


class ClusterCursor(Cursor):
    __slots__ = ()

    _log: ClusterLog

    @property
    def position(self) -> Position:
        with _of(self._log.name):
            return self._log.namespace._store.cursor(self._log._log_id, self._name)

    def delete(self) -> None:
        self._log.namespace._check_writes()
        with _of(self._log.name):
            self._log.namespace._store.delete_cursor(self._log._log_id, self._name)

    def _set(self, position: Position) -> None:
        self._log.namespace._check_writes()
        with _of(self._log.name):
            self._log._move_cursor(self._name, position)


class _of:
    """An exception that leaves the block says which log it is about."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Error) and error.log is None:
            error.log = self._name
