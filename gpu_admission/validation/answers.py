"""What validation says: allowed, perhaps with warnings, or denied with a reason."""

from dataclasses import dataclass

from gpu_admission.judging import Denied
from gpu_admission.review import Answer


@dataclass(frozen=True, slots=True)
class Allowed:
    """Nothing against it; the warnings are for who submitted it."""

    warnings: tuple[str, ...] = ()

    def answer(self) -> Answer:
        """For the API server."""
        return Answer(allowed=True, warnings=self.warnings)


Verdict = Allowed | Denied
