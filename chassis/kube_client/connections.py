"""TLS connections that leave no socket open when the server hangs up before the handshake.

Python's `ssl` before 3.12 loses such a socket: it has taken the descriptor over, finds the connection reset, and raises
without closing. An API server that is restarted resets many. Knows nothing of requests or credentials.
"""

import errno
import ssl

import urllib3
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPSConnectionPool
from urllib3.util.ssl_ import create_urllib3_context, resolve_cert_reqs

_NOT_CONNECTED = (errno.ENOTCONN, errno.EINVAL)  # `ssl` goes on after these


class _Socket(ssl.SSLSocket):
    """Closes itself where it would be lost."""

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """As ever. An error before TLS is spoken comes out of the constructor, where nobody can close it."""
        try:
            return super().recv(buflen, flags)
        except OSError as error:
            if self.version() is None and error.errno not in _NOT_CONNECTED:
                self.close()
            raise


class _Connection(HTTPSConnection):
    def connect(self) -> None:
        """As ever, by a context as urllib3 makes one itself."""
        context = create_urllib3_context(cert_reqs=resolve_cert_reqs(self.cert_reqs))
        context.sslsocket_class = _Socket
        if not (self.ca_certs or self.ca_cert_dir or self.ca_cert_data):
            context.load_default_certs()
        self.ssl_context = context
        super().connect()


class _Pool(HTTPSConnectionPool):
    ConnectionCls = _Connection


def leave_nothing_open(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """Have the manager's HTTPS connections made here; to be called before its first request."""
    manager.pool_classes_by_scheme = {**manager.pool_classes_by_scheme, "https": _Pool}
    return manager
