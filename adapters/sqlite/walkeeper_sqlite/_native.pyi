"""Types of the compiled module. Functions and enumerators are not listed again: the headers are the one list."""

from walkeeper._native import _Ffi, _Lib

ffi: _Ffi
lib: _Lib
