"""The arbitrator: divides a cluster among namespaces and says what each may use."""
