"""The firings of alerts, for reports."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "episodes",
        sa.Column("incident_id", sa.Text, primary_key=True),
        sa.Column("fingerprint", sa.Text, primary_key=True),
        sa.Column("starts_at", sa.BigInteger, primary_key=True),
        sa.Column("repository", sa.Text, nullable=False),
        sa.Column("alertname", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("playbook", sa.Text, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("ending", sa.Text),
    )
    op.create_index("ix_episodes_ended_at", "episodes", ["ended_at"])
