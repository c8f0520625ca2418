"""Everything that one sandbox Kubernetes consists of, for those who act on it. Composed in `running`."""

from dataclasses import dataclass

from sandbox.kubernetes_server.access import Tokens
from sandbox.kubernetes_server.catalogue import Catalogue
from sandbox.kubernetes_server.control import Control
from sandbox.kubernetes_server.objects import Objects
from sandbox.kubernetes_server.storage import Store


@dataclass(frozen=True, slots=True)
class Cluster:
    """`bookmark_seconds`: how often a watch that wants bookmarks gets one."""

    store: Store
    catalogue: Catalogue
    objects: Objects
    tokens: Tokens
    control: Control
    rbac: bool
    bookmark_seconds: float = 60.0
