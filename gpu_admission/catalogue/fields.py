"""Field types of the catalogue: model ids, label keys and values, resource names, globs.

Each turns the text of the YAML file into a value or says in one line what to write instead.
"""

import re
from collections.abc import Sized
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, AwareDatetime, BeforeValidator

from gpu_admission.catalogue.quantities import parse_quantity

S = TypeVar("S", bound=Sized)
ALLOCATABLE = "allocatable"
UNKNOWN = "unknown"
"""What metrics call a GPU that the catalogue does not know; so no model may have this id."""

_RESERVED = frozenset({"any", "mem", UNKNOWN})
_MAX_ID = 52  # "gpu-" + id + "-9999gb" must fit into the 63 characters of a resource's name
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_ENDS_LIKE_VRAM = re.compile(r"(?:.*-)?[0-9]+gb", re.ASCII)
_DOMAIN = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = re.compile(rf"(?:{_DOMAIN}/)?{_NAME}", re.ASCII)
_RESOURCE = re.compile(rf"{_DOMAIN}/{_NAME}", re.ASCII)
_GLOB = re.compile(r"[a-z0-9*?\[\]!-]{1,63}", re.ASCII)


def entries(at_most: int = 1000) -> AfterValidator:
    """A check that a list is neither empty nor endless, told only if the entries themselves are right."""

    def check(value: S) -> S:
        if not 1 <= len(value) <= at_most:
            raise ValueError(f"give 1 to {at_most} entries, not {len(value)}")
        return value

    return AfterValidator(check)


def _model_id(value: str) -> str:
    if value in _RESERVED or value.startswith("mem-"):
        raise ValueError(f'"{value}" is reserved; any, mem, mem-... and {UNKNOWN} name no model')
    if not _ID.fullmatch(value) or len(value) > _MAX_ID:
        raise ValueError(
            f"use small letters, digits and single hyphens, at most {_MAX_ID}, like a100 or rtx-4090"
        )
    if _ENDS_LIKE_VRAM.fullmatch(value):
        raise ValueError(
            "must not end like an amount of VRAM; give the VRAM as vram_gb of a variant"
        )
    return value


def _matching(pattern: re.Pattern[str], help_text: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(help_text)
        return value

    return AfterValidator(check)


def _resource(value: str) -> str:
    domain, _, _ = value.partition("/")
    if not _RESOURCE.fullmatch(value) or value.startswith("requests."):
        raise ValueError("write an extended resource with its domain, like nvidia.com/gpu")
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        raise ValueError("kubernetes.io is Kubernetes' own domain; extended resources have another")
    return value


def _cpus(value: Any) -> Any:
    text = str(value) if type(value) is int else value
    number = parse_quantity(text)
    if text != ALLOCATABLE and (number is None or number < 0):
        raise ValueError(f'write a number of CPUs like 32 or "2500m", or {ALLOCATABLE}')
    return text


ModelID = Annotated[str, AfterValidator(_model_id)]
ClassName = Annotated[
    str,
    _matching(
        re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"),
        "use small letters, digits and hyphens, like high",
    ),
]
Prefix = Annotated[
    str,
    _matching(
        re.compile(
            r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
        ),
        "write a domain, like preferred.jp",
    ),
]
LabelKey = Annotated[str, _matching(_LABEL_KEY, "write a label's key, like nvidia.com/gpu.product")]
LabelValue = Annotated[
    str,
    _matching(
        re.compile(_NAME), "write a label's value: letters, digits, dots, _ and -, at most 63"
    ),
]
ResourceName = Annotated[str, AfterValidator(_resource)]
Glob = Annotated[
    str, _matching(_GLOB, "write a namespace's name; * and ? stand for characters, like intern-*")
]
ResourceGlob = Annotated[
    str,
    _matching(
        re.compile(r"[A-Za-z0-9*?\[\]!._-]+/[A-Za-z0-9*?\[\]!._-]+"),
        "write a resource's name with its domain; * and ? stand for characters, like nvidia.com/*",
    ),
]
CPUs = Annotated[str, BeforeValidator(_cpus)]


def _in_time_zone(value: Any) -> Any:
    if getattr(value, "tzinfo", True) is None or type(value).__name__ == "date":
        raise ValueError("give the time with its zone, like 2026-12-10T00:00:00Z")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_in_time_zone)]
