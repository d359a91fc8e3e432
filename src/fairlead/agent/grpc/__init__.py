"""gRPC with whoever has a socket on this machine: container runtimes, drivers of volumes and of devices."""
