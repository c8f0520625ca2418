"""The routes of GitHub's REST API that the sandbox answers, one file a subject."""

from flask import Blueprint

from sandbox.github_server.api import (
    apps,
    comments,
    issues,
    repositories,
    sidebar,
    users,
)

BLUEPRINTS: tuple[Blueprint, ...] = (
    apps.routes,
    comments.routes,
    issues.routes,
    repositories.routes,
    sidebar.routes,
    users.routes,
)
