"""What becomes of certificate signing requests: approved, signed, removed."""
