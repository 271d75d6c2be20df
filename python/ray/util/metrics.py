"""Numbers about a program: Counter, Gauge and Histogram.

    from ray.util.metrics import Counter, snapshot

    rows = Counter("rows_read", description="Rows that were read.", tag_keys=("file",))
    rows.inc(100, tags={"file": "a.csv"})
    print(snapshot())

A call changes a number in this process and sends nothing. A second after the first change a thread
sends what has changed, in one message, to the daemon, which adds it up over all processes of the
job; so does the end of a process. A process that is killed loses what it has changed within that
second. The numbers go when their job has ended.
"""

import atexit
import json
import re
import threading
import time
import warnings
from bisect import bisect_left
from collections.abc import Sequence
from struct import pack, unpack

from ray import _core
from ray._private import kv, session
from ray._private.worker import is_initialized

__all__ = ["Counter", "Gauge", "Histogram", "Metric", "snapshot"]

_PERIOD = 1.0  # seconds between two messages
_SERIES_MOST = 10_000  # of a process: combinations of tags, of all metrics together
# Keys of a job: what a metric is, and its numbers by its name and tags.
_ABOUT, _SERIES = b"metrics/about/", b"metrics/series/"
_NAME = re.compile("[a-zA-Z_:][a-zA-Z0-9_:]*")

_lock = threading.Lock()
_changed = []  # series that the daemon has not heard of as they are now
_families = {}  # name to _Family
_count = 0  # of series


class _Family:
    """All series of one name, whichever objects they were changed by."""

    def __init__(self, kind, name, description, boundaries):
        self.kind = kind
        self.name = name
        self.about = json.dumps([kind, description, boundaries]).encode()
        self.boundaries = boundaries
        self.series = {}  # the tags, as sorted pairs, to the series
        self.told = 0  # the session whose daemon knows what it is about


class _Series:
    """Numbers of one combination of tags. Of a counter and a histogram: what was added since the
    daemon was told; of a gauge: what it is.
    """

    __slots__ = ("changed", "family", "key", "numbers")

    def __init__(self, family, pairs, numbers):
        self.family = family
        self.key = json.dumps([family.name, pairs]).encode()
        self.numbers = numbers
        self.changed = False


class Metric:
    """What the kinds of metrics have in common. Use Counter, Gauge or Histogram."""

    _kind = None

    def __init__(
        self,
        name: str,
        description: str = "",
        tag_keys: "Sequence[str] | None" = None,
        boundaries: "list[float] | None" = None,
    ):
        if self._kind is None:
            raise TypeError("Metric is no kind of its own: use Counter, Gauge or Histogram")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name of a metric: letters, digits, _ and : are, and no digit first"
            )
        tag_keys = () if tag_keys is None else tag_keys
        if not isinstance(tag_keys, (tuple, list)):
            raise TypeError(f"tag_keys must be a tuple of str, not {type(tag_keys).__name__}")
        for key in tag_keys:
            if not isinstance(key, str):
                raise TypeError(f"tag_keys must be str, not {type(key).__name__}")
        self._name = name
        self._description = description
        self._tag_keys = tuple(tag_keys)
        self._default_tags = {}
        self._family = _family(self._kind, name, description, boundaries)
        self._known = {}  # tags as they were given to the series

    def set_default_tags(self, default_tags: "dict[str, str]") -> "Metric":
        """Tags that hold where a call does not say otherwise; returns the metric.

        requests = Counter("requests", tag_keys=("region",)).set_default_tags({"region": "eu"})
        """
        self._check_tags(default_tags)
        self._default_tags = dict(default_tags)
        self._known = {}
        return self

    @property
    def info(self) -> dict:
        """Its name, description, tag_keys and default_tags."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": self._default_tags,
        }

    def _check_tags(self, tags):
        for key, value in tags.items():
            if key not in self._tag_keys:
                raise ValueError(
                    f"metric {self._name} has no tag {key!r}; it has {', '.join(self._tag_keys)}"
                )
            if not isinstance(value, str):
                raise TypeError(f"the tag {key!r} must be a str, not {type(value).__name__}")

    def _find(self, tags):
        """The series of these tags. Looked up by what was given, and only then by what it means."""
        given = tuple(tags.items()) if tags else ()
        series = self._known.get(given)
        if series is None:
            self._check_tags(dict(given))
            final = dict.fromkeys(self._tag_keys, "")
            final.update(self._default_tags, **dict(given))
            series = _series(self._family, tuple(sorted(final.items())))
            if len(self._known) < _SERIES_MOST:
                self._known[given] = series
        return series

    def __reduce__(self):
        return _rebuild, (type(self), self._arguments(), self._default_tags)

    def _arguments(self):
        return self._name, self._description, self._tag_keys


def _rebuild(kind, arguments, default_tags):
    return kind(*arguments).set_default_tags(default_tags)


class Counter(Metric):
    """A number that only grows; what all processes count is added up.

    errors = Counter("errors", description="What went wrong.", tag_keys=("kind",))
    errors.inc(tags={"kind": "timeout"})

        requests = Counter("requests", "How many there were.", tag_keys=("kind",))
        requests.inc(1, {"kind": "read"})
    """

    _kind = "counter"

    def inc(self, value: "int | float" = 1.0, tags: "dict[str, str] | None" = None) -> None:
        """Counts so much more."""
        if not value > 0:
            raise ValueError(f"a counter grows by more than 0, not by {value!r}")
        series = self._find(tags)
        with _lock:
            series.numbers[0] += value
            if not series.changed:
                _note(series)


class Gauge(Metric):
    """A number that goes up and down. What was set last holds, whichever process did it; give each
    process a tag of its own to tell them apart.

        waiting = Gauge("waiting", tag_keys=("actor",)).set_default_tags({"actor": "a"})
        waiting.set(17)
    """

    _kind = "gauge"

    def set(self, value: "int | float", tags: "dict[str, str] | None" = None) -> None:
        """It is so much now."""
        value = float(value)
        series = self._find(tags)
        with _lock:
            series.numbers[0] = value
            if not series.changed:
                _note(series)


class Histogram(Metric):
    """How often values fall between boundaries, and their sum.

    latency = Histogram("latency_s", boundaries=[0.01, 0.1, 1])
    latency.observe(0.05)

        times = Histogram("times", "Of a request, in seconds.", boundaries=[0.1, 1])
        times.observe(0.25)
    """

    _kind = "histogram"

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: "list[float] | None" = None,
        tag_keys: "Sequence[str] | None" = None,
    ):
        if not boundaries:
            raise ValueError("a histogram needs boundaries, as in boundaries=[0.1, 1, 10]")
        self._boundaries = [float(boundary) for boundary in boundaries]
        if any(boundary <= 0 for boundary in self._boundaries):
            raise ValueError(f"boundaries must be greater than 0, unlike {boundaries}")
        if sorted(set(self._boundaries)) != self._boundaries:
            raise ValueError(f"boundaries must go up, unlike {boundaries}")
        super().__init__(name, description, tag_keys, self._boundaries)

    @property
    def info(self) -> dict:
        """Its name, description, tag_keys, default_tags and boundaries."""
        return {**super().info, "boundaries": self._boundaries}

    def observe(self, value: "int | float", tags: "dict[str, str] | None" = None) -> None:
        """A value was seen."""
        place = 2 + bisect_left(self._boundaries, value)
        series = self._find(tags)
        with _lock:
            numbers = series.numbers
            numbers[0] += 1
            numbers[1] += value
            numbers[place] += 1
            if not series.changed:
                _note(series)

    def _arguments(self):
        return self._name, self._description, self._boundaries, self._tag_keys


def _family(kind, name, description, boundaries):
    with _lock:
        family = _families.get(name)
        if family is None:
            family = _families[name] = _Family(kind, name, description, boundaries)
    if (family.kind, family.boundaries) != (kind, boundaries):
        raise ValueError(f"there is another metric called {name!r} here: a {family.kind}")
    return family


_beyond = _Series(_Family("counter", "", "", None), (), [0.0] * 1000)


def _series(family, pairs):
    global _count
    with _lock:
        series = family.series.get(pairs)
        if series is None and _count < _SERIES_MOST:
            numbers = [0.0] * (3 + len(family.boundaries) if family.boundaries else 1)
            series = family.series[pairs] = _Series(family, pairs, numbers)
            _count += 1
    if series is None:
        warnings.warn(
            f"this process has {_SERIES_MOST} combinations of metrics and tags: further ones, as "
            f"of {family.name}, are not counted",
            RuntimeWarning,
            stacklevel=4,
        )
        _beyond.changed = True  # it is never sent
        return _beyond
    return series


# ---- sending ----

_awake = threading.Event()
_sleeps = True  # the sender waits to be woken, or was not started


def _note(series):
    """It has changed; with the lock held. Wakes the sender once a second at most."""
    global _sleeps
    series.changed = True
    _changed.append(series)
    if _sleeps:
        _sleeps = False
        _start()
        _awake.set()


_sender = None


def _start():
    global _sender
    if _sender is None or not _sender.is_alive():
        if _sender is None:
            atexit.register(flush)
        _sender = threading.Thread(target=_send, name="ray metrics", daemon=True)
        _sender.start()


def _send():
    global _sleeps
    while True:
        _awake.wait()
        _awake.clear()
        time.sleep(_PERIOD)
        with _lock:
            _sleeps = True  # from here on, a change wakes it again
        flush()


def flush() -> None:
    """Sends what has changed now; it is done by itself every second, and when a process ends.

    ray.util.metrics.flush()
    """
    if not _changed or not is_initialized():
        return
    try:
        _send_changes(kv.of_job())
    except Exception as error:  # the session has ended, or the daemon has no room
        if is_initialized():
            warnings.warn(f"metrics were lost: {error}", RuntimeWarning, stacklevel=2)


def _send_changes(of_job):
    with _lock:
        changed = _changed[:]
        _changed.clear()
        about, added, put = [], [], []
        for series in changed:
            series.changed = False
            family = series.family
            if family.told != session.epoch:
                family.told = session.epoch
                about.append((of_job + _ABOUT + family.name.encode(), family.about))
            numbers = pack(f"={len(series.numbers)}d", *series.numbers)
            if family.kind == "gauge":
                put.append((of_job + _SERIES + series.key, numbers))
            else:
                added.append((of_job + _SERIES + series.key, numbers))
                series.numbers[:] = [0.0] * len(series.numbers)
    for how, items in ((_core.KV_NEW, about), (_core.KV_PUT, put), (_core.KV_ADD, added)):
        if items:
            kv.write(how, items)


# ---- reading ----


def snapshot(address: "str | None" = None) -> str:
    """All metrics of the node in Prometheus' text form, with the job of each as a tag, JobId; names
    begin with "ray_", and those of counters end with "_total".

        print(ray.util.metrics.snapshot())

    What this process has changed is in it; what others have, as of a second ago. `address`: another
    session's, as for ray.util.state.list_jobs.
    """
    flush()
    if address is None and is_initialized():
        kept = kv.read(_core.KV_SCAN, kv.OF_JOB)
    else:
        from ray._private import sessions

        kept = _core.observe(sessions.find_socket(address), _core.QUERY_KEPT, 0, 30)
    about, series = {}, {}
    for key, value in kept:
        job, rest = key[1:5].hex(), key[5:]
        if rest.startswith(_ABOUT):
            about[job, rest.removeprefix(_ABOUT).decode()] = json.loads(value)
        elif rest.startswith(_SERIES):
            name, pairs = json.loads(rest.removeprefix(_SERIES))
            numbers = unpack(f"={len(value) // 8}d", value)
            series.setdefault(name, []).append((job, pairs, numbers))
    lines = []
    for name in sorted(series):
        lines += _told(name, series[name], about)
    return "".join(line + "\n" for line in lines)


def _told(name, rows, about):
    """The lines of one metric."""
    lines, shown = [], None
    for job, pairs, numbers in rows:
        kind, description, boundaries = about.get((job, name), ("untyped", "", None))
        full = f"ray_{name}"
        if kind == "counter" and not name.endswith("_total"):
            full += "_total"
        if shown != kind:
            shown = kind
            words = description.replace("\\", "\\\\").replace("\n", "\\n")
            lines += [f"# HELP {full} {words}", f"# TYPE {full} {kind}"]
        tags = [*pairs, ["JobId", job]]
        if kind != "histogram":
            lines.append(f"{full}{_tags(tags)} {_number(numbers[0])}")
            continue
        so_far = 0
        for boundary, count in zip([*boundaries, float("inf")], numbers[2:]):
            so_far += count
            lines.append(
                f"{full}_bucket{_tags([*tags, ['le', _number(boundary)]])} {_number(so_far)}"
            )
        lines.append(f"{full}_sum{_tags(tags)} {_number(numbers[1])}")
        lines.append(f"{full}_count{_tags(tags)} {_number(numbers[0])}")
    return lines


def _tags(pairs):
    def quoted(value):
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{key}="{quoted(value)}"' for key, value in pairs) + "}"


def _number(value):
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
