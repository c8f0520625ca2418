"""The first tables: inbox, incidents and members, leases, budgets, dead letters, refusals, timeline."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_counted = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _work()
    _records()
    _timeline()


def _work() -> None:
    op.create_table(
        "deliveries",
        sa.Column("seq", _counted, primary_key=True, autoincrement=True),
        sa.Column("incident_id", sa.Text, nullable=False),
        sa.Column("target_key", sa.Text, nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_deliveries_work", "deliveries", ["incident_id", "target_key", "received_at", "seq"]
    )
    op.create_table(
        "incidents",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("label_key", sa.Text, nullable=False),
        sa.Column("target_key", sa.Text, nullable=False),
        sa.Column("credential", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("repo", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("filed", sa.Boolean, nullable=False),
        sa.Column("dead", sa.Boolean, nullable=False),
        sa.Column("idle", sa.Boolean, nullable=False),
        sa.Column("issue_number", sa.Integer),
        sa.Column("closed_at", sa.BigInteger),
        sa.Column("wake_at", sa.BigInteger),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    for column in ("label_key", "state", "updated_at"):
        op.create_index(f"ix_incidents_{column}", "incidents", [column])
    op.create_index("ix_incidents_wake", "incidents", ["target_key", "wake_at"])
    op.create_table(
        "members",
        sa.Column(
            "incident_id",
            sa.Text,
            sa.ForeignKey("incidents.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("fingerprint", sa.Text, primary_key=True),
        sa.Column("starts_at", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_members_alert", "members", ["fingerprint", "starts_at"])
    op.create_table(
        "leases",
        sa.Column("target_key", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )


def _records() -> None:
    op.create_table(
        "budgets",
        sa.Column("credential", sa.Text, primary_key=True),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "dead_letters",
        sa.Column("id", _counted, primary_key=True, autoincrement=True),
        sa.Column("incident_id", sa.Text),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_dead_letters_incident_id", "dead_letters", ["incident_id"])
    op.create_table(
        "refusals",
        sa.Column("reason", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("first_at", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.Column("last_text", sa.Text, nullable=False),
    )


def _timeline() -> None:
    op.create_table(
        "timeline",
        sa.Column("id", _counted, primary_key=True, autoincrement=True),
        sa.Column("operation", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("starts_at", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("operation", "phase", "attempt", name="uq_timeline_step"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_timeline_alert", "timeline", ["fingerprint", "starts_at"])
    op.create_table(
        "timeline_links",
        sa.Column(
            "incident_id",
            sa.Text,
            sa.ForeignKey("incidents.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column(
            "timeline_id",
            _counted,
            sa.ForeignKey("timeline.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("seen", sa.Boolean, nullable=False),
    )
    op.create_index("ix_timeline_links_timeline_id", "timeline_links", ["timeline_id"])
    op.create_index("ix_timeline_links_seen", "timeline_links", ["seen"])
