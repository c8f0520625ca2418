"""What alerts2gh is told of operations."""

from remediator.timeline_outbox.entries import entries_of
from remediator.timeline_outbox.outbox import Outbox
from remediator.timeline_outbox.posting import Poster

__all__ = ["Outbox", "Poster", "entries_of"]
