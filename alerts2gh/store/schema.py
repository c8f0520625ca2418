"""The tables, as this version of the program expects them; migrations/ builds them step by step.

What is only ever read back whole lies in `document` (JSON as bytes, because PostgreSQL's text has no NUL);
what is searched for has a column of its own.
"""

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
)

from alerts2gh.store.columns import Instant, Sequence, Words

metadata = MetaData()

deliveries = Table(
    "deliveries",
    metadata,
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("incident_id", Words, nullable=False),
    Column("target_key", Words, nullable=False),
    Column("received_at", Instant, nullable=False),
    Column("body", LargeBinary, nullable=False),
    # Covers the search for work, which must not read bodies.
    Index("ix_deliveries_work", "incident_id", "target_key", "received_at", "seq"),
    sqlite_autoincrement=True,  # a number is never used twice, so a late delete cannot hit another row
)

incidents = Table(
    "incidents",
    metadata,
    Column("id", Words, primary_key=True),
    Column("label_key", Words, nullable=False, index=True),
    Column("target_key", Words, nullable=False),
    Column("credential", Words, nullable=False),
    Column("owner", Words, nullable=False),
    Column("repo", Words, nullable=False),
    Column("state", Words, nullable=False, index=True),
    Column("filed", Boolean, nullable=False),
    Column("dead", Boolean, nullable=False),
    Column("idle", Boolean, nullable=False),
    Column("issue_number", Integer),
    Column("closed_at", Instant),
    Column("wake_at", Instant),
    Column("began_at", Instant),
    Column("version", Integer, nullable=False),
    Column("updated_at", Instant, nullable=False, index=True),
    Column("document", LargeBinary, nullable=False),
    Index("ix_incidents_wake", "target_key", "wake_at"),
    Index("ix_incidents_began", "target_key", "began_at"),
)

members = Table(
    "members",
    metadata,
    Column("incident_id", Words, ForeignKey("incidents.id", ondelete="CASCADE"), primary_key=True),
    Column("fingerprint", Words, primary_key=True),
    Column("starts_at", Instant, nullable=False),
    Column("status", Words, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Index("ix_members_alert", "fingerprint", "starts_at"),
)

leases = Table(
    "leases",
    metadata,
    Column("target_key", Words, primary_key=True),
    Column("owner", Words, nullable=False),
    Column("expires_at", Instant, nullable=False),
)

budgets = Table(
    "budgets",
    metadata,
    Column("credential", Words, primary_key=True),
    Column("document", LargeBinary, nullable=False),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("incident_id", Words, index=True),
    Column("target", Words, nullable=False),
    Column("reason", Words, nullable=False),
    Column("text", Words, nullable=False),
    Column("at", Instant, nullable=False),
    sqlite_autoincrement=True,
)

refusals = Table(
    "refusals",
    metadata,
    Column("reason", Words, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("first_at", Instant, nullable=False),
    Column("last_at", Instant, nullable=False),
    Column("last_text", Words, nullable=False),
)

timeline = Table(
    "timeline",
    metadata,
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("operation", Words, nullable=False),
    Column("phase", Words, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("fingerprint", Words, nullable=False),
    Column("starts_at", Instant, nullable=False),
    Column("at", Instant, nullable=False),
    Column("received_at", Instant, nullable=False),
    Column("document", LargeBinary, nullable=False),
    UniqueConstraint("operation", "phase", "attempt", name="uq_timeline_step"),
    Index("ix_timeline_alert", "fingerprint", "starts_at"),
    sqlite_autoincrement=True,
)

# Which incidents an entry belongs to: one alert may be a member of several. No link: it waits for its alert.
timeline_links = Table(
    "timeline_links",
    metadata,
    Column("incident_id", Words, ForeignKey("incidents.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "timeline_id",
        Sequence,
        ForeignKey("timeline.id", ondelete="CASCADE"),
        primary_key=True,
        index=True,
    ),
    Column("seen", Boolean, nullable=False, index=True),
)

# Outlives its incident, hence no foreign key.
episodes = Table(
    "episodes",
    metadata,
    Column("incident_id", Words, primary_key=True),
    Column("fingerprint", Words, primary_key=True),
    Column("starts_at", Instant, primary_key=True),
    Column("repository", Words, nullable=False),
    Column("alertname", Words, nullable=False),
    Column("node", Words, nullable=False),
    Column("playbook", Words, nullable=False),
    Column("ended_at", Instant, index=True),
    Column("ending", Words),
)
