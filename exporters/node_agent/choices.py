"""What a configuration chooses: conditions, the checks behind each, the catalogue of XIDs. Runs nothing."""

from collections.abc import Mapping
from pathlib import Path

from chassis.contracts import ConditionType
from exporters.checks import SEVERITY, SPECS, policy_of
from exporters.config.node_agent import NodeAgentSettings, ProbeMode
from exporters.custom_checks import CustomMonitor, policies_of
from exporters.node_agent.probe_rules import SPEC as PROBE_SPEC
from exporters.verdict import ConditionPolicy
from exporters.xid_catalogue import load_catalogue, shipped_catalogue
from exporters.xids import XidCatalogue


def policies(
    settings: NodeAgentSettings, monitors: tuple[CustomMonitor, ...]
) -> dict[str, ConditionPolicy]:
    """Which conditions there are by this configuration, and the checks of each."""
    enabled = [spec for spec in SPECS if spec.name not in settings.disabled_checks]
    found: dict[str, ConditionPolicy] = {}
    for spec in enabled:
        names = [each.name for each in enabled]
        policy = policy_of(ConditionType(spec.condition), names)
        found[spec.condition] = policy
    if settings.probe_mode is ProbeMode.IN_PLACE:
        probed = ConditionPolicy(
            PROBE_SPEC.condition,
            {PROBE_SPEC.name: PROBE_SPEC.damping},
            SEVERITY[PROBE_SPEC.condition],
        )
        found[PROBE_SPEC.condition] = probed
    return found | {policy.type: policy for policy in policies_of(monitors)}


def condition_of_checks(found: Mapping[str, ConditionPolicy]) -> dict[str, str]:
    """Each check that runs, and the condition that it contributes to."""
    return {check: policy.type for policy in found.values() for check in policy.checks}


def catalogue(settings: NodeAgentSettings) -> XidCatalogue:
    """What XIDs ask for, by this configuration. Raises ConfigError: the file cannot be used."""
    file: Path | None = settings.xid.catalogue_file
    base = shipped_catalogue() if file is None else load_catalogue(file)
    return base.overridden(settings.xid.actions)
