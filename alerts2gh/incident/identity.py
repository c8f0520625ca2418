"""Which incident something belongs to: hashes of where it is filed and of the labels that name it."""

import hashlib
import json
from collections.abc import Mapping

from alerts2gh.incident.model import Target

IDENTITY_VERSION = 1

# Kept, as json.dumps makes an encoder for each call. Ids are made of it: its output must never change.
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def label_key(labels: Mapping[str, str]) -> str:
    """Hash the labels that name an incident, whatever repository it is filed in (32 hex characters)."""
    return _digest([IDENTITY_VERSION, sorted(labels.items())])


def incident_id(target: Target, labels: Mapping[str, str]) -> str:
    """Hash version, target and chosen labels (32 hex characters).

    The credential is left out: a rotated or renamed credential must not open every issue again.
    """
    return _digest([IDENTITY_VERSION, target.full_name.lower(), sorted(labels.items())])


def _digest(value: object) -> str:
    text = _encode(value)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]
