"""Whose node or instance it is, by an admin's list of names, globs and networks."""

from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from alerts2gh.config import OwnerRule

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


def rule_for(rules: tuple[OwnerRule, ...], values: tuple[str, ...]) -> OwnerRule | None:
    """Find the first rule that fits one of the values, each a name or address with or without a port."""
    spellings = [(value, host_of(value)) for value in values if value]
    for rule in rules:
        if any(_fits(rule.match, value, host) for value, host in spellings):
            return rule
    return None


def host_of(value: str) -> str:
    """Take the scheme, the port and the brackets off an instance: `[fe80::1]:9100` is `fe80::1`."""
    if _address(value):
        return value
    try:
        host = urlsplit(value if "://" in value else f"//{value}").hostname
    except ValueError:
        return value
    return host or value


def _fits(match: str, value: str, host: str) -> bool:
    network = _network(match)
    if network:
        address = _address(host)
        return address is not None and _contains(network, address)
    lowered = match.lower()
    return any(fnmatchcase(each.lower(), lowered) for each in (value, host)) or match == value


@lru_cache(maxsize=4096)
def _network(text: str) -> Network | None:
    """Read a CIDR, or a single address, which is the network of one."""
    try:
        return ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _address(text: str) -> Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _contains(network: Network, address: Address) -> bool:
    return network.version == address.version and address in network
