"""What a program would like the cluster to have."""

import json

from ray import _core
from ray._private import kv, options
from ray._private.later import not_yet
from ray._private.worker import start_if_needed

__all__ = ["request_resources"]

KEY = b"request_resources"


def request_resources(
    num_cpus: "int | None" = None,
    bundles: "list[dict] | None" = None,
    bundle_label_selectors: "list[dict] | None" = None,
) -> None:
    """Notes that the program would like so much. `ray status` shows it as a demand until the
    program ends or asks for something else; nothing is started on account of it.

        ray.autoscaler.sdk.request_resources(num_cpus=64)
        ray.autoscaler.sdk.request_resources(bundles=[{"CPU": 1, "GPU": 1}] * 4)
        ray.autoscaler.sdk.request_resources()  # no more of it
    """
    if bundle_label_selectors:
        raise not_yet("bundle_label_selectors of request_resources")
    wanted = []
    if num_cpus is not None:
        if isinstance(num_cpus, bool) or not isinstance(num_cpus, int) or num_cpus < 0:
            raise TypeError(f"num_cpus must be an int of 0 or more, not {num_cpus!r}")
        wanted += [{"CPU": 1}] * num_cpus
    for bundle in bundles or ():
        if not isinstance(bundle, dict):
            raise TypeError(f"a bundle is a dict of resources, not {bundle!r}")
        wanted.append({name: options.quantity(name, amount) for name, amount in bundle.items()})
    start_if_needed()
    counted = {}
    for bundle in wanted:
        text = json.dumps(bundle, sort_keys=True)
        counted[text] = counted.get(text, 0) + 1
    what = _core.KV_PUT if counted else _core.KV_DROP
    kv.write(what, [(kv.of_job(KEY), json.dumps(counted).encode() if counted else b"")])
