"""`remediator import`: manifests of node-operation-controller become playbooks, job templates and budgets.

It reads files and writes text; it touches no cluster. What has no counterpart is said, never dropped silently.
"""

from remediator.importing.conversion import Imported, convert
from remediator.importing.files import imported_text, read_manifests

__all__ = ["Imported", "convert", "imported_text", "read_manifests"]
