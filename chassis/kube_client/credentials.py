"""From a kubeconfig or a pod's service account to a connection pool and an Authorization header.

The only module that imports the `kubernetes` package: its configuration loading (contexts, exec
plug-ins, token files) and its TLS and proxy set-up. None of its models is ever built.
"""

import threading
import time
from pathlib import Path

import urllib3
import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import (
    ConfigException,
    load_incluster_config,
    load_kube_config,
)

from chassis.errors import PermanentError
from chassis.kube_client.connections import leave_nothing_open
from chassis.kube_client.settings import KubeSettings

_KNOWN_SECONDS = 1.0
_POOL_SIZE = 32
_RELOAD_PAUSE = 5.0  # seconds between two reloads that a 401 asks for


class Credentials:
    """Where the API is and who we are, kept up to date.

    A service account's token is read anew each minute (by the library); after a 401 everything
    is loaded anew, as a kubeconfig's token file or exec plug-in may have something newer.
    """

    def __init__(self, settings: KubeSettings) -> None:
        """Load everything once.

        Raises:
            PermanentError: The files are missing, unreadable or make no sense.
        """
        self._settings = settings
        self._lock = threading.Lock()
        self._configuration = _load(settings)
        self._loaded_at = time.monotonic()
        self._known: tuple[float, str | None] | None = None

    @property
    def host(self) -> str:
        """The API's URL without a slash at its end."""
        return str(self._configuration.host).rstrip("/")

    def new_pool(self) -> urllib3.PoolManager:
        """Connections to the API; safe to use from many threads; never retries by itself."""
        return leave_nothing_open(RESTClientObject(self._configuration).pool_manager)

    def authorization(self) -> str | None:
        """The header's value; None when a client certificate, or nothing, says who we are.

        Asked of the library at most each second: it makes a whole configuration each time.
        """
        known, now = self._known, time.monotonic()
        if known is not None and now - known[0] < _KNOWN_SECONDS:
            return known[1]
        value = self._read_authorization()
        self._known = (now, value)
        return value

    def _read_authorization(self) -> str | None:
        try:
            value = self._configuration.get_api_key_with_prefix("BearerToken")
        except (OSError, ConfigException) as error:
            raise PermanentError(f"cannot read the Kubernetes token: {error}") from error
        return value.strip() if value else None

    def reload(self) -> bool:
        """Load anew after a 401; whether the header is another one now. At most every 5 s."""
        with self._lock:
            before = self.authorization()
            if time.monotonic() - self._loaded_at >= _RELOAD_PAUSE:
                self._configuration = _load(self._settings)
                self._loaded_at = time.monotonic()
            self._known = None
            return self.authorization() != before


def _load(settings: KubeSettings) -> Configuration:
    configuration = Configuration()
    configuration.retries = False  # the callers decide what is tried again
    configuration.connection_pool_maxsize = _POOL_SIZE
    configuration.keep_alive = True
    if settings.kubeconfig is None:
        _load_service_account(configuration)
    else:
        _load_kubeconfig(settings.kubeconfig, settings.context, configuration)
    return configuration


def _load_service_account(configuration: Configuration) -> None:
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
    except (ConfigException, OSError) as error:
        raise PermanentError(
            f"no service account of a pod here: {error}"
            " Outside a cluster, set `kubeconfig` to a kubeconfig file."
        ) from error


def _load_kubeconfig(path: Path, context: str | None, configuration: Configuration) -> None:
    try:
        load_kube_config(  # type: ignore[no-untyped-call]  # theirs has no types
            config_file=str(path),
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
    except (ConfigException, OSError, yaml.YAMLError) as error:
        raise PermanentError(f"cannot use the kubeconfig {path}: {error}") from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise PermanentError(f"{path} is not a usable kubeconfig: {error!r}") from error
