"""DirectoryCursor: a cursor of a log of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walkeeper._cursor import Cursor
from walkeeper._native import ffi, lib
from walkeeper._options import name_bytes, uninterrupted
from walkeeper._position import Position, position_of
from walkeeper.errors import CursorNotFoundError, check, new_error

if TYPE_CHECKING:
    from walkeeper.directory._log import DirectoryLog

__all__ = ["DirectoryCursor"]

_KINDS = {lib.WK_NOT_FOUND: CursorNotFoundError}


class DirectoryCursor(Cursor):
    __slots__ = ()

    _log: DirectoryLog

    @property
    def position(self) -> Position:
        at, error, name = ffi.new("wk_position *"), new_error(), name_bytes(self._name)
        status = uninterrupted(lambda _: lib.wk_cursor_get(self._log._native, name, len(name), at, error))
        check(status, error, log=self._log.name, kinds=_KINDS)
        return position_of(at)

    def delete(self) -> None:
        error, name = new_error(), name_bytes(self._name)
        status = uninterrupted(lambda _: lib.wk_cursor_delete(self._log._native, name, len(name), error))
        check(status, error, log=self._log.name, kinds=_KINDS)

    def _set(self, position: Position) -> None:
        at = ffi.new("wk_position *", [position.dlsn, position.sequence_id, position.txid])
        error, name = new_error(), name_bytes(self._name)
        status = uninterrupted(lambda _: lib.wk_cursor_set(self._log._native, name, len(name), at, error))
        check(status, error, log=self._log.name)
