"""The statements of every webhook, load and save, built once: to put one together takes longer than to run it.

Their parameters are named here and given by `incident_rows`.
"""

import sqlalchemy as sa

from alerts2gh.store.schema import deliveries, incidents, leases, members

PARTS_LOADED = 200  # a group of a thousand alerts is large; the rest comes with the next load

ALL_FILED = (
    sa.select(
        incidents.c.id,
        incidents.c.label_key,
        incidents.c.credential,
        incidents.c.owner,
        incidents.c.repo,
    )
    .where(incidents.c.filed)
    .order_by(incidents.c.id)
)
FILED = ALL_FILED.where(incidents.c.label_key == sa.bindparam("key"))
INCIDENT = sa.select(incidents).where(incidents.c.id == sa.bindparam("of"))
MEMBERS = (
    sa.select(members.c.fingerprint, members.c.document)
    .where(members.c.incident_id == sa.bindparam("of"))
    .order_by(members.c.fingerprint)
)
PARTS = (
    sa.select(deliveries.c.seq, deliveries.c.body)
    .where(deliveries.c.incident_id == sa.bindparam("of"))
    .order_by(deliveries.c.seq)
    .limit(PARTS_LOADED)
)
STORED = (
    sa.select(incidents.c.version, incidents.c.target_key, incidents.c.state)
    .where(incidents.c.id == sa.bindparam("of"))
    .with_for_update()
)
LEASE = (
    sa.select(leases.c.target_key)
    .where(leases.c.target_key == sa.bindparam("key"), leases.c.owner == sa.bindparam("owner"))
    .with_for_update()
)
MEMBER_DOCUMENTS = sa.select(members.c.fingerprint, members.c.document).where(
    members.c.incident_id == sa.bindparam("of")
)
INSERT_INCIDENT = sa.insert(incidents)
UPDATE_INCIDENT = sa.update(incidents).where(incidents.c.id == sa.bindparam("of"))
