"""When an incident was last new, to count those of a storm. Incidents from before count as old."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("incidents", sa.Column("began_at", sa.BigInteger))
    op.create_index("ix_incidents_began", "incidents", ["target_key", "began_at"])
