"""What the JSON shapes and the pages look up in the state. Reads only."""

from sandbox.github_server.model import App, Issue, Label, Milestone, User
from sandbox.github_server.state import GitHubState

GHOST = User(10137, "ghost")  # whom GitHub shows for accounts that are gone


class StateLookup:
    def __init__(self, state: GitHubState) -> None:
        self._state = state

    def user(self, login: str) -> User:
        return self._state.users.get("", login.lower()) or GHOST

    def labels_of(self, issue: Issue) -> list[Label]:
        found = (self._state.labels.get(issue.group, name.lower()) for name in issue.labels)
        return [label for label in found if label is not None]

    def milestone_of(self, issue: Issue) -> tuple[Milestone, int, int] | None:
        """The milestone with its counts of open and closed issues."""
        milestone = self._state.milestones.get(issue.group, str(issue.milestone))
        return (milestone, *self.counts(milestone)) if milestone else None

    def counts(self, milestone: Milestone) -> tuple[int, int]:
        issues = self._state.issues.in_group(milestone.group)
        states = [issue.state for issue in issues if issue.milestone == milestone.number]
        return states.count("open"), states.count("closed")

    def app(self, slug: str | None) -> App | None:
        if slug is None:
            return None
        return next((app for app in self._state.apps.all() if app.slug == slug), None)
