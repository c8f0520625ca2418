"""The durable memory of alerts2gh: SQLite for one process, PostgreSQL for several.

The only place that knows SQLAlchemy and Alembic. It keeps and finds; it decides nothing about incidents.
"""

from alerts2gh.ports import TimelineRow
from alerts2gh.store.copying import open_copy
from alerts2gh.store.incident_rows import IncidentState
from alerts2gh.store.opening import open_store
from alerts2gh.store.sql_store import SQLStore

__all__ = ["IncidentState", "SQLStore", "TimelineRow", "open_copy", "open_store"]
