"""Calls the admission webhooks that are registered in the store, as an API server does: mutating, then validating.

Calls go out while no lock is held: a webhook may ask the API back. What a webhook answers is only
applied or refused here; which ones are called is decided by rules, selectors and match policy.
matchConditions (CEL) are not evaluated: a webhook that has them is called regardless.
"""

import base64
import binascii
import http.client
import ssl
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from sandbox.kubernetes_rules import patching, selectors
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import bad_request, denied, internal_error
from sandbox.kubernetes_server.storage import Body, Record, Store

GROUP = "admissionregistration.k8s.io"
MUTATING = f"mutatingwebhookconfigurations.{GROUP}"
VALIDATING = f"validatingwebhookconfigurations.{GROUP}"
_HTTP_OK = 200
_MAX_ANSWER = 10 * 2**20


@dataclass(frozen=True, slots=True)
class Admission:
    """What is about to happen to an object; `operation` is CREATE, UPDATE, DELETE or CONNECT."""

    operation: str
    type: ResourceType
    namespace: str
    name: str
    user: Mapping[str, Any]
    new: Body | None
    old: Body | None
    subresource: str = ""
    dry_run: bool = False
    options: Mapping[str, Any] | None = None


class _CallError(Exception):
    """The webhook could not be asked or its answer not be understood."""


class Webhooks:
    """Which webhooks there are is read anew each time: the store is in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def mutate(self, asked: Admission, warn: Callable[[str], None]) -> Body | None:
        """The object as the mutating webhooks want it.

        Raises:
            Refusal: One refused, or failed and its policy is Fail.
        """
        if asked.type.group == GROUP:
            return asked.new
        current = asked.new
        seen: list[Body | None] = []
        hooks = list(self._matching(MUTATING, asked))
        for hook in hooks:
            current = self._call_mutating(hook, asked, current, warn)
            seen.append(current)
        for hook, left in zip(hooks, seen, strict=True):
            if hook.get("reinvocationPolicy") == "IfNeeded" and left != seen[-1]:
                current = self._call_mutating(hook, asked, current, warn)
        return current

    def validate(self, asked: Admission, warn: Callable[[str], None]) -> None:
        """Ask the validating webhooks.

        Raises:
            Refusal: One refused, or failed and its policy is Fail.
        """
        if asked.type.group == GROUP:
            return
        for hook in self._matching(VALIDATING, asked):
            self._ask(hook, asked, asked.new, warn)

    def _call_mutating(
        self,
        hook: Mapping[str, Any],
        asked: Admission,
        current: Body | None,
        warn: Callable[[str], None],
    ) -> Body | None:
        answer = self._ask(hook, asked, current, warn)
        if not answer or not answer.get("patch") or current is None:
            return current
        try:
            patch = orjson.loads(base64.b64decode(answer["patch"]))
            return patching.apply_patch(
                "application/json-patch+json", current, patch, kind=asked.type
            )
        except (ValueError, binascii.Error) as error:
            raise internal_error(f"webhook {hook['name']}: {error}") from error

    def _ask(
        self,
        hook: Mapping[str, Any],
        asked: Admission,
        current: Body | None,
        warn: Callable[[str], None],
    ) -> Mapping[str, Any] | None:
        """The response part of the answer; None when the webhook failed and may."""
        if asked.dry_run and hook.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            raise bad_request(f'admission webhook "{hook["name"]}" does not support dry run')
        review = _review(asked, current)
        try:
            answer = _answer_to(hook, review)
        except _CallError as error:
            if hook.get("failurePolicy", "Fail") == "Ignore":
                return None
            raise internal_error(f'failed calling webhook "{hook["name"]}": {error}') from error
        for warning in answer.get("warnings") or ():
            warn(str(warning))
        if not answer.get("allowed"):
            raise denied(hook["name"], answer.get("status") or {})
        return answer

    def _matching(self, collection: str, asked: Admission) -> Iterator[Mapping[str, Any]]:
        for record in self._store.collection(collection).records():
            for hook in record.body.get("webhooks") or ():
                if self._wants(hook, asked):
                    yield hook

    def _wants(self, hook: Mapping[str, Any], asked: Admission) -> bool:
        if not any(_rule_matches(rule, asked) for rule in hook.get("rules") or ()):
            return False
        if not self._namespace_matches(hook.get("namespaceSelector"), asked):
            return False
        selector = hook.get("objectSelector")
        if not selector:
            return True
        return any(
            selectors.structured(selector).matches(each["metadata"].get("labels"))
            for each in (asked.new, asked.old)
            if each is not None
        )

    def _namespace_matches(self, selector: Mapping[str, Any] | None, asked: Admission) -> bool:
        if not selector:
            return True
        if asked.type.plural == "namespaces" and not asked.type.group:
            body: Mapping[str, Any] | None = asked.new or asked.old
        elif not asked.namespace:
            return True
        else:
            record: Record | None = self._store.collection("namespaces").get(("", asked.namespace))
            body = record.body if record else None
        labels = (body or {}).get("metadata", {}).get("labels")
        return selectors.structured(selector).matches(labels)


def _rule_matches(rule: Mapping[str, Any], asked: Admission) -> bool:
    scope = rule.get("scope", "*")
    wanted = f"{asked.type.plural}/{asked.subresource}" if asked.subresource else asked.type.plural
    resources = {"*/*", wanted, f"{asked.type.plural}/*"}
    resources |= {f"*/{asked.subresource}"} if asked.subresource else {"*"}
    return (
        bool({"*", asked.operation} & set(rule.get("operations") or ()))
        and bool({"*", asked.type.group} & set(rule.get("apiGroups") or ()))
        and bool({"*", asked.type.version} & set(rule.get("apiVersions") or ()))
        and bool(resources & set(rule.get("resources") or ()))
        and scope in {"*", "Namespaced" if asked.namespace else "Cluster"}
    )


def _review(asked: Admission, current: Body | None) -> Mapping[str, Any]:
    kind = {"group": asked.type.group, "version": asked.type.version, "kind": asked.type.kind}
    resource = {
        "group": asked.type.group,
        "version": asked.type.version,
        "resource": asked.type.plural,
    }
    if asked.subresource == "eviction":
        kind = {"group": "policy", "version": "v1", "kind": "Eviction"}
    request: dict[str, Any] = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": asked.name,
        "operation": asked.operation,
        "userInfo": asked.user,
        "object": current,
        "oldObject": asked.old,
        "dryRun": asked.dry_run,
        "options": asked.options,
    }
    if asked.namespace:
        request["namespace"] = asked.namespace
    if asked.subresource:
        request |= {"subResource": asked.subresource, "requestSubResource": asked.subresource}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _answer_to(hook: Mapping[str, Any], review: Mapping[str, Any]) -> Mapping[str, Any]:
    seconds = float(hook.get("timeoutSeconds") or 10)
    try:
        answer = orjson.loads(_post(hook.get("clientConfig") or {}, orjson.dumps(review), seconds))
    except (OSError, http.client.HTTPException, ssl.SSLError, ValueError) as error:
        raise _CallError(f"{type(error).__name__}: {error}") from error
    response = answer.get("response") if isinstance(answer, dict) else None
    if not isinstance(response, dict) or response.get("uid") != review["request"]["uid"]:
        raise _CallError("the answer is no AdmissionReview with a response to our uid")
    if response.get("patch") and response.get("patchType") != "JSONPatch":
        raise _CallError("the patch is not of type JSONPatch")
    return response


def _post(client: Mapping[str, Any], body: bytes, seconds: float) -> bytes:
    if not client.get("url"):
        raise _CallError("only clientConfig.url is served here: there is no Service to reach")
    address = urlsplit(client["url"])
    if address.scheme != "https" or address.hostname is None:
        raise _CallError(f"clientConfig.url must be https: {client['url']}")
    context = ssl.create_default_context()
    if client.get("caBundle"):
        authority = base64.b64decode(client["caBundle"]).decode()
        context = ssl.create_default_context(cadata=authority)
    connection = http.client.HTTPSConnection(
        address.hostname, address.port, timeout=seconds, context=context
    )
    path = f"{address.path or '/'}?timeout={int(seconds)}s"
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read(_MAX_ANSWER)
    finally:
        connection.close()
    if response.status != _HTTP_OK:
        raise _CallError(f"the answer is HTTP {response.status}")
    return answer
