"""Makes the tables of facts about built-in types from the sources that Kubernetes publishes."""
