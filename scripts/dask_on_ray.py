"""A plugin of pytest that has dask's own tests computed by ray_dask_get: scripts/clients_own.py
loads it. dask's tests name their scheduler in most places ("sync", "threads"), so that it is not
enough to make ours the default: it goes by those names too. "processes" stays what it is.

At the end stands how many graphs it has computed.
"""

import pytest

NAMES = ("sync", "synchronous", "single-threaded", "threads", "threading")
computed = 0


@pytest.fixture(scope="session", autouse=True)
def dask_on_ray():
    # dask is imported only now: its conftest has pytest rewrite some of its modules before
    import dask.base

    import ray
    from ray.util.dask import enable_dask_on_ray, ray_dask_get

    def counted_get(dsk, keys, **kwargs):
        global computed
        computed += 1
        return ray_dask_get(dsk, keys, **kwargs)

    ray.init(num_cpus=2, log_to_driver=False)
    named = dict(dask.base.named_schedulers)
    dask.base.named_schedulers.update(dict.fromkeys(NAMES, counted_get))
    with enable_dask_on_ray(), dask.config.set(scheduler=counted_get):
        yield
    dask.base.named_schedulers.update(named)
    ray.shutdown()


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # in a process of pytest-xdist's
        session.config.workeroutput["computed"] = computed


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_testnodedown(node):
    global computed
    computed += getattr(node, "workeroutput", {}).get("computed", 0)


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{computed} graphs through ray_dask_get")
