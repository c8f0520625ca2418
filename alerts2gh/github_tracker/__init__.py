"""GitHub as one credential sees it: the verbs of `ports.Tracker` over PyGithub.

The only place that imports `github`. It sends and reads; it must not decide, retry, or sleep.

    tracker      the verbs
    client       one verb's exchange: token, redirects, pages, scrubbing, telling the metrics
    connection   a thread's own PyGithub requester, one HTTP request at a time
    credentials  where the token comes from
    reading      GitHub's JSON as dataclasses
"""

from alerts2gh.github_tracker.tracker import GitHubTracker

__all__ = ["GitHubTracker"]
