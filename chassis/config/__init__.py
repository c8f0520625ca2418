"""YAML configuration: read strictly, told about in one line a mistake, reloaded while running.

Only `__main__` decides which file; services define models on `Settings` and hand them to
`load_settings` or `ConfigWatcher`. Nothing here reads the environment.
"""

from chassis.config.fields import Duration, MatcherList, SecretFile, format_duration, parse_duration
from chassis.config.loading import Settings, dump_settings, load_settings
from chassis.config.watching import ConfigWatcher

__all__ = [
    "ConfigWatcher",
    "Duration",
    "MatcherList",
    "SecretFile",
    "Settings",
    "dump_settings",
    "format_duration",
    "load_settings",
    "parse_duration",
]
