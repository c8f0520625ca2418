"""Runs a command with a deadline, and never waits for one that cannot be killed.

A process in uninterruptible sleep (a dead NFS server, a hung driver) takes no signal, not even SIGKILL. Whoever waits for
it hangs too; whoever starts it again every minute fills the machine. Here it is left alone, counted, never doubled, and
reaped when it ends at last. Nothing here judges what an end means.
"""

from exporters.killable_child.pool import ChildEnd, ChildPool, EndKind

__all__ = ["ChildEnd", "ChildPool", "EndKind"]
