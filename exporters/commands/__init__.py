"""The command line of exporters. Each sub-command's own code is imported when it is asked for.

The children that the agent starts are sub-commands, too, and must start fast; so nothing heavy is imported here.
"""

from exporters.commands.check import check_config
from exporters.commands.parser import HELPERS, SERVICES, build_parser
from exporters.commands.running import run_service

__all__ = ["HELPERS", "SERVICES", "build_parser", "check_config", "run_service"]
