"""Queues of other batch systems, read from a dump as what the arbitrator divides by: Consumers and ConsumerGroups."""
