"""Which process serves which node when several share a cluster. Pure."""

import hashlib


def shard_of(node: str, total: int) -> int:
    """The number of the shard, from 0, that serves the node: the same in every process and version."""
    digest = hashlib.blake2b(node.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) % total
