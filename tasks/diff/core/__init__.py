"""What two builds differ in, decided from their locks, their rows and the calls these rest on; pure."""
