"""Writes titles, bodies and comments, with everything that came from an alert made harmless.

Pure: an incident in, a text out. It decides neither when something is written nor who is assigned.
"""

from alerts2gh.rendering.block import find_adoptable, find_marker, find_token
from alerts2gh.rendering.renderer import Renderer, TemplateMistakes
from alerts2gh.rendering.sizes import BODY_LIMIT, TITLE_LIMIT
from alerts2gh.rendering.templates import TemplateTexts, builtin_templates

__all__ = [
    "BODY_LIMIT",
    "TITLE_LIMIT",
    "Renderer",
    "TemplateMistakes",
    "TemplateTexts",
    "builtin_templates",
    "find_adoptable",
    "find_marker",
    "find_token",
]
