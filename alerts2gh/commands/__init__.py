"""The commands beside `serve`: each a function from files and streams to an exit status.

They decide nothing that the service decides too; they call the same code, or ask it over HTTP, and put it into words.
Only `__main__` knows argv, the clock and the real streams, and hands them in.
"""

from alerts2gh.commands.check import check_config, read_config
from alerts2gh.commands.parser import build_parser
from alerts2gh.commands.remote import Given, NobodyListensError, Remote, remote_for
from alerts2gh.commands.replay import Rehearsal, rehearse, replay
from alerts2gh.commands.route import route
from alerts2gh.commands.standing import Finder, OpenStore
from alerts2gh.commands.stored import (
    list_dead_letters,
    report,
    requeue_dead_letters,
    status,
)

__all__ = [
    "Finder",
    "Given",
    "NobodyListensError",
    "OpenStore",
    "Rehearsal",
    "Remote",
    "build_parser",
    "check_config",
    "list_dead_letters",
    "read_config",
    "rehearse",
    "remote_for",
    "replay",
    "report",
    "requeue_dead_letters",
    "route",
    "status",
]
