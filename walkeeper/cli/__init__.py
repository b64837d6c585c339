"""The command line: `walkeeper COMMAND ...`.

Reading commands work on a directory that another process writes. Of a damaged one they show what can be read, and say
so; `walkeeper recover` makes a copy that opens. Writing ones refuse a directory in use and name the process that holds
it. Exit status: 0 done; 1 what was looked at is damaged, or records are missing; 2 it could not be done; 130 Ctrl-C;
141 the reader of the output went away. WALKEEPER_DEBUG=1 shows tracebacks. Ctrl-C before the command line is imported
ends the process by its signal.
"""

from walkeeper.cli._main import commands, main

__all__ = ["commands", "main"]
