"""What came to a cluster in the last hour or so, by its Events, Jobs and pods: so that it can come again."""
