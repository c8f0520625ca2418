"""From the configuration to what plans and pods are made by. Pure."""

from exporters.config.gpu_monitor import GpuMonitorSettings
from exporters.probe_pods import PlanPolicy, PodRecipe


def plan_policy(settings: GpuMonitorSettings) -> PlanPolicy:
    """How often and how many."""
    return PlanPolicy(
        period=settings.period,
        max_share=settings.max_share,
        pending_timeout=settings.pending_timeout,
        proof_retry=settings.proof_retry,
        enabled=settings.enabled,
    )


def recipe_of(settings: GpuMonitorSettings) -> PodRecipe:
    """What all probe pods have in common."""
    pod = settings.pod
    return PodRecipe(
        namespace=settings.namespace,
        image=pod.image,
        resource=settings.resource,
        command=pod.command,
        args=pod.args,
        priority_class=pod.priority_class,
        deadline=pod.deadline,
        grace=pod.grace,
        image_pull_policy=pod.image_pull_policy,
        image_pull_secrets=pod.image_pull_secrets,
        runtime_class=pod.runtime_class,
        service_account=pod.service_account,
        labels=pod.labels,
        requests={"cpu": pod.cpu, "memory": pod.memory},
        security_context=pod.security_context,
    )
