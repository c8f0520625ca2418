"""The pod of one of our own repairs, which acts on the host that it runs on.

Pure. It has the rights that the script needs and no more of the host's files; it never talks to the API.
"""

from collections.abc import Mapping
from typing import Any

from remediator.config import JobSettings, RepairKind
from remediator.repairs import script

_ENTERS_THE_HOST = frozenset({"reboot", "remount_nfs", "reset_gpu", "restart_unit"})
"""Repairs that call a program in the host's mount namespace, which they find by its process 1."""
_READS_FSTAB = frozenset({"remount_nfs"})


def own_pod(
    kind: RepairKind, arguments: tuple[str, ...], env: Mapping[str, str], jobs: JobSettings
) -> dict[str, Any]:
    """The PodSpec; where it runs is added by the caller."""
    volumes = _host_folders(kind)
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "serviceAccountName": jobs.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": jobs.priority_class,
        "terminationGracePeriodSeconds": 5,
        "containers": [_container(kind, arguments, env, jobs)],
        "volumes": [
            {"name": name, "hostPath": {"path": path, "type": type_}}
            for name, path, type_, _ in volumes
        ],
    }
    if kind in _ENTERS_THE_HOST:
        pod["hostPID"] = True
    if jobs.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in jobs.image_pull_secrets]
    return pod


def _container(
    kind: RepairKind, arguments: tuple[str, ...], env: Mapping[str, str], jobs: JobSettings
) -> dict[str, Any]:
    # No resources: a pod that is pinned past the scheduler is refused by a full node if it requests any.
    return {
        "name": "repair",
        "image": jobs.image,
        "imagePullPolicy": jobs.image_pull_policy,
        "command": ["/bin/sh", "-c", script(kind), kind, *map(literal, arguments)],
        "env": [{"name": name, "value": literal(value)} for name, value in env.items()],
        "securityContext": {"privileged": True, "runAsUser": 0, "runAsGroup": 0},
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": name, "mountPath": f"/host{path}"} | ({"readOnly": True} if read_only else {})
            for name, path, _, read_only in _host_folders(kind)
        ],
    }


def _host_folders(kind: RepairKind) -> tuple[tuple[str, str, str, bool], ...]:
    """Name, path, type, whether read-only. Not the whole `/`: a copy of a mount that hangs keeps it alive."""
    folders = [
        ("proc", "/proc", "Directory", False),
        ("marks", "/run/nodemend", "DirectoryOrCreate", False),
    ]
    if kind in _READS_FSTAB:
        folders.append(("etc", "/etc", "Directory", True))
    return tuple(folders)


def literal(value: str) -> str:
    """`value` so that the kubelet hands it over as it is: it replaces `$(NAME)`, and `$$` by `$`."""
    return value.replace("$", "$$") if "$(" in value or "$$" in value else value
