"""The commands beside `serve`: each a function from files and streams to an exit status.

They decide nothing that the webhook decides too; they call the same code and put it into words.
"""

from gpu_admission.commands.checking import check_config, read_catalogue
from gpu_admission.commands.cluster_facts import ClusterFacts, connect, facts, nodes_of
from gpu_admission.commands.drafting import draft
from gpu_admission.commands.explaining import Question, explain, questions
from gpu_admission.commands.linting import lint
from gpu_admission.commands.parser import build_parser

__all__ = [
    "ClusterFacts",
    "Question",
    "build_parser",
    "check_config",
    "connect",
    "draft",
    "explain",
    "facts",
    "lint",
    "nodes_of",
    "questions",
    "read_catalogue",
]
