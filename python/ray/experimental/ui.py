"""The timeline of tasks, for a notebook."""

from ray._private import state


def task_timeline(filename: "str | None" = None) -> str:
    """Writes what ran when as a Chrome trace, says where, and returns that path."""
    import os
    import tempfile

    state.check_connected()
    if filename is None:
        handle, filename = tempfile.mkstemp(prefix="ray-timeline-", suffix=".json")
        os.close(handle)
    state.timeline(filename)
    print(
        f"The timeline is in {filename}. To see it, open chrome://tracing (or ui.perfetto.dev) and "
        f"load that file."
    )
    return filename
