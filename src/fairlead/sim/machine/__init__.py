"""What a simulated machine does with what its pods use: memory, processes, disks, and who has to go."""
