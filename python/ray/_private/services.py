"""What `ray.init` finds out before it starts the daemon: programs, paths, and how much there is of
everything.
"""

import os
import sys

from ray import _core
from ray._private import options
from ray._private.labels import node_labels

LOOPBACK = "127.0.0.1"
_NAMESPACE_MAX, _ENTRYPOINT_MAX = 255, 1000  # bytes, as src/wire/setup.h has them


def node(
    num_cpus,
    num_gpus,
    resources,
    object_store_memory,
    memory,
    temp_dir,
    spill,
    labels=None,
    ip=LOOPBACK,
    is_head=True,
) -> dict:
    """What a daemon is started with. A session of one's own is the head of nothing else."""
    store = _bytes("object_store_memory", object_store_memory, _core.default_store())
    return {
        "daemon": os.path.join(
            os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin", "mobulad"
        ),
        "resources": node_resources(num_cpus, num_gpus, resources, memory, ip, is_head),
        "object_store_memory": store if object_store_memory is not None else 0,
        "temp_dir": temp_folder(temp_dir),
        "spill": spill_folders(spill),
        **({"labels": node_labels(labels)} if labels else {}),
    }


def job(namespace, log_to_driver) -> dict:
    """What a driver brings for its job."""
    from _pickle import dumps

    namespace = os.urandom(16).hex() if namespace is None else namespace
    if not isinstance(namespace, str) or not namespace:
        raise ValueError(f"namespace must be a str with something in it, not {namespace!r}")
    if "\0" in namespace or len(namespace.encode(errors="replace")) > _NAMESPACE_MAX:
        raise ValueError(
            f"namespace must have 1 to {_NAMESPACE_MAX} bytes, and no NUL among them, unlike "
            f"{namespace!r}"
        )
    paths = search_path()
    return {
        "argv": zygote_command(),
        "namespace": namespace,
        "entrypoint": entrypoint(),
        "log_to_driver": log_to_driver is None or bool(log_to_driver),
        "setup": dumps({"sys_path": paths, "namespace": namespace}, 5),
        "preload": [name for name in ("numpy",) if name in sys.modules],
    }


def entrypoint() -> str:
    """This program's command, for people; cut where it is long."""
    command = " ".join(sys.orig_argv).replace("\0", "")
    return command.encode(errors="replace")[:_ENTRYPOINT_MAX].decode(errors="ignore")


def node_resources(num_cpus, num_gpus, resources, memory, ip, is_head) -> dict:
    """Everything that tasks can ask this node for."""
    found = options.resources(resources) if resources is not None else {}
    found["CPU"] = (
        _core.default_cpus() if num_cpus is None else options.quantity("num_cpus", num_cpus)
    )
    found["GPU"] = _gpus(num_gpus)
    # The store's share is 30 %, so what remains for tasks is the rest of what its default was taken
    # from.
    found["memory"] = _bytes("_memory", memory, _core.default_store() * 7 // 3)
    found[f"node:{ip}"] = 1
    if is_head:
        found["node:__internal_head__"] = 1
    return {name: float(amount) for name, amount in found.items() if amount or name == "CPU"}


def _gpus(num_gpus):
    visible = visible_gpus()
    if num_gpus is None:
        return len(visible or ())
    options.quantity("num_gpus", num_gpus)
    if num_gpus != int(num_gpus):
        raise ValueError(f"num_gpus must be whole for a node, not {num_gpus}")
    if visible is not None and num_gpus > len(visible):
        raise ValueError(f"num_gpus={num_gpus}, but CUDA_VISIBLE_DEVICES has only {len(visible)}")
    return int(num_gpus)


def visible_gpus() -> "list[str] | None":
    """The GPUs that CUDA_VISIBLE_DEVICES leaves visible; None if it is not set."""
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return None
    found = []
    for name in value.split(","):
        name = name.strip()
        if name in ("", "-1", "NoDevFiles"):  # CUDA itself stops reading at the first that is none
            break
        found.append(name)
    return found


def _bytes(name, value, default):
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of bytes, not {type(value).__name__}")
    if not 0 < value < 1 << 62:
        raise ValueError(f"{name} must be a positive number of bytes, not {value}")
    return int(value)


def temp_folder(given) -> str:
    """Where the daemon makes its user's folder of sessions."""
    if given is not None:
        return _made("_temp_dir", given)
    base = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    return os.path.abspath(base)


def spill_folders(given) -> list:
    """Where objects go that memory has no room for: one folder, or several that are used by turns."""
    if given is None:
        return []
    found = []
    for folder in given if isinstance(given, (list, tuple)) else [given]:
        if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
            raise TypeError(
                f"object_spilling_directory must be a folder, or a list of folders, not {folder!r}"
            )
        path = _made("object_spilling_directory", folder)
        if not os.access(path, os.W_OK | os.X_OK):
            raise ValueError(f"object_spilling_directory {path} can't be written to")
        found.append(path)
    return found


def _made(name, folder) -> str:
    """The path of a folder that an option names, made if it is not there."""
    path = os.fspath(folder)
    try:
        path = os.path.abspath(path)
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{name} {path} can't be made: {error.strerror}") from None
    return path


def search_path() -> list:
    """Where workers look for modules: where this process does, seen from its folder of now."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was removed, and Python finds nothing there either
        here = ""
    return [str(path) or here for path in sys.path if isinstance(path, str) and (path or here)]


def zygote_command(interpreter: "list[str] | None" = None) -> list:
    """The command that starts the process workers are forked from: this interpreter, or the one that
    is given, and this very package, wherever another of its name lies.

    The command says nothing of sys.path, which comes with the job's setup: so drivers of the same
    interpreter have the same command, and a process that was started for one can serve the other.
    """
    flags = [] if interpreter else _flags()
    return [*(interpreter or [sys.executable]), *flags, "-S", "-c", _ZYGOTE, _PACKAGES]


def program_folder() -> str:
    """Where another Python finds this very package."""
    return _PACKAGES


_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# `del`: the folder where the command is started is not among the places to look at.
# -S and site.main(): what is imported as Python starts (a .pth file of Modin's imports pandas) must
# start no threads either, for this process is forked: see ray._private.threads.
_ZYGOTE = (
    "import sys, os, _frozen_importlib as inner, _frozen_importlib_external as outer; "
    "del sys.path[0]; given = os.environ.copy(); "
    "os.environ.update({'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1', "
    "'MKL_NUM_THREADS': '1'}); "
    "import site; site.main(); os.environ.clear(); os.environ.update(given); "
    "inner._load(outer.PathFinder.find_spec('ray', sys.argv[1:])); "
    "from ray._private import zygote; zygote.main()"
)


def _flags():
    return ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []


def get_node_ip_address(address=None) -> str:
    """The address of the node that this program has joined, or runs on; without one the address
    under which other machines reach this one, loopback if there is no network.

    print(ray.util.get_node_ip_address())       # 192.168.1.5, say
    """
    from ray._private.context import node_of

    node = node_of(_core.session()) if _core.is_connected() else None
    return route_address() if node is None or not node.ip else node.ip


def route_address(host="192.0.2.1", port=9) -> str:
    """The address of this machine from which that host is reached; by default the one that leads
    out, loopback if none does.
    """
    from _socket import AF_INET, SOCK_DGRAM, socket

    # Connecting a datagram socket sends nothing, but picks the interface (nobody has the address
    # above).
    probe = socket(AF_INET, SOCK_DGRAM)
    try:
        probe.connect((host, port))
        return probe.getsockname()[0]
    except OSError:
        return LOOPBACK
    finally:
        probe.close()


def get_node_instance_id() -> str:
    """What the cloud calls this machine, as RAY_CLOUD_INSTANCE_ID says; "" if that is not set.

    print(ray.util.get_node_instance_id())

        print(ray.util.get_node_instance_id())      # "" outside of a cloud
    """
    return os.environ.get("RAY_CLOUD_INSTANCE_ID", "")
