"""``python -m evalreg``, the same as the command ``evalreg``."""

import os
import sys

INTERRUPTED = 130


def main() -> int:
    """Exit status of this process as the command ``evalreg``; an interrupt ends it at once, with one line.

    As of `evalreg.cli.main.main`, which does the work and leaves the signals of the process as they are.
    """
    try:
        # Nothing is imported above that Python has not loaded by itself: an interrupt there would be a traceback.
        import signal

        # One that is ignored, as in the background of a shell, stays so.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _leave)
        from evalreg.cli import main as cli

        status = cli.main()
        # All is printed; the interpreter's own end is not to be interrupted.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:  # while `signal` was imported
        _leave()
        return INTERRUPTED
    return status


def _leave(*_: object) -> None:
    """End the process. An exception would be lost, with a traceback, where it meets a callback of an import."""
    try:
        os.write(2, b"evalreg: interrupted\n")
    finally:
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
