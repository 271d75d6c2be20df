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
    parser.add_argument("--head", action="store_true", help="the first node of a cluster")
    parser.add_argument("--address", help="HOST:PORT of a node, mostly the head, to join")
    parser.add_argument(
        "--port", type=int, help="of this node; 0: any that is free (6379 with --head, else 0)"
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
    parser.add_argument("--node-name", help="for people; its address by default")
    parser.add_argument(
        "--redis", help="HOST:PORT that the head keeps its cluster in; by default it starts one"
    )
    parser.add_argument("--redis-sentinel", help="the same: NAME@HOST:PORT,HOST:PORT,...")
    parser.add_argument("--redis-password-file", help="RAY_REDIS_PASSWORD is read too")
    parser.add_argument(
        "--redis-port", type=int, default=0, help="of the Redis that the head starts; 0: any"
    )
    parser.add_argument(
        "--system-config", default="{}", help="JSON, of the cluster: health_check_period_ms, ..."
    )
    parser.add_argument("--tls-cert", help="a PEM file; with --tls-key and --tls-ca")
    parser.add_argument("--tls-key", help="a PEM file")
    parser.add_argument("--tls-ca", help="a PEM file: who signed the certificates of all nodes")
    parser.add_argument(
        "--block", action="store_true", help="stay until the node ends; Ctrl-C ends it"
    )
    for name, values in _MEANINGLESS.items():
        how = {"action": "store_true"} if values == 0 else {}
        parser.add_argument(name, help=argparse.SUPPRESS, dest="meaningless" + name, **how)
    return parser


def main(args, tell=None) -> int:
    """Starts it. `tell`: what is printed of the node that was started, and its part."""
    options = _parser().parse_args(args)
    problem = _problem(options)
    if problem:
        print(f"ray start: {problem}", file=sys.stderr)
        return 2
    for name in _MEANINGLESS:
        if getattr(options, "meaningless" + name) and tell is None:
            print(f"{name} means nothing here, and is left alone.")
    from ray._private import sessions
    from ray.exceptions import RayError

    dead = sessions.forget_dead()
    try:
        pid, node, part = _start(options, dead)
    except (ValueError, TypeError, OSError, RuntimeError, RayError) as error:
        print(f"ray start: {error}", file=sys.stderr)
        return 1
    (tell or _tell)(node, part)
    if not options.block:
        return 0
    status = _stay(pid, node.folder)
    sessions.forget_dead()
    if status == 0:
        _end_redis(node)
    return status


def _start(options, dead):
    from ray import _core
    from ray._private import clusters, services, sessions, system_config

    os.environ.update(system_config.environment(json.loads(options.system_config)))
    _look_up(options)
    ip = _own_address(options, services)
    part = clusters.head(ip, options) if options.head else clusters.joiner(options)
    with part as found:
        config = _config(options, ip)
        config["cluster"] = found.words + _words(options, dead)
        pid, folder = _core.start_node(config)
        sessions.register(folder)
        return pid, sessions.Node(folder), found


def _look_up(options):
    """Names of machines, once: the daemons keep what they stand for now, and tell it each other."""
    from ray._private import addresses

    if options.address:
        options.address = addresses.in_digits(options.address)
    if options.redis:
        options.redis = addresses.in_digits(options.redis)
    if options.redis_sentinel:
        options.redis_sentinel = addresses.sentinels_in_digits(options.redis_sentinel)


def _own_address(options, services):
    """What was given; else from where this machine reaches the node that it joins; a head: the
    world.
    """
    if options.node_ip_address:
        _refuse_foreign(options.node_ip_address)
        return options.node_ip_address
    if options.head:
        return services.route_address()
    host, _, port = options.address.rpartition(":")
    return services.route_address(host, int(port))


def _refuse_foreign(ip):
    import socket

    try:
        with socket.socket() as probe:
            probe.bind((ip, 0))
    except OSError as error:
        raise ValueError(
            f"--node-ip-address={ip} is no address of this machine: {error.strerror}"
        ) from None


def _words(options, dead) -> list:
    """`dead`: nodes that have died on this machine, which the cluster may not know yet."""
    names = ("node_name", "tls_cert", "tls_key", "tls_ca")
    given = [(name.replace("_", "-"), getattr(options, name)) for name in names]
    given.append(("buries", ",".join(f"{node.cluster}:{node.node_id}" for node in dead)))
    given.append(("python", f"{sys.version_info[0]}.{sys.version_info[1]}"))
    return [f"--{name}={value}" for name, value in given if value]


def _problem(options):
    """What can't be done; None if all can."""
    if options.head and options.address:
        return (
            "--head begins a cluster, and --address joins one: say one of them. (Which address the "
            "head is called by: --node-ip-address and --port)"
        )
    if not options.head and not options.address:
        return "say --head for the first node of a cluster, or --address=HOST:PORT to join one"
    for name in ("port", "redis_port"):
        if not 0 <= (getattr(options, name) or 0) <= 65535:
            spelled = "--" + name.replace("_", "-")
            return f"{spelled} is a number from 0 to 65535, not {getattr(options, name)}"
    if options.include_dashboard:
        return "there is no dashboard yet: leave --include-dashboard out"
    return _problem_of_cluster(options) or _problem_of_node(options)


def _problem_of_cluster(options):
    from ray._private import addresses

    if options.address and not addresses.is_address(options.address):
        return f"--address is HOST:PORT of a node of the cluster, not {options.address!r}"
    for name in ("redis", "redis_sentinel"):
        spelled = "--" + name.replace("_", "-")
        if getattr(options, name) and not options.head:
            return f"{spelled} is for the head: the node at {options.address} says where Redis is"
        if getattr(options, name) and getattr(options, "meaningless--redis-password"):
            return (
                "--redis-password could be read by every user of this machine: put the password "
                "into a file for --redis-password-file, or into RAY_REDIS_PASSWORD"
            )
    if options.redis and options.redis_sentinel:
        return "say --redis or --redis-sentinel, not both"
    if options.redis and not addresses.is_address(options.redis):
        return f"--redis is HOST:PORT, not {options.redis!r}"
    if options.redis_sentinel and not addresses.are_sentinels(options.redis_sentinel):
        return f"--redis-sentinel is NAME@HOST:PORT,HOST:PORT,..., not {options.redis_sentinel!r}"
    if options.redis_port and (options.redis or options.redis_sentinel or options.address):
        return "--redis-port is for a Redis that the head starts itself"
    if options.system_config != "{}" and not options.head:
        return f"--system-config is for the head: the node at {options.address} says it"
    files = [options.tls_cert, options.tls_key, options.tls_ca]
    if any(files) and not all(files):
        return "--tls-cert, --tls-key and --tls-ca are given together"
    missing = [path for path in files if path and not os.path.isfile(path)]
    return f"there is no file {missing[0]}" if missing else None


def _problem_of_node(options):
    from ray._private import labels

    try:
        if options.labels:
            labels.node_labels(labels.from_text(options.labels))
    except ValueError as error:
        return f"--labels: {error}"
    for name, example in (("resources", '{"special": 1}'), ("system_config", '{"a": 1}')):
        try:
            if not isinstance(json.loads(getattr(options, name)), dict):
                raise ValueError
        except ValueError:
            spelled = name.replace("_", "-")
            return f"--{spelled} is JSON like {example}, not {getattr(options, name)!r}"
    return None


def _config(options, ip) -> dict:
    from ray._private import labels, services

    resources = json.loads(options.resources)
    port = (6379 if options.head else 0) if options.port is None else options.port
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
            ip,
            options.head,
        ),
        **services.job(None, False),  # what drivers will have, in most cases
        "address": f"{ip}:{port}",
    }


def _tell(node, part):
    line = "-" * 20
    print(f"Local node IP: {node.ip}\n\n{line}\nRay runtime started.\n{line}\n\nNext steps")
    if part.is_alone:
        print("  No other node can join this one: there is no Redis on this machine. Install")
        print("  Debian's package redis-server, then `ray stop`, and start it again.\n")
    else:
        _tell_how_to_join(node, part)
    print("  To use it, in a program of this user on this machine:")
    print("    import ray")
    print(f"    ray.init()   # or: ray.init(address={node.address!r})\n")
    print("  To look at it:\n    ray status\n")
    print("  To end it:\n    ray stop", flush=True)


def _tell_how_to_join(node, part):
    from ray._private import token

    if part.is_found:
        print(f"  Redis at {part.redis.address} was there: this is the cluster of before.\n")
    print("  To add another node to this cluster, on another machine:")
    print(f"    ray start --address='{node.address}'")
    where = token.place()
    if where == "RAY_AUTH_TOKEN":
        print("  which needs the same RAY_AUTH_TOKEN.\n")
    else:
        print("  which needs the cluster's token, readable by nobody else:")
        print(f"    ssh HOST mkdir -m 700 -p .ray && scp -p {where} HOST:.ray/auth_token\n")


def _end_redis(node):
    from ray._private import redis_server

    if node.cluster:
        for words in redis_server.end_unused({node.cluster})[1]:
            print(words, file=sys.stderr)


def _stay(pid, folder) -> int:
    """Waits for the daemon's end; SIGTERM and Ctrl-C end it."""
    asked = False

    def on_signal(number, frame):
        nonlocal asked
        asked = True
        os.kill(pid, signal.SIGTERM)  # this process's child: the number is its

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    with _opened_log(folder) as log:
        print("\n--block: this command ends with the node.", flush=True)
        _tell_systemd()
        code = _exit_code(pid)
        if asked or code == 0:
            return 0
        why = f"was killed by signal {-code}" if code < 0 else _last_line(log)
    print(f"ray start: the node's daemon has died: {why}", file=sys.stderr)
    return 1


def _opened_log(folder):
    """The daemon removes its name; what is open can still be read."""
    try:
        return open(os.path.join(folder, "cluster.log"))
    except OSError:  # the daemon has ended already, or its disk is full
        return open(os.devnull)


def _exit_code(pid) -> int:
    """Of this child. The first process of a container gets everybody's orphans, too."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def _last_line(log) -> str:
    return log.read().rstrip("\n").rpartition("\n")[2] or "cluster.log says nothing"


def _tell_systemd():
    """That the node is there, where a unit of Type=notify waits for that."""
    import socket

    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.sendto(b"READY=1", "\0" + path[1:] if path.startswith("@") else path)
