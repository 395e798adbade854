"""Taskyard: a task queue that lives in the Kubernetes API."""
