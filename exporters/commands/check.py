"""`check-config SERVICE FILE`: whether a configuration can be used, one line a mistake."""

import importlib
from pathlib import Path
from typing import TextIO, cast

from chassis.config import Settings, load_settings
from chassis.errors import ConfigError

OK, UNUSABLE = 0, 2
_MODELS = {
    "node-conditions": ("exporters.config.node_conditions", "NodeConditionsSettings"),
    "node-agent": ("exporters.config.node_agent", "NodeAgentSettings"),
    "gpu-monitor": ("exporters.config.gpu_monitor", "GpuMonitorSettings"),
}


def check_config(service: str, file: Path, out: TextIO, err: TextIO) -> int:
    """Say whether the service can use the file; the exit status is 0 or 2."""
    try:
        load_settings(file, model_of(service))
    except ConfigError as error:
        err.writelines(f"{mistake}\n" for mistake in error.mistakes)
        return UNUSABLE
    out.write(f"{file}: can be used by {service}\n")
    return OK


def model_of(service: str) -> type[Settings]:
    """The settings model of a service, imported now."""
    module, name = _MODELS[service]
    return cast("type[Settings]", getattr(importlib.import_module(module), name))
