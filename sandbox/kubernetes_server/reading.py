"""The verbs get, list and watch. Changes nothing.

Versions follow the Kubernetes documentation "API concepts": an empty or "0" version means now, a
list goes on at the version that it started at, and what history no longer holds is 410 Expired.
"""

import base64
import binascii
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from sandbox.kubernetes_rules import selectors
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import (
    Cause,
    CauseReason,
    Refusal,
    bad_request,
    continue_expired,
    expired,
    not_found,
)
from sandbox.kubernetes_server import tables
from sandbox.kubernetes_server.calls import Call
from sandbox.kubernetes_server.storage import Collection, ForgottenError, Key, Record, Store
from sandbox.kubernetes_server.watching import Encode, Matches, WatchOrder

_LONGEST_WATCH = 1800.0
_FUTURE_WAIT = 3.0


@dataclass(frozen=True, slots=True)
class _Page:
    records: list[Record]
    version: int
    next: str = ""
    remaining: int | None = None


def get(store: Store, kind: ResourceType, namespace: str, name: str) -> Record:
    """The object as it is now.

    Raises:
        Refusal: There is none.
    """
    record = store.collection(kind.qualified_plural).get((namespace, name))
    if record is None:
        raise not_found(kind, name)
    return record


def encoded(kind: ResourceType, record: Record) -> bytes:
    """Under the version that was asked for: all versions of a kind share one store."""
    if record.body.get("apiVersion") == kind.api_version:
        return record.data
    return orjson.dumps({**record.body, "apiVersion": kind.api_version})


def list_body(store: Store, call: Call) -> bytes:
    """The answer to a list: a List, or a Table when the client prefers one.

    Raises:
        Refusal: Bad selector, version or continue token; a version from the future or forgotten.
    """
    kind = call.kind
    page = _page(store, call, matcher(call))
    metadata: dict[str, Any] = {"resourceVersion": str(page.version)}
    if page.next:
        metadata["continue"] = page.next
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    if tables.wanted(call):
        return tables.table(kind, page.records, metadata, call)
    items = b",".join(encoded(kind, record) for record in page.records)
    return b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":[%b]}' % (
        kind.list_kind.encode(),
        kind.api_version.encode(),
        orjson.dumps(metadata),
        items,
    )


def matcher(call: Call) -> Matches | None:
    """What the label and field selectors of a call let through; None when there are none."""
    labels, fields = call.params.text("labelSelector"), call.params.text("fieldSelector")
    tests: list[Callable[[dict[str, Any]], bool]] = []
    if labels:
        chosen = selectors.parse_labels(labels)
        tests.append(lambda body: chosen.matches(body["metadata"].get("labels")))
    if fields:
        wanted = selectors.parse_fields(fields, call.kind)
        tests.append(wanted.matches)
    if call.target.name:
        name = call.target.name
        tests.append(lambda body: body["metadata"]["name"] == name)
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda body: all(test(body) for test in tests)


def _page(store: Store, call: Call, matches: Matches | None) -> _Page:
    collection = store.collection(call.kind.qualified_plural)
    limit = call.number("limit") or 0
    token = call.params.text("continue")
    after: Key | None = None
    if token:
        version, after = _read_token(token)
        records = _records_at(collection, version, call, continue_expired())
    else:
        version, records = _start(store, collection, call)
    if after is not None:
        records = [record for record in records if record.key > after]
    if matches is not None:
        records = [record for record in records if matches(record.body)]
    if not limit or len(records) <= limit:
        return _Page(records, version)
    rest = len(records) - limit
    page = records[:limit]
    return _Page(page, version, _token(version, page[-1].key), None if matches else rest)


def _start(store: Store, collection: Collection, call: Call) -> tuple[int, list[Record]]:
    """Version and records of a list that does not go on with another one."""
    asked = _version_of(call)
    match = call.params.text("resourceVersionMatch")
    if match and asked is None:
        raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match == "Exact" and asked == 0:
        raise bad_request('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')
    if asked:
        _await_version(store, asked)
    exact = match == "Exact" or (asked and call.number("limit") and not match)
    with store.lock:
        if exact and asked:
            gone = expired(f"The provided resource version is too old: {asked}")
            return asked, _records_at(collection, asked, call, gone)
        return store.version, collection.records(call.target.namespace)


def _records_at(
    collection: Collection, version: int, call: Call, otherwise: Refusal
) -> list[Record]:
    try:
        return collection.records_at(version, call.target.namespace)
    except ForgottenError as error:
        raise otherwise from error


def _version_of(call: Call) -> int | None:
    text = call.params.text("resourceVersion")
    if not text:
        return None
    if not text.isdigit():
        raise bad_request(f'Invalid value: "{text}": resourceVersion is no number')
    return int(text)


def _await_version(store: Store, asked: int) -> None:
    """A version from the future may come soon: wait for it as the real server does, then refuse."""
    deadline = time.monotonic() + _FUTURE_WAIT
    while store.version < asked and time.monotonic() < deadline:
        time.sleep(0.02)
    if store.version >= asked:
        return
    message = f"Too large resource version: {asked}, current: {store.version}"
    cause = Cause(CauseReason.INVALID, "Too large resource version").as_json()
    details = {
        "causes": [{**cause, "reason": "ResourceVersionTooLarge"}],
        "retryAfterSeconds": 1,
    }
    raise Refusal(504, "Timeout", message, details)


def watch_order(store: Store, call: Call) -> WatchOrder:
    """What a watch request wants.

    Raises:
        Refusal: Parameters that make no sense together.
    """
    asked = _version_of(call)
    send_initial = call.params.flag("sendInitialEvents")
    if send_initial and call.params.text("resourceVersionMatch") != "NotOlderThan":
        raise _initial_events_refused()
    if asked:
        _await_version(store, asked)
    legacy = not asked and not call.params.has("sendInitialEvents")
    bookmarks = call.params.flag("allowWatchBookmarks")
    seconds = call.number("timeoutSeconds") or _LONGEST_WATCH
    return WatchOrder(
        matches=matcher(call),
        start=asked or None,
        initial=send_initial or legacy,
        initial_bookmark=send_initial and bookmarks,
        bookmarks=bookmarks,
        seconds=float(seconds),
        namespace=call.target.namespace,
        api_version=call.kind.api_version,
        kind=call.kind.kind,
    )


def encoder(call: Call) -> Encode:
    if tables.wanted(call):
        return lambda record: tables.table(call.kind, [record], {}, call)
    return lambda record: encoded(call.kind, record)


def _initial_events_refused() -> Refusal:
    return Refusal(
        422,
        "Invalid",
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden:'
        " sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        {"group": "meta.k8s.io", "kind": "ListOptions"},
    )


def _token(version: int, key: Key) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([version, *key])).rstrip(b"=").decode()


def _read_token(token: str) -> tuple[int, Key]:
    try:
        padded = token + "=" * (-len(token) % 4)
        version, namespace, name = orjson.loads(base64.urlsafe_b64decode(padded))
        return int(version), (str(namespace), str(name))
    except (ValueError, TypeError, binascii.Error):
        raise bad_request("continue key is not valid") from None
