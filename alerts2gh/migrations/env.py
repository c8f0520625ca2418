"""Alembic's entry: runs the steps on the connection that the store hands over, in its transaction."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes["metadata"],
)
context.run_migrations()
