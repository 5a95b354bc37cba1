"""What is done about what is said: one small function a file."""
