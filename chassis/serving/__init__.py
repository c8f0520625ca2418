"""Serving WSGI over HTTP/1.1 and TLS from threads of this process, with reload and drain.

The server library was chosen by `bench/serving.py`; only `granian_worker` knows it.
"""

from chassis.serving.bridge import Pieces
from chassis.serving.certificates import CertificateError
from chassis.serving.server import ListenError, Server
from chassis.serving.settings import ServingSettings, TLSSettings

__all__ = ["CertificateError", "ListenError", "Pieces", "Server", "ServingSettings", "TLSSettings"]
