"""HOST:PORT as people write it, and in digits, as the daemons want it."""

import socket


def is_address(text) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 65536


def are_sentinels(text) -> bool:
    """NAME@HOST:PORT,HOST:PORT,..."""
    name, _, addresses = text.partition("@")
    return bool(name) and all(is_address(address) for address in addresses.split(","))


def in_digits(address) -> str:
    """The same with the IPv4 address that the host's name stands for now. OSError: for none."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(f"{host}, of {address}, is no name of a machine: {error.strerror}") from None
    return f"{found[0][4][0]}:{port}"


def sentinels_in_digits(text) -> str:
    """The same for all of them."""
    name, _, addresses = text.partition("@")
    return f"{name}@{','.join(map(in_digits, addresses.split(',')))}"
