"""Kubernetes quantities (`2`, `2000m`, `1k`, `16Gi`) as exact numbers.

Pure arithmetic on fractions: no float ever rounds a CPU or a GPU. Unreadable input is None, because
mutating webhooks see pods that nobody has validated yet.
"""

import re
from fractions import Fraction

_FACTORS: dict[str | None, Fraction] = {
    None: Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}
_QUANTITY = re.compile(
    # The digits are bounded: a text of a megabyte would take its time to become a number.
    r"(?P<number>[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,2}))?",
    re.ASCII,
)


def parse_quantity(value: object) -> Fraction | None:
    """The exact number of a quantity as JSON or YAML hold it (text or number), else None."""
    if type(value) is int:
        return Fraction(value)
    if isinstance(value, float):
        value = repr(
            value
        )  # as it was written: Kubernetes reads 0.1 as a tenth, not as a binary float
    found = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    number = Fraction(found["number"])
    if found["exponent"] is not None:
        return number * Fraction(10) ** int(found["exponent"])
    return number * _FACTORS[found["suffix"]]
