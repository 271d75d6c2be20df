"""`ray start`: starts a node that outlives the programs that use it."""

import argparse
import json
import os
import signal
import sys

# Options of Ray that mean nothing here: the number of values that each takes.
_MEANINGLESS = {
    "--disable-usage-stats": 0,
    "--no-monitor": 0,
    "--enable-object-reconstruction": 0,
    "--autoscaling-config": 1,
    "--dashboard-agent-grpc-port": 1,
    "--dashboard-agent-listen-port": 1,
    "--dashboard-grpc-port": 1,
    "--gcs-server-port": 1,
    "--max-worker-port": 1,
    "--metrics-export-port": 1,
    "--min-worker-port": 1,
    "--node-manager-port": 1,
    "--object-manager-port": 1,
    "--plasma-directory": 1,
    "--plasma-store-socket-name": 1,
    "--ray-client-server-port": 1,
    "--ray-debugger-external": 0,
    "--raylet-socket-name": 1,
    "--redis-password": 1,
    "--redis-shard-ports": 1,
    "--redis-username": 1,
    "--runtime-env-agent-port": 1,
    "--tracing-startup-hook": 1,
    "--worker-port-list": 1,
}


def _bool(text):
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no"):
        return False
    raise argparse.ArgumentTypeError(f"true or false, not {text!r}")


def _parser():
    parser = argparse.ArgumentParser("ray start", description=__doc__)
    parser.add_argument("--head", action="store_true", help="the first node: the only one, so far")
    parser.add_argument("--address", help="of a cluster to join: clusters are not there yet")
    parser.add_argument(
        "--port", type=int, default=6379, help="of its address; 0: any that is free"
    )
    parser.add_argument("--node-ip-address", help="the address that it is called by")
    parser.add_argument("--num-cpus", type=float)
    parser.add_argument("--num-gpus", type=float)
    parser.add_argument("--resources", default="{}", help="JSON: names and amounts")
    parser.add_argument("--memory", type=float, help="bytes that tasks can ask for")
    parser.add_argument("--object-store-memory", type=float, help="bytes")
    parser.add_argument("--object-spilling-directory")
    parser.add_argument("--temp-dir", help="where the node's folder is made")
    parser.add_argument("--include-dashboard", type=_bool)
    parser.add_argument("--dashboard-host")
    parser.add_argument("--dashboard-port", type=int)
    parser.add_argument("--labels", help="of the node: key=value,key=value")
    parser.add_argument("--node-name")
    parser.add_argument("--redis")
    parser.add_argument(
        "--block", action="store_true", help="stay until the node ends; Ctrl-C ends it"
    )
    for name, values in _MEANINGLESS.items():
        how = {"action": "store_true"} if values == 0 else {}
        parser.add_argument(name, help=argparse.SUPPRESS, dest="meaningless" + name, **how)
    return parser


def main(args) -> int:
    options = _parser().parse_args(args)
    problem = _problem(options)
    if problem:
        print(f"ray start: {problem}", file=sys.stderr)
        return 2
    for name in _MEANINGLESS:
        if getattr(options, "meaningless" + name):
            print(f"{name} means nothing here, and is left alone.")
    from ray import _core
    from ray._private import sessions
    from ray.exceptions import RayError

    sessions.forget_dead()
    try:
        pid, folder = _core.start_node(_config(options))
        sessions.register(folder)
    except (ValueError, TypeError, OSError, RuntimeError, RayError) as error:
        print(f"ray start: {error}", file=sys.stderr)
        return 1
    _tell(sessions.Node(folder))
    if not options.block:
        return 0
    status = _stay(pid)
    sessions.forget_dead()
    return status


def _problem(options):
    """What can't be done; None if all can."""
    from ray._private import labels

    if options.address:
        return "joining a cluster (--address) is not in Mobula yet: use --head"
    if not options.head:
        return "say --head: it is the first node, and the only one that there can be so far"
    for name in ("node_name", "redis"):
        if getattr(options, name):
            return f"--{name.replace('_', '-')} is not in Mobula yet"
    if options.include_dashboard:
        return "there is no dashboard yet: leave --include-dashboard out"
    if not 0 <= options.port <= 65535:
        return f"--port is a number from 0 to 65535, not {options.port}"
    try:
        if options.labels:
            labels.node_labels(labels.from_text(options.labels))
    except ValueError as error:
        return f"--labels: {error}"
    try:
        if not isinstance(json.loads(options.resources), dict):
            raise ValueError
    except ValueError:
        return f'--resources is JSON like {{"special": 1}}, not {options.resources!r}'
    return None


def _config(options) -> dict:
    from ray._private import labels, services

    resources = json.loads(options.resources)
    ip = options.node_ip_address or services.get_node_ip_address()
    return {
        **services.node(
            options.num_cpus,
            options.num_gpus,
            resources or None,
            options.object_store_memory,
            options.memory,
            options.temp_dir,
            options.object_spilling_directory,
            labels.from_text(options.labels or ""),
        ),
        **services.job(None, False),  # what drivers will have, in most cases
        "address": f"{ip}:{options.port}",
    }


def _tell(node):
    line = "-" * 20
    ip = node.address.rpartition(":")[0]
    print(f"Local node IP: {ip}\n\n{line}\nRay runtime started.\n{line}\n\nNext steps")
    print("  To use it, in a program of this user on this machine:")
    print("    import ray")
    print(f"    ray.init()   # or: ray.init(address={node.address!r})\n")
    print("  To look at it:\n    ray status\n")
    print("  To end it:\n    ray stop", flush=True)


def _stay(pid) -> int:
    """Waits for the daemon's end; SIGTERM and Ctrl-C end it."""
    asked = False

    def on_signal(number, frame):
        nonlocal asked
        asked = True
        os.kill(pid, signal.SIGTERM)  # this process's child: the number is its

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    print("\n--block: this command ends with the node.", flush=True)
    _, status = os.waitpid(pid, 0)
    if asked or os.waitstatus_to_exitcode(status) == 0:
        return 0
    print("ray start: the node's daemon has died.", file=sys.stderr)
    return 1
