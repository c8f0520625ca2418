"""The embedded GitHub: an HTTP server that behaves as GitHub's REST API for issues.

For the demo, the tests and the benchmarks. Speaks only HTTP to the outside and imports no service.
"""

from sandbox.github_server.app import create_github
from sandbox.github_server.faults import Fault, FaultKind
from sandbox.github_server.human import Human
from sandbox.github_server.running import GitHubServer, SandboxGitHub
from sandbox.github_server.state import GitHubState, Switches

__all__ = [
    "Fault",
    "FaultKind",
    "GitHubServer",
    "GitHubState",
    "Human",
    "SandboxGitHub",
    "Switches",
    "create_github",
]
