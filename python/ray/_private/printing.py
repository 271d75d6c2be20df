"""What workers have printed, on the driver's own output.

The daemon sends whole lines, and after a short while also the beginning of one that has no end yet:
a progress bar, or dots that come one by one. Such a line stays open here, and what comes of it
later goes on where it ended. If something else is to be printed meanwhile, the open line is ended
first, and its rest begins a line of its own.

The name of the source stands at the beginning of each line, and again after each carriage return:
so a bar is drawn over the one before it, whose line had the name too. That is the same for a
terminal, a notebook and a file, where the carriage returns stay.
"""

import _thread
import os
import sys

from ray import _core

BAR = "__ray_tqdm_magic_token__"  # of a line that is the state of a bar


class Printer:
    """The driver's one thread: sleeps until a worker has printed something, and prints it here."""

    _PATIENCE = 5  # seconds without a word from the daemon

    def __init__(self, repeats):
        self._pid = os.getpid()
        self._repeats = repeats
        self._steps = 0  # odd while a text is being written
        self._ended = _thread.allocate_lock()
        self._ended.acquire()
        _thread.start_new_thread(self._run, ())

    def finish(self):
        """Returns when everything is printed that there was. Whoever reads it may take any time for
        that.
        """
        if self._pid != os.getpid():  # a forked child has no such thread
            return
        if not _core.finish_messages():
            return
        steps = self._steps
        # The daemon may be stuck or gone: an end is more than the last lines.
        while not self._ended.acquire(True, self._PATIENCE) and (
            self._steps % 2 == 1 or self._steps != steps
        ):
            steps = self._steps

    def _run(self):
        lines = Lines(self._repeats)
        try:
            while (message := _core.read_message(self._repeats.wait_ms())) is not None:
                self._steps += 1
                lines.show_due()
                if message:
                    lines.show(*message)
                self._steps += 1
            lines.end()
        finally:
            self._ended.release()


class _Line:
    """A line that is open on the driver's output."""

    def __init__(self, source, stream):
        self.source = source
        self.stream = stream
        self.named = False  # the name stands in it
        self.at_start = True  # nothing stands in it, or a carriage return was the last

    def add(self, text, prefix):
        """What is to be written for more of it, without its end."""
        parts = text.split("\r")
        for i, part in enumerate(parts):
            self.at_start |= i > 0
            if part and self.at_start:
                parts[i] = prefix + part
                self.named, self.at_start = True, False
        return "\r".join(parts)


class Lines:
    """The driver's output, as far as workers write there. For one thread."""

    def __init__(self, repeats):
        self._repeats = repeats
        self._open = {}  # of each place: the _Line that is open there
        self._unfinished = set()  # sources whose last line has no end yet
        self._bars = None  # the module that draws the workers' bars, once there are some

    def show(self, kind, pid, address, name, text, unfinished):
        """Prints what one source has printed; see mob_message_t. Output that fails (none, a closed
        one, one of the user's) is passed over: the program goes on.
        """
        prefix = _prefix(kind, pid, address, name)
        if prefix is None:
            return
        if BAR in text:
            self._bars = self._bars or _bars()
            text = self._bars.take(text, prefix)
            if not text:
                return
        source = kind, pid, address
        stream = sys.stdout if kind == "out" else sys.stderr
        place = _place(stream)
        line = self._open.pop(place, None)
        if line is not None and (line.source != source or line.stream is not stream):
            _write(line.stream, "\n")
            line = None
        lines = text.split("\n")
        last = lines.pop() if unfinished else ""
        if line is None and source in self._unfinished and lines and not lines[0].strip("\r"):
            del lines[0]  # nothing but the end of the line that was ended in its place
        written = []
        if line is None and "\r" not in text:  # as most are
            written = [
                f"{prefix}{whole}\n"
                for whole in lines
                if kind not in ("out", "err")
                or self._repeats.admits(kind, (pid, address), prefix, name, whole)
            ]
            lines = []
        for whole in lines:
            line = line or _Line(source, stream)
            written.append(line.add(whole, prefix))
            written.append("\n" if line.named else prefix + "\n")
            line = None
        self._unfinished.discard(source)
        if last:
            line = line or _Line(source, stream)
            written.append(line.add(last, prefix))
            self._unfinished.add(source)
        if line is not None:
            self._open[place] = line
        self._write(stream, "".join(written))

    def show_due(self):
        """Prints what was held back because others had said the same."""
        self._show_held(self._repeats.due())

    def _show_held(self, held):
        for kind, text in held:
            stream = sys.stdout if kind == "out" else sys.stderr
            line = self._open.pop(_place(stream), None)
            if line is not None:
                _write(line.stream, "\n")
            self._write(stream, text)

    def _write(self, stream, text):
        if not text:
            return
        if self._bars is None:
            _write(stream, text)
            return
        with self._bars.hidden():
            _write(stream, text)

    def end(self):
        """There is nothing more to come."""
        self._show_held(self._repeats.rest())
        for line in self._open.values():
            _write(line.stream, "\n")
        self._open.clear()
        if self._bars is not None:
            self._bars.forget()


def _bars():
    from ray._private import bars

    return bars


def _prefix(kind, pid, address, name):
    """What goes ahead of each line; None: nothing of it is to be shown."""
    if kind == "unhandled":
        return None if os.environ.get("RAY_IGNORE_UNHANDLED_ERRORS") == "1" else ""
    if kind == "warn":
        return f"(raylet, ip={address}) " if address else "(raylet) "
    where = f"pid={pid}, ip={address}" if address else f"pid={pid}"
    return f"({name} {where}) " if name else f"({where}) "


def _place(stream):
    """What is one on the screen: all streams that are a terminal, else each one for itself."""
    try:
        if stream.isatty():
            return "terminal"
    except Exception:  # not every object that is written to has that
        pass
    return id(stream)


def _write(stream, text):
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            stream.write(text.encode(stream.encoding, "backslashreplace").decode(stream.encoding))
        stream.flush()
    except Exception:
        pass
