"""The console script, outside of walkeeper, whose import takes a moment: Ctrl-C meanwhile ends it without a word.

walkeeper.cli.main takes over from there. Where the caller has it ignored it stays so.
"""

import signal


def main() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from walkeeper.cli import main

    main()
