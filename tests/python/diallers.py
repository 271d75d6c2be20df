"""Whoever dials a node's port: src/net/README.md's handshake, said by hand, rightly or wrongly."""

import hashlib
import hmac
import os
import socket
import struct
import sys

MAGIC = b"MOBULA\r\n"
GREETING, IDENTITY, PROOF = 48, 96, 32
CLAIM, ANSWER = IDENTITY + PROOF, 4 + IDENTITY + PROOF
FRAMES, BULK, JOIN = 1, 2, 3
WELCOME, WRONG_TOKEN, WRONG_CLUSTER, WRONG_VERSION, WRONG_NODE, DEAD, BUSY = range(7)
LIMIT = 20  # seconds until a node answers, or hangs up on one that says nothing


def secret_of(token: bytes) -> bytes:
    """HKDF of one block."""
    key = hmac.new(bytes(32), token, hashlib.sha256).digest()
    return hmac.new(key, b"mobula: the secret of a cluster\1", hashlib.sha256).digest()


def proof(secret, side, *pieces) -> bytes:
    label = f"mobula: the {side} knows".encode() + b"\0"
    return hmac.new(secret, label + b"".join(pieces), hashlib.sha256).digest()


def greeting(version=1, nonce=None) -> bytes:
    return MAGIC + struct.pack("<II", version, 0) + (nonce or os.urandom(32))


def identity(cluster=0, incarnation=1, wanted=0, purpose=JOIN, version="0.1.0", python=None):
    major, minor = python or sys.version_info[:2]
    head = struct.pack("<QQQBBBH", cluster, incarnation, wanted, purpose, major, minor, 1)
    return (head + version.encode()).ljust(IDENTITY, b"\0")


def address_of(node) -> tuple:
    host, port = node.address.rsplit(":", 1)
    return host, int(port)


class Dialler:
    """A connection to a node."""

    def __init__(self, node, token=None):
        if token is None:
            token = os.environ["RAY_AUTH_TOKEN"].encode()
        self.secret = secret_of(token)
        self.socket = socket.create_connection(address_of(node), timeout=LIMIT)
        self.said = b""

    def say(self, bytes_):
        self.said += bytes_
        self.socket.sendall(bytes_)

    def hear(self, size) -> bytes:
        """So many bytes, or fewer if the node hangs up."""
        heard = b""
        try:
            while len(heard) < size and (part := self.socket.recv(size - len(heard))):
                heard += part
        except OSError:
            pass
        return heard

    def greet(self, own=None) -> bytes:
        """Both greetings."""
        own = own or greeting()
        self.say(own)
        return own + self.hear(GREETING)

    def shake(self, who=None, proved=None, own=None) -> tuple:
        """The verdict and the acceptor's answer; (None, what came of it) if it hangs up."""
        greetings = self.greet(own)
        who = who or identity()
        self.say(who + (proved or proof(self.secret, "dialler", greetings, who)))
        answer = self.hear(ANSWER)
        if len(answer) < ANSWER:
            return None, answer
        verdict = struct.unpack_from("<I", answer)[0]
        if verdict != WRONG_TOKEN:
            right = proof(self.secret, "acceptor", greetings, who, answer[:4], answer[4:-PROOF])
            assert answer[-PROOF:] == right
        return verdict, answer

    def is_shut(self) -> bool:
        """The node has hung up, without another word."""
        return self.hear(1) == b""

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
