"""From a pod's spec to what it asks for, container by container; says everything that is wrong.

Reads shapes that nobody has validated: what Kubernetes itself will refuse is passed over.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_admission.catalogue import UNKNOWN, Catalogue
from gpu_admission.gpu_request.grammar import (
    KeyProblem,
    KeySpec,
    parse_amount,
    parse_key,
    shortened,
)
from gpu_admission.gpu_request.reasons import Ask, Reason, Refusal
from gpu_admission.gpu_request.shapes import mapping, mappings, text

_TOLD = 3


@dataclass(frozen=True, slots=True)
class SpecAmount:
    """So many GPUs by one key; `in_requests` says that the key is in requests too."""

    spec: KeySpec
    amount: int
    in_requests: bool = False


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks for.

    `path` is its place in the pod (`/spec/containers/0`); `natives` are amounts by the nodes' own
    resources. An init container with restartPolicy Always is a sidecar: it stays.
    """

    path: str
    name: str
    container: Mapping[str, Any]
    is_init: bool
    is_sidecar: bool
    specs: tuple[SpecAmount, ...] = ()
    natives: Mapping[str, int] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """How many GPUs it gets, by whichever key."""
        return sum(each.amount for each in self.specs) + sum(self.natives.values())

    @property
    def asks_for_none(self) -> bool:
        """Whether it says something about GPUs, and that is zero."""
        return bool(self.specs or self.natives) and self.gpus == 0


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What a pod asks for; `containers` are those that say anything about GPUs."""

    containers: tuple[ContainerRequest, ...]

    def specs(self) -> Iterator[tuple[ContainerRequest, SpecAmount]]:
        """Each key of ours with an amount above zero."""
        for container in self.containers:
            for each in container.specs:
                if each.amount:
                    yield container, each

    @property
    def has_keys(self) -> bool:
        """Whether any key of ours is there, of whatever amount."""
        return any(container.specs for container in self.containers)

    @property
    def needed(self) -> int:
        """How many GPUs the scheduler counts for the pod."""
        return self.counted(lambda container: container.gpus)

    @property
    def all_asks(self) -> tuple[Ask, ...]:
        """By our keys and by the nodes' own resources."""
        return (*self.asks, *self.raw_asks)

    @property
    def raw_asks(self) -> tuple[Ask, ...]:
        """What was asked for by the nodes' own resources, under their names."""
        raw = sorted({resource for container in self.containers for resource in container.natives})
        counted = (Ask(resource, 0, self.counted(_Native(resource))) for resource in raw)
        return tuple(ask for ask in counted if ask.amount)

    @property
    def asks(self) -> tuple[Ask, ...]:
        """What was asked for by name and least VRAM, each counted as the scheduler counts."""
        wanted = dict.fromkeys((each.spec.name, each.spec.min_vram_gb) for _, each in self.specs())
        return tuple(Ask(name, vram, self.counted(_Amount(name, vram))) for name, vram in wanted)

    def counted(self, amount: Callable[[ContainerRequest], int]) -> int:
        """The pod's effective amount: sidecars stay, other init containers run one at a time."""
        sidecars = app = highest_init = 0
        for container in self.containers:
            if not container.is_init:
                app += amount(container)
            elif container.is_sidecar:
                sidecars += amount(container)
                highest_init = max(highest_init, sidecars)
            else:
                highest_init = max(highest_init, sidecars + amount(container))
        return max(sidecars + app, highest_init)


NO_REQUEST = PodRequest(())


@dataclass(frozen=True, slots=True)
class _Amount:
    """What a container asks for by this name and least VRAM."""

    name: str
    min_vram_gb: int

    def __call__(self, container: ContainerRequest) -> int:
        return sum(
            each.amount
            for each in container.specs
            if each.spec.name == self.name and each.spec.min_vram_gb == self.min_vram_gb
        )


@dataclass(frozen=True, slots=True)
class _Native:
    """How much of one of the nodes' resources a container asks for."""

    resource: str

    def __call__(self, container: ContainerRequest) -> int:
        return container.natives.get(self.resource, 0)


def requests_of(spec: Mapping[str, Any], catalogue: Catalogue) -> PodRequest | Refusal:
    """What a PodSpec asks for, by our keys and by the nodes' resources."""
    problems: list[Refusal] = []
    found: list[ContainerRequest] = []
    for path, is_init, container in containers_of(spec):
        request = _container(path, container, catalogue, problems, is_init=is_init)
        if request is not None:
            found.append(request)
    problems += _misplaced(spec, catalogue)
    if problems:
        return _all_of(problems, found)
    return PodRequest(tuple(found)) if found else NO_REQUEST


def containers_of(spec: Mapping[str, Any]) -> Iterator[tuple[str, bool, Mapping[str, Any]]]:
    """Path, whether it is an init container, and the container: init containers first."""
    for index, container in mappings(spec.get("initContainers")):
        yield f"/spec/initContainers/{index}", True, container
    for index, container in mappings(spec.get("containers")):
        yield f"/spec/containers/{index}", False, container


def _container(
    path: str,
    container: Mapping[str, Any],
    catalogue: Catalogue,
    problems: list[Refusal],
    *,
    is_init: bool,
) -> ContainerRequest | None:
    resources = mapping(container.get("resources"))
    limits = mapping(resources.get("limits"))
    requests = mapping(resources.get("requests"))
    if not limits and not requests:
        return None
    where = f'container "{shortened(container.get("name", ""))}"'
    specs = _specs(where, limits, requests, catalogue, problems)
    natives = _natives(limits, requests, catalogue)
    if not specs and not natives:
        return None
    if specs and any(natives.values()):
        problems.append(_mixed(where, specs, natives))
    return ContainerRequest(
        path=path,
        name=text(container.get("name")),
        container=container,
        is_init=is_init,
        is_sidecar=is_init and container.get("restartPolicy") == "Always",
        specs=specs,
        natives=natives,
    )


def _specs(
    where: str,
    limits: Mapping[str, Any],
    requests: Mapping[str, Any],
    catalogue: Catalogue,
    problems: list[Refusal],
) -> tuple[SpecAmount, ...]:
    prefix = catalogue.key_prefix
    found = []
    for key, value in limits.items():
        if isinstance(key, str) and key.startswith(prefix):
            one = _spec(key, value, requests, catalogue)
            if isinstance(one, SpecAmount):
                found.append(one)
            else:
                problems.append(Refusal(one.reason, f"{where}: {one.text}", one.asks))
    for key in requests:
        if isinstance(key, str) and key.startswith(prefix) and key not in limits:
            told = f"{where}: {shortened(key)} must be set in limits, not in requests only"
            problems.append(Refusal(Reason.NOT_IN_LIMITS, told, (Ask(UNKNOWN, 0, 0),)))
    return tuple(found)


def _spec(
    key: str, value: object, requests: Mapping[str, Any], catalogue: Catalogue
) -> SpecAmount | Refusal:
    spec = parse_key(key, catalogue)
    amount = parse_amount(value)
    counted = amount if isinstance(amount, int) else 0
    if isinstance(spec, KeyProblem):
        return Refusal(spec.reason, spec.text, (Ask(UNKNOWN, 0, counted),))
    asks = (Ask(spec.name, spec.min_vram_gb, counted),)
    if isinstance(amount, str):
        return Refusal(Reason.WRONG_AMOUNT, f"{key}: {amount}", asks)
    if key not in requests:
        return SpecAmount(spec, amount)
    if parse_amount(requests[key]) != amount:
        told = (
            f"{key} is {shortened(value)} in limits and {shortened(requests[key])} in requests; "
            "leave it out of requests"
        )
        return Refusal(Reason.NOT_IN_LIMITS, told, asks)
    return SpecAmount(spec, amount, in_requests=True)


def _natives(
    limits: Mapping[str, Any], requests: Mapping[str, Any], catalogue: Catalogue
) -> dict[str, int]:
    found = {}
    for resource in catalogue.native_resources:
        if resource in limits or resource in requests:
            amount = parse_amount(limits.get(resource, requests.get(resource)))
            found[resource] = amount if isinstance(amount, int) else 0
    return found


def _mixed(where: str, specs: tuple[SpecAmount, ...], natives: Mapping[str, int]) -> Refusal:
    raw = next(name for name, amount in natives.items() if amount)
    return Refusal(
        Reason.MIXED_WITH_RAW,
        f"{where}: asks for both {specs[0].spec.key} and {raw}; keep one of them",
        tuple(Ask(each.spec.name, each.spec.min_vram_gb, each.amount) for each in specs),
    )


def _misplaced(spec: Mapping[str, Any], catalogue: Catalogue) -> Iterator[Refusal]:
    """Keys in the pod's own resources, which Kubernetes allows CPU, memory and huge pages only."""
    resources = mapping(spec.get("resources"))
    for part in ("limits", "requests"):
        for key in mapping(resources.get(part)):
            if isinstance(key, str) and key.startswith(catalogue.key_prefix):
                yield Refusal(
                    Reason.WRONG_PLACE,
                    f"{shortened(key)} stands in the pod's own resources; "
                    "put it into the limits of the container that uses the GPU",
                    (Ask(UNKNOWN, 0, 0),),
                )
                return


def _all_of(problems: list[Refusal], found: list[ContainerRequest]) -> Refusal:
    told = list(dict.fromkeys(each.text for each in problems))
    more = f"; and {len(told) - _TOLD} more" if len(told) > _TOLD else ""
    wrong = dict.fromkeys(ask for each in problems for ask in each.asks)
    asks = tuple(dict.fromkeys((*wrong, *PodRequest(tuple(found)).asks)))
    return Refusal(problems[0].reason, "; ".join(told[:_TOLD]) + more, asks)
