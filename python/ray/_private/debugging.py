"""What a worker does for those who look for a fault: the stack of one that crashes, and words for
debuggers that want a terminal.
"""

import faulthandler
import os
import sys

_NO_TERMINAL = (
    "a worker has no terminal, so {what} can't be used in a task or an actor. Use `ray replay`, "
    "which runs a task that failed in your terminal (this one has failed now, and its error says "
    "how); or call the plain function or class in the driver (f._function(...) is what "
    "@ray.remote decorates); or print; or use a debugger that listens on a socket, remote-pdb say: "
    "PYTHONBREAKPOINT=remote_pdb.set_trace in the environment of ray.init."
)


def prepare():
    """In the process that workers are forked from."""
    # Into the descriptor: a worker's own pipe by then. The user may have enabled it, with -X, and
    # may do in a task whatever he likes with it.
    if not faulthandler.is_enabled():
        faulthandler.enable(file=2)
    if sys.breakpointhook is sys.__breakpointhook__:
        sys.breakpointhook = _breakpoint


def _breakpoint(*args, **kwargs):
    if os.environ.get("PYTHONBREAKPOINT"):  # the user's choice
        return sys.__breakpointhook__(*args, **kwargs)
    raise RuntimeError(_NO_TERMINAL.format(what="breakpoint()"))


def explain_quit(error):
    """Words for the bdb.BdbQuit of a pdb.set_trace() that found no terminal.

    Not for that of a debugger with an input of its own, whose user has left it.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    debugger = trace.tb_frame.f_locals.get("self") if trace is not None else None
    if not error.args and getattr(debugger, "stdin", None) is sys.stdin:
        error.args = (_NO_TERMINAL.format(what="pdb"),)
