"""The one error of this program: a sentence for the person who typed the command."""


class ClusterError(Exception):
    """Says what is missing or went wrong, in words that need no stack trace."""
