"""What the end-to-end tests share: a terminal with a real kubectl, clusters to point it at, transcripts to compare."""
