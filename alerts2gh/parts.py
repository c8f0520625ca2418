"""From a configuration to the parts that follow from it alone."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from alerts2gh.config import Config, walk
from alerts2gh.incident import Incident, Target
from alerts2gh.rendering import Renderer, TemplateMistakes, builtin_templates
from alerts2gh.worker import AlertSource, RememberingRenderer
from chassis.errors import ConfigError
from chassis.monitoring import Access, AlertmanagerClient


def fallback_target(config: Config) -> Target | None:
    """Where goes what nobody else takes."""
    if config.fallback_repository is None:
        return None
    owner, _, repo = config.fallback_repository.partition("/")
    return Target(config.default_credential, owner, repo)


def alert_sources(config: Config) -> Mapping[str, AlertSource]:
    """The Alertmanagers that open incidents are compared with, by URL."""
    return {
        each.url: AlertmanagerClient(
            Access(
                each.url,
                bearer_token=each.bearer_token_file.read if each.bearer_token_file else None,
                ca_file=each.ca_file,
            )
        )
        for each in config.alertmanagers
    }


def foreign_id(incident: Incident) -> str:
    """The id that alertmanager-to-github gives the same group with its default template."""
    return hashlib.sha256(incident.group_key.encode()).hexdigest()


def renderer_of(config: Config) -> Renderer:
    """The built-in templates and those that the routes name, from the templates directory."""
    folder = config.templates_directory
    own: dict[str, str] = {}
    if folder is not None:
        own = {name: _template_text(folder / name) for name in sorted(_template_names(config))}
    try:
        return RememberingRenderer(builtin_templates(), own)
    except TemplateMistakes as error:
        raise ConfigError(error.mistakes) from error


def _template_text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        mistake = f"{file}: cannot be read as a UTF-8 template: {error}"
        raise ConfigError([mistake]) from error


def _template_names(config: Config) -> set[str]:
    routes = (route for _, route in walk(config.route))
    names = (name for r in routes if r.templates for _, name in r.templates)
    return {name for name in names if name}
