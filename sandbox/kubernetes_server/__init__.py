"""An embedded Kubernetes API over HTTP for tests, the demo and benchmarks: in memory, with faults on request.

It behaves as kube-apiserver 1.36 does in what Nodemend uses; the contract tests hold both to the
same. ValidatingAdmissionPolicy, quotas, OpenAPI and field ownership are kept or ignored, not enforced.
"""

from sandbox.kubernetes_rules.statuses import Refusal
from sandbox.kubernetes_server.audit import AuditEntry
from sandbox.kubernetes_server.control import Control, Fault, FaultKind
from sandbox.kubernetes_server.running import SandboxKubernetes

__all__ = ["AuditEntry", "Control", "Fault", "FaultKind", "Refusal", "SandboxKubernetes"]
