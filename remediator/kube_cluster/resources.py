"""The resource types that the remediator alone speaks of. Pure."""

from chassis.contracts import DOMAIN
from chassis.kube_client import Resource

NODE_OPERATIONS = Resource(
    DOMAIN, "v1alpha1", "nodeoperations", namespaced=False, kind="NodeOperation"
)
SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io",
    "v1",
    "selfsubjectreviews",
    namespaced=False,
    kind="SelfSubjectReview",
)
