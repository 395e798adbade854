"""A real Kubernetes for development and tests, on any machine.

One interface (`python -m cluster up|down|status|…`, wrapped by the Makefile), three providers behind it:

* `kind`, where a container engine answers;
* `native`, where none does: Kubernetes built from pinned Go modules, nodes in Linux namespaces;
* `current`, the user's own kubeconfig context, only when asked for by name.
"""
