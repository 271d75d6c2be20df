"""What `ray.init` returns."""

import sys
from _collections_abc import Mapping


def node_of(session):
    """The node of `ray start` that a session is on; None: the session is a program's own, or its
    node has just ended.
    """
    if not session["session_dir"]:  # local mode
        return None
    from ray._private.sessions import Node

    try:
        return Node(session["session_dir"])
    except (OSError, ValueError):
        return None


def address_of(session):
    """Of the node that this process has joined; None: the session is its own."""
    node = node_of(session)
    return node and (node.address or node.folder)


class RayContext(Mapping):
    """What there is to know about the session, as attributes and by key; as a `with` block, it ends
    the session.
    """

    def __init__(self, session: dict):
        from ray._private.services import LOOPBACK
        from ray._version import version

        node = node_of(session)
        self.python_version = ".".join(map(str, sys.version_info[:3]))
        self.ray_version = version
        self.ray_commit = ""
        self.dashboard_url = None
        self.address_info = {
            "node_ip_address": node.ip if node is not None and node.ip else LOOPBACK,
            "node_id": session.get("node_id"),
            "session_dir": session.get("session_dir"),
            "raylet_socket_name": session.get("socket"),
            "object_store_address": session.get("socket"),
            "webui_url": "",
            "gcs_address": address_of(session) or "",
            "redis_address": None,
            "metrics_export_port": None,
            "dashboard_agent_listen_port": None,
            "address": address_of(session) or "local",
        }

    def __getitem__(self, key):
        return self.address_info[key]

    def __iter__(self):
        return iter(self.address_info)

    def __len__(self):
        return len(self.address_info)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.disconnect()

    def disconnect(self):
        """Ends the session."""
        from ray._private.worker import shutdown

        shutdown()

    def _rows(self):
        return [
            ("Python version", self.python_version),
            ("Ray version", self.ray_version),
            ("Dashboard", self.dashboard_url or "none"),
        ]

    def __repr__(self):
        return f"RayContext({', '.join(f'{name}: {value}' for name, value in self._rows())})"

    def _repr_html_(self):
        from html import escape

        cell = '<td style="text-align: left">{}</td>'
        rows = "".join(
            f"<tr>{cell.format(f'<b>{escape(name)}:</b>')}{cell.format(f'<b>{escape(value)}</b>')}</tr>"
            for name, value in self._rows()
        )
        return f"<table>{rows}</table>"
