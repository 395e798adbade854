"""The kinds that users write and read, as pydantic models, and the CRDs made from them.

The operator does not import this package at run time: it brings all models of the client with it, and
`core.parse` reads the few fields that matter. The API server is the one that validates.
"""
