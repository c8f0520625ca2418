"""What validation says: allowed, perhaps with warnings, or denied with a reason."""

from dataclasses import dataclass

from gpu_admission.gpu_request import Ask, Reason
from gpu_admission.review import Answer


@dataclass(frozen=True, slots=True)
class Allowed:
    """Nothing against it; the warnings are for who submitted it."""

    warnings: tuple[str, ...] = ()

    def answer(self) -> Answer:
        """For the API server."""
        return Answer(allowed=True, warnings=self.warnings)


@dataclass(frozen=True, slots=True)
class Denied:
    """Refused; the text says what, where, and what to do instead."""

    reason: Reason
    text: str
    code: int
    asks: tuple[Ask, ...] = ()
    class_name: str = ""

    def answer(self) -> Answer:
        """For the API server."""
        return Answer(
            allowed=False,
            code=self.code,
            text=self.text,
            audit_annotations={"denied": self.reason.value},
        )


Verdict = Allowed | Denied
