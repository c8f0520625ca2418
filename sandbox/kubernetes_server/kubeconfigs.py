"""Writes kubeconfig files for the sandbox Kubernetes: one cluster, one user with a token. Nothing else."""

import base64
import json
from pathlib import Path


def write_kubeconfig(
    path: Path, *, url: str, token: str, user: str, authority_pem: bytes | None = None
) -> Path:
    """Write for the owner's eyes only; the answer is `path`. JSON is YAML, so every client reads it."""
    cluster: dict[str, str] = {"server": url}
    if authority_pem is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority_pem).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user}}],
        "current-context": "sandbox",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path
