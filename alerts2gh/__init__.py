"""Alertmanager webhooks become GitHub issues that open, close and reopen by themselves."""
