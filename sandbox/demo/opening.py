"""How the demo's story opens: people ask for GPUs in a line, get them where they may, and are told where they may not."""

from chassis.errors import NodemendError
from sandbox.demo.admission import PREFIX
from sandbox.demo.fleet import Fleet
from sandbox.demo.people import (
    MISTAKE_ASKS,
    SERVICE,
    SERVICE_ASKS,
    TRAINING,
    TRAINING_ASKS,
    limits_of,
    products_of,
)
from sandbox.demo.terminal import DemoError, Story, aside

_RUNS_SECONDS = 60


class Opening:
    """One telling of it."""

    def __init__(self, story: Story, fleet: Fleet) -> None:
        self._story = story
        self._fleet = fleet
        self._people = fleet.people

    def tell(self) -> None:
        """Tell it; afterwards the training runs on the node that is to break.

        Raises:
            DemoError: It went another way.
            StoppedError: The demo was stopped meanwhile.
        """
        try:
            self._train()
            self._serve()
        except NodemendError as error:
            raise DemoError(str(error)) from error
        self._mistake()

    def _train(self) -> None:
        self._story.step(
            "A researcher's training needs one GPU with at least 40 GB, whichever. Its pod says so in three lines:"
        )
        for line in ("resources:", "  limits:", f"    {PREFIX}{TRAINING_ASKS}: 1"):
            aside(f"  | {line}")
        self._people.submit_training()
        node = self._settled(TRAINING)
        aside(f"{self._became(TRAINING)}, the cheapest first.")
        aside(f"It runs on {node}, which has {self._fleet.product(node)}.")
        if node != self._fleet.node:
            raise DemoError(
                f"the training should run on {self._fleet.node}, which has the cheapest"
            )

    def _serve(self) -> None:
        self._story.step(
            f"A service of high priority asks for {PREFIX}{SERVICE_ASKS}: 1, and gets the smallest that will do:"
        )
        self._people.submit_service()
        node = self._settled(SERVICE)
        aside(f"{self._became(SERVICE)}.")
        aside(f"It runs on {node}, which has {self._fleet.product(node)}.")

    def _mistake(self) -> None:
        self._story.step(
            f"Somebody asks for {PREFIX}{MISTAKE_ASKS}: 1, which there is not, and is told at once:"
        )
        told = self._people.submit_mistake()
        if not told:
            raise DemoError(f"a pod that asks for {PREFIX}{MISTAKE_ASKS} was made all the same")
        aside(f"  | {told}")

    def _settled(self, app: str) -> str:
        """The node on which it runs at last."""
        self._story.wait_for(
            f"the pod of {app} to run",
            lambda: self._people.runs_on(app) != "",
            _RUNS_SECONDS,
            lambda: self._pending(app),
        )
        return self._people.runs_on(app)

    def _pending(self, app: str) -> str:
        told = self._people.why_pending(app)
        return f"the scheduler says: {told}" if told else ""

    def _became(self, app: str) -> str:
        pod = self._people.pods(app)[0]
        limits = ", ".join(f"{key}: {value}" for key, value in limits_of(pod).items())
        *others, last = products_of(pod) or ["any GPU"]
        products = f"{', '.join(others)} or {last}" if others else last
        return f"gpu_admission makes of it: {limits}, on a node with {products}"
