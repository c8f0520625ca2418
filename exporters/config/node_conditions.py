"""The configuration of `exporters node-conditions`: which nodes, which families, what counts as stale."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from chassis.config import Duration, Settings
from chassis.errors import ConfigError
from chassis.kube_client import KubeSettings
from chassis.serving import ServingSettings
from exporters.node_condition_lines import Family, LinesPolicy

LogLevel = Literal["debug", "info", "warning", "error"]

_LABEL_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_LABEL_KEY = re.compile(
    r"(?:(?=.{1,253}/)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)
_MAX_SHARDS = 64


def _checked_name(name: str) -> str:
    if not _LABEL_NAME.fullmatch(name):
        raise ValueError("not the name of a metric label; use letters, digits and _")
    return name


def _checked_key(key: str) -> str:
    if not _LABEL_KEY.fullmatch(key):
        raise ValueError("not the key of a Kubernetes label or resource, like example.org/zone")
    return key


def _not_empty(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; leave the key out if nothing is meant")
    return text


def _some(families: tuple[Family, ...]) -> tuple[Family, ...]:
    if not families:
        raise ValueError("name at least one family, or leave the key out for all")
    return families


LabelName = Annotated[str, AfterValidator(_checked_name)]
LabelKey = Annotated[str, AfterValidator(_checked_key)]
_Word = Annotated[str, AfterValidator(_not_empty)]


class StaleSettings(Settings):
    """When a condition's verdict is too old to be believed.

    `period` is how often whoever writes the conditions says that they still hold; three periods of silence are too
    long. Conditions whose writer never repeats itself go into `ignore`.
    """

    period: Duration = timedelta(minutes=5)
    ignore: tuple[_Word, ...] = (
        "Ready",
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
        "NetworkUnavailable",
    )

    @model_validator(mode="after")
    def _long_enough(self) -> "StaleSettings":
        if self.period < timedelta(seconds=1):
            raise ValueError("period must be at least 1s")
        return self

    @property
    def after(self) -> timedelta:
        return 3 * self.period


class NodeInfoSettings(Settings):
    """Where nodemend_node_info takes the GPU model, the number of GPUs and the driver version from."""

    gpu_resources: tuple[LabelKey, ...] = ("nvidia.com/gpu", "amd.com/gpu")
    gpu_model_labels: tuple[LabelKey, ...] = (
        "nvidia.com/gpu.product",
        "amd.com/gpu.product-name",
    )
    driver_labels: tuple[tuple[LabelKey, ...], ...] = (
        ("nvidia.com/cuda.driver-version.full",),
        (
            "nvidia.com/cuda.driver.major",
            "nvidia.com/cuda.driver.minor",
            "nvidia.com/cuda.driver.rev",
        ),
        ("amd.com/gpu.driver-version",),
    )


class ShardSettings(Settings):
    """Which part of the nodes this process serves: those whose name falls to `index` of `total`."""

    total: Annotated[int, Field(ge=1, le=_MAX_SHARDS)] = 1
    index: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _within(self) -> "ShardSettings":
        if self.index >= self.total:
            raise ValueError(
                f"index {self.index} is not below total {self.total}; shards count from 0"
            )
        return self


class NodeConditionsSettings(Settings):
    """The whole file.

    `node_labels` names the labels of nodemend_node_labels: each key becomes the metric label `label_<key>` and shows
    the node label that is its value. So no two node labels can meet in one name.
    """

    serving: ServingSettings = ServingSettings()
    kubernetes: KubeSettings = KubeSettings()
    log_level: LogLevel = "info"
    node_selector: Annotated[str, AfterValidator(_not_empty)] | None = None
    families: Annotated[tuple[Family, ...], AfterValidator(_some)] = tuple(Family)
    reasons: tuple[_Word, ...] = ()
    stale: StaleSettings = StaleSettings()
    node_info: NodeInfoSettings = NodeInfoSettings()
    node_labels: Mapping[LabelName, LabelKey] = {}
    shard: ShardSettings = ShardSettings()

    @model_validator(mode="after")
    def _shows_something(self) -> "NodeConditionsSettings":
        if not self.node_labels and set(self.families) == {Family.LABELS}:
            raise ValueError("families has labels only, and node_labels names none; add some")
        return self

    def for_shard(self, index: int | None) -> "NodeConditionsSettings":
        """These settings with another shard.index; None leaves it.

        Raises:
            ConfigError: There is no such shard.
        """
        if index is None:
            return self
        if not 0 <= index < self.shard.total:
            raise ConfigError(
                [
                    f"--shard-index: {index} is not below shard.total ({self.shard.total}); shards count from 0"
                ]
            )
        return self.model_copy(update={"shard": ShardSettings(total=self.shard.total, index=index)})

    def lines_policy(self) -> LinesPolicy:
        """How nodes are shown by these settings; without `node_labels` their family is left out."""
        families = frozenset(self.families) - (set() if self.node_labels else {Family.LABELS})
        return LinesPolicy(
            families=families,
            known_reasons=frozenset(self.reasons),
            stale_after=self.stale.after,
            always_fresh=frozenset(self.stale.ignore),
            gpu_resources=self.node_info.gpu_resources,
            gpu_model_labels=self.node_info.gpu_model_labels,
            driver_labels=self.node_info.driver_labels,
            node_labels=tuple((f"label_{name}", key) for name, key in self.node_labels.items()),
        )
