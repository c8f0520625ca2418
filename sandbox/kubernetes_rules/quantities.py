"""Kubernetes quantities (`500m`, `16Gi`, `8`) as exact numbers, and back.

Pure arithmetic on fractions: no float ever rounds a CPU or a byte.
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

_BINARY = {
    suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}
_DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
}
_FACTORS = {**{suffix: Fraction(factor) for suffix, factor in _BINARY.items()}, **_DECIMAL}
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?",
    re.ASCII,
)
_EXPECTED = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class NotAQuantity(ValueError):  # noqa: N818  (the domain's word)
    """Text that Kubernetes would not read as a quantity."""


def parse_quantity(value: object) -> Fraction:
    """The exact number; finer than a billionth is rounded up, as Kubernetes does.

    Raises:
        NotAQuantity: Kubernetes would refuse to read it.
    """
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise NotAQuantity(_EXPECTED)
    number = Fraction(found["number"])
    if found["exponent"] is not None:
        return _rounded(number * Fraction(10) ** int(found["exponent"]))
    return _rounded(number * _FACTORS[found["suffix"] or ""])


def _rounded(number: Fraction) -> Fraction:
    """Away from zero to the next billionth."""
    scaled = number * 10**9
    whole = scaled.numerator // scaled.denominator
    if scaled.denominator != 1 and scaled > 0:
        whole += 1
    return Fraction(whole, 10**9)


def format_quantity(number: Fraction, *, binary: bool = False) -> str:
    """The canonical text: the largest suffix that leaves a whole number. `binary` for `Ki`, `Mi` and so on."""
    if binary and number.denominator == 1 and abs(number) >= 1024:  # noqa: PLR2004  (one Ki)
        suffix, factor = max(
            ((s, f) for s, f in _BINARY.items() if number % f == 0),
            key=lambda pair: pair[1],
            default=("", 1),
        )
        return f"{number / factor}{suffix}"
    if number == 0:
        return "0"
    fitting = [(s, f) for s, f in _DECIMAL.items() if (number / f).denominator == 1]
    suffix, decimal = max(fitting, key=lambda pair: pair[1])
    return f"{(number / decimal).numerator}{suffix}"


def canonical(value: object) -> str:
    """A quantity as Kubernetes writes it back: `1000m` is `1`, `0.5` is `500m`, `1024Mi` is `1Gi`."""
    return format_quantity(parse_quantity(value), binary=isinstance(value, str) and "i" in value)


def total(lists: Iterable[Mapping[str, object]]) -> dict[str, Fraction]:
    """The sum, resource by resource."""
    sums: dict[str, Fraction] = {}
    for each in lists:
        for name, value in each.items():
            sums[name] = sums.get(name, Fraction(0)) + parse_quantity(value)
    return sums
