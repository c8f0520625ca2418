"""The resource key `PREFIX/gpu-<name|any>[-<N>gb]`, and what to say about one that is wrong."""

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpu_admission.catalogue import Catalogue, Model, parse_quantity
from gpu_admission.gpu_request.reasons import Reason

ANY = "any"
_SELECTOR = re.compile(
    r"(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*?)(?:-(?P<gb>[1-9][0-9]{0,3})gb)?", re.ASCII
)
_ALMOST = re.compile(
    r"(?:(?P<name>[a-z0-9]+(?:[-_][a-z0-9]+)*?)[-_]?)??0*(?P<gb>[1-9][0-9]{0,3})[-_]?(?:g|gb|gi|gib)?",
    re.ASCII,
)
_LISTED = 20
_MAX_AMOUNT = 2**31
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class KeySpec:
    """A key that was understood; `model` is None for any, `min_vram_gb` is 0 if none was asked for."""

    key: str
    name: str
    min_vram_gb: int
    model: Model | None

    @property
    def selector(self) -> str:
        """The key without its domain, for people: `gpu-any-24gb`."""
        return self.key.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class KeyProblem:
    """A key that means nothing, with what to write instead."""

    reason: Reason
    text: str


def parse_key(key: str, catalogue: Catalogue) -> KeySpec | KeyProblem:
    """Read a key that begins with the catalogue's `key_prefix`."""
    selector = key[len(catalogue.key_prefix) :]
    found = _SELECTOR.fullmatch(selector)
    if found is None:
        return KeyProblem(Reason.MALFORMED_KEY, _malformed(key, selector, catalogue))
    name = found["name"]
    model = None if name == ANY else catalogue.find(name)
    if model is None and name != ANY:
        return KeyProblem(Reason.UNKNOWN_GPU, _unknown(key, name, selector, catalogue))
    return KeySpec(key, name, int(found["gb"] or 0), model)


def parse_amount(value: object) -> int | str:
    """The number of GPUs in a Quantity, or what is wrong with it."""
    if (
        isinstance(value, str)
        and value.isdecimal()
        and value.isascii()
        and len(value) < len("2147483648")
    ):
        return int(value)
    shown = f'amount "{shortened(value)}"'
    number = parse_quantity(value)
    if number is None:
        return f"{shown}: not a number; write how many GPUs, like 1"
    if number.denominator != 1:
        return f"{shown}: must be a whole number"
    if number < 0:
        return f"{shown}: must not be negative"
    if number >= _MAX_AMOUNT:
        return f"{shown}: too large"
    return int(number)


def capped(names: Iterable[str], limit: int = _LISTED) -> str:
    """The names with commas, at most `limit` of them: the text ends up in events."""
    listed = list(names)
    more = f", and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more


def shortened(value: object) -> str:
    """The value as text, not longer than fits into a message."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(each if each.isprintable() else "?" for each in text[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _malformed(key: str, selector: str, catalogue: Catalogue) -> str:
    if instead := _meant(selector, catalogue):
        return f"{shortened(key)}: write it {catalogue.key_prefix}{instead}"
    return (
        f"{shortened(key)} is no GPU; write {catalogue.key_prefix}NAME or "
        f"{catalogue.key_prefix}NAME-24gb, in small letters, with NAME one of "
        f"{_valid(catalogue)}"
    )


def _unknown(key: str, name: str, selector: str, catalogue: Catalogue) -> str:
    if name == "mem" or name.startswith("mem-"):
        return f'{shortened(key)}: "mem" is reserved; valid names: {_valid(catalogue)}'
    text = f'unknown GPU "{shortened(name)}" in {shortened(key)}'
    if instead := _meant(selector, catalogue):
        return f"{text}; did you mean {catalogue.key_prefix}{instead}? valid names: {_valid(catalogue)}"
    near = difflib.get_close_matches(name[:_SHOWN], catalogue.names(), n=1)
    hint = f'; did you mean "{near[0]}"?' if near else ";"
    return f"{text}{hint} valid names: {_valid(catalogue)}"


def _meant(selector: str, catalogue: Catalogue) -> str | None:
    """What would be valid and was probably meant: `V100-32Gi` is v100-32gb, `24gb` is any-24gb."""
    for candidate in _corrections(selector[:_SHOWN].lower().strip("-_. ")):
        found = _SELECTOR.fullmatch(candidate)
        if found and (found["name"] == ANY or catalogue.find(found["name"])):
            return candidate
    return None


def _corrections(small: str) -> Iterator[str]:
    yield small
    yield small.replace("_", "-")
    if found := _ALMOST.fullmatch(small):
        yield f"{(found['name'] or ANY).replace('_', '-')}-{found['gb']}gb"


def _valid(catalogue: Catalogue) -> str:
    sizes = sorted({variant.vram_gb for variant in catalogue.variants})
    return f"{capped(catalogue.names())} (VRAM in GB: {capped(map(str, sizes))})"
